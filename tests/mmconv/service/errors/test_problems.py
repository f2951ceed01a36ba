from __future__ import annotations

import asyncio
import errno
import gc
import os
import weakref
from typing import Any

import pytest

from mmconv.core.errors import StoreError
from mmconv.core.types import Failure
from mmconv.engine.garbage import collect_soon
from mmconv.service.errors.privacy import presentable
from mmconv.service.errors.problems import LONGEST, Problem
from mmconv.service.errors.validation import validation_problem
from mmconv.service.models.failures import problem_of_failure
from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.store.conftest import small_disk
from tests.pictures import picture


@pytest.mark.parametrize(
    "message",
    [
        "/data/rows.jsonl: 1 problem(s)",
        "cannot open ../x",
        "image ~/pictures/x.png is gone",
        "'/checkpoints/llava' holds no checkpoint",
        "HTTP 404: check that base_url http://10.0.0.7:8000/v1 is right",
        "path=/srv/x",
        "(/srv/x)",
        r"C:\models\llava",
        "check the key in the environment variable OPENAI_API_KEY",
    ],
)
def test_places_of_this_machine_are_not_told(
    message: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert presentable(message, "general words") == "general words"
    assert message in caplog.text


@pytest.mark.parametrize(
    "message",
    [
        "5,000 pixels, and at most 4,000 are allowed",
        "give direct and/or pairwise",
        "turn 3/4: the score is 1/2",
        "options.grading: choose one of direct, pairwise",
        "the prompt has 70 tokens; 64 fit",
    ],
)
def test_other_messages_are(message: str) -> None:
    assert presentable(message, "general words") == message


def test_a_failure_of_the_request_is_told_and_one_of_the_server_is_not() -> None:
    long = problem_of_failure(Failure(kind="context", message="64 tokens fit", attempts=1))
    assert (long.status, long.message, long.code) == (
        400,
        "64 tokens fit",
        "context_length_exceeded",
    )
    lost = problem_of_failure(Failure(kind="connection", message="10.0.0.7 is down", attempts=8))
    assert (lost.status, lost.message) == (502, "the model could not be reached")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (429, "rate_limit_error"),
        (500, "server_error"),
        (503, "server_error"),
    ],
)
def test_the_type_is_openais(status: int, kind: str) -> None:
    assert Problem(status, "x").body["error"]["type"] == kind


async def test_a_request_that_contradicts_itself_is_told_in_its_own_words(served: Served) -> None:
    asked = {"model": "echo", "messages": [{"role": "user", "content": "hi"}]}
    both = {"max_tokens": 6, "max_completion_tokens": 5}
    answer = await served.client.post("/v1/chat/completions", json={**asked, **both})
    assert answer.status_code == 400
    told = answer.json()["error"]["message"]
    assert told == "max_tokens and max_completion_tokens differ; give one of them"


def test_a_long_message_is_cut_where_one_sees_it() -> None:
    assert Problem(400, "x" * LONGEST).message == "x" * LONGEST
    assert Problem(400, "x" * (LONGEST + 1)).message == "x" * (LONGEST - 4) + " ..."


def test_a_wait_is_told_in_whole_seconds_and_never_none() -> None:
    assert Problem(429, "x", retry_after=0.2).headers == {"Retry-After": "1"}
    assert Problem(429, "x", retry_after=2.1).headers == {"Retry-After": "3"}


@pytest.mark.parametrize(
    ("location", "body", "param"),
    [
        (("body", "turns", 0, "user", "text"), {"turns": [{"text": 3}]}, "turns[0].text"),
        (("body", "turns", 0, "text"), {"turns": [{}]}, "turns[0].text"),
        (("body", "image", "str"), {"image": 3}, "image"),
        (("query", "limit"), None, "limit"),
        (("turns", 0), None, "turns[0]"),
        (("body",), [], None),
    ],
)
def test_fields_are_named_as_clients_wrote_them(
    location: tuple[str | int, ...], body: object, param: str | None
) -> None:
    problem = validation_problem([{"type": "wrong", "loc": location, "msg": "is wrong"}], body)
    assert problem.param == param


@pytest.mark.parametrize(
    ("part", "param"),
    [
        ({"type": "text", "text": "a", "cache_control": {}}, "cache_control"),
        ({"type": "text"}, "text"),
        ({"type": "image_url", "image_url": {"url": "u"}, "x": 1}, "x"),
        ({"type": "image_url", "image_url": {"url": "u", "x": 1}}, "image_url.x"),
    ],
)
async def test_the_wrong_field_of_a_part_is_named(
    served: Served, part: dict[str, Any], param: str
) -> None:
    body = {"model": "echo", "messages": [{"role": "user", "content": [part]}]}
    answer = await served.client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == f"messages[0].content[0].{param}"


async def test_an_unknown_field_of_a_format_is_named(served: Served) -> None:
    wanted = {"type": "json_schema", "json_schema": {"schema": {}}, "x": 1}
    body = {"model": "echo", "messages": [{"role": "user", "content": "a"}]}
    answer = await served.client.post(
        "/v1/chat/completions", json={**body, "response_format": wanted}
    )
    assert answer.json()["error"]["param"] == "response_format.x"


async def test_what_nobody_foresaw_is_not_told(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object, name: str, param: str = "model") -> None:
        raise RuntimeError("secret in /srv/x")

    monkeypatch.setattr("mmconv.service.state.Service.model", fail)
    answer = await served.client.get("/v1/models/x")
    assert answer.status_code == 500
    # The server closes it, and the next request would be lost.
    assert answer.headers["connection"] == "close"
    assert "/srv" not in answer.text
    assert "Traceback" not in answer.text
    page = (await served.client.get("/metrics")).text
    assert 'route="/v1/models/{model:path}",status="500"} 1.0' in page


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/runs/x", "/v1/dialogues/dialogue-0123456789ab"])
async def test_a_database_that_is_away_is_no_bug(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    async def fail(*_given: object, **_named: object) -> None:
        raise StoreError("no server at 10.0.0.7")

    for name in ("get", "page"):
        monkeypatch.setattr(f"mmconv.store.queue.Queue.{name}", fail)
    answer = await served.client.get(path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_database")
    assert int(answer.headers["retry-after"]) > 0
    assert "10.0.0.7" not in answer.text
    [line] = [each.getMessage() for each in caplog.records if "10.0.0.7" in each.getMessage()]
    name = answer.headers["x-request-id"]
    assert line == f"GET '{path}', request {name} of local: no server at 10.0.0.7"


async def test_what_a_bug_leaves_in_memory_is_collected(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected = asyncio.Event()
    monkeypatch.setattr("mmconv.engine.garbage.COLLECT_SECONDS", 0.05)
    monkeypatch.setattr(collect_soon, "_due", 0.0)

    def decode() -> None:
        picture = set[int]()
        weakref.finalize(picture, collected.set)
        raise MemoryError

    async def fail(*_given: object, **_named: object) -> None:
        await asyncio.to_thread(decode)

    monkeypatch.setattr("model_zoo.simulated.fake.FakeBackend.generate", fail)
    body = {"model": "echo", "messages": [{"role": "user", "content": "hello"}]}
    gc.disable()
    try:
        assert (await served.client.post("/v1/chat/completions", json=body)).status_code == 500
        async with asyncio.timeout(10):
            await collected.wait()
    finally:
        gc.enable()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
async def test_a_disk_without_room_is_no_bug(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    def fail(*_given: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("images.uploads.Uploads.keep", fail)
    answer = await served.client.post("/v1/images", content=picture(1))
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_room")
    assert int(answer.headers["retry-after"]) > 0
    out = served.shared.settings.out
    [line] = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert line.startswith("POST '/v1/images', request ")
    assert f"of local: cannot write into {out}: [Errno {number}]" in line
    assert str(out) not in answer.text


async def test_another_fault_of_a_file_is_a_bug(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_given: object) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr("images.uploads.Uploads.keep", fail)
    answer = await served.client.post("/v1/images", content=picture(1))
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "bug")


async def test_a_database_without_room_is_told_from_one_that_is_away(serve: Serve) -> None:
    with small_disk():
        served = await serve()
        for number in range(99):
            body = {"model": "echo", "turns": [{"instruction": f"{number}" * 9_999}]}
            answer = await served.client.post("/v1/dialogues", json=body)
            if answer.status_code != 200:
                break
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_room")


async def test_every_route_tells_that_it_may_be_out_of_service(served: Served) -> None:
    document = (await served.client.get("/openapi.json")).json()
    for operations in document["paths"].values():
        for operation in operations.values():
            assert "503" in operation["responses"]


async def test_other_methods_and_paths_have_the_same_shape(served: Served) -> None:
    for method, path, status in (("PUT", "/v1/models", 405), ("GET", "/v2", 404)):
        answer = await served.client.request(method, path)
        assert answer.status_code == status
        assert answer.json()["error"]["message"]
