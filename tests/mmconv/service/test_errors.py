"""Errors: one shape, the right field, words for people who send JSON, nothing of this machine."""

import asyncio
import errno
import gc
import os
import weakref
from typing import Any

import pytest

from mmconv.core.errors import StoreError
from mmconv.core.types import Failure
from mmconv.engine import garbage
from mmconv.service.errors import LONGEST, Problem, presentable, without_commands
from mmconv.service.models import problem_of_failure
from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.run_settings import CHAT, drawn, request
from tests.mmconv.store.conftest import small_disk
from tests.pictures import picture

NOT_TAKEN = "this model does not take it; leave it out"
MOST_TOKENS = "at most 65,536 may be asked for"
NOT_HERE = "not supported here: leave it out"


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
def test_places_of_this_machine_are_hidden(message: str, caplog: pytest.LogCaptureFixture) -> None:
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


def test_a_long_message_is_cut_where_one_sees_it() -> None:
    assert Problem(400, "x" * LONGEST).message == "x" * LONGEST
    assert Problem(400, "x" * (LONGEST + 1)).message == "x" * (LONGEST - 4) + " ..."


def test_a_wait_is_told_in_whole_seconds_and_never_none() -> None:
    assert Problem(429, "x", retry_after=0.2).headers == {"Retry-After": "1"}
    assert Problem(429, "x", retry_after=2.1).headers == {"Retry-After": "3"}


@pytest.mark.parametrize(
    "path", ["/v1/runs", "/v1/runs/x", "/v1/dialogues/dialogue-0123456789ab", "/ready"]
)
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


async def test_memory_of_bugs_is_collected(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    collected = asyncio.Event()
    monkeypatch.setattr("mmconv.engine.garbage.COLLECT_SECONDS", 0.05)
    monkeypatch.setattr(garbage, "_due", 0.0)

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


async def test_other_file_errors_are_bugs(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
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


def part(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [fields]}]}


FORMAT = {"type": "json_schema", "json_schema": {"schema": {}}, "x": 1}
CONTENT = "messages[0].content[0]"


@pytest.mark.parametrize(
    ("change", "param", "message"),
    [
        ({"tools": [{"type": "function"}]}, "tools", NOT_HERE),
        ({"frequency_penalty": 0.5}, "frequency_penalty", NOT_TAKEN),
        ({"logprobs": True}, "logprobs", NOT_TAKEN),
        ({"reasoning_effort": "high"}, "reasoning_effort", NOT_TAKEN),
        ({"store": True}, "store", "should be False"),
        ({"top_p": -0.1}, "top_p", "should be greater than or equal to 0"),
        ({"max_tokens": 10**9}, "max_tokens", MOST_TOKENS),
        ({"max_completion_tokens": 10**9}, "max_completion_tokens", MOST_TOKENS),
        ({"messages": [{"role": "user"}]}, "messages[0].content", "field required"),
        (
            {"messages": [{"role": "system", "content": [{"type": "text", "text": 3}]}]},
            f"{CONTENT}.text",
            "should be a valid string",
        ),
        ({"logit_bias": {"5": 1}}, "logit_bias", NOT_TAKEN),
        ({"messages": []}, "messages", "list should have at least 1 item after validation, not 0"),
        ({"messages": {}}, "messages", "should be a valid list"),
        ({"max_tokens": "many"}, "max_tokens", "should be a valid integer"),
        ({"temperature": 3}, "temperature", "should be less than or equal to 2"),
        ({"n": 129}, "n", "should be less than or equal to 128"),
        ({"stop": [""]}, "stop[0]", "should have at least 1 character"),
        ({"stop": ""}, "stop", "should have at least 1 character or should be a valid list"),
        (
            {"messages": [{"role": "tool", "content": "x"}]},
            "messages[0]",
            "tag 'tool' found using 'role' does not match any of the expected tags: 'system', "
            "'developer', 'user', 'assistant'",
        ),
        ({"messages": [{"content": "x"}]}, "messages[0]", "'role' is missing"),
        (part(type="text", text="a", cached={}), f"{CONTENT}.cached", "no such field"),
        (part(type="text"), f"{CONTENT}.text", "field required"),
        (part(type="image_url", image_url={"url": "u"}, x=1), f"{CONTENT}.x", "no such field"),
        (
            part(type="image_url", image_url={"url": "u", "x": 1}),
            f"{CONTENT}.image_url.x",
            "no such field",
        ),
        ({"response_format": FORMAT}, "response_format.x", "no such field"),
        (
            {"max_tokens": 6, "max_completion_tokens": 5},
            None,
            "max_tokens and max_completion_tokens differ; give one of them",
        ),
    ],
)
async def test_the_wrong_field_of_a_chat_is_named(
    served: Served, change: dict[str, Any], param: str | None, message: str
) -> None:
    answer = await served.client.post("/v1/chat/completions", json=CHAT | change)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, param)
    assert error["type"] == "invalid_request_error"
    assert error["message"] == (f"{param}: {message}" if param else message)


async def test_where_json_ends_is_told(served: Served) -> None:
    body = b'{"model": "echo",, }'
    headers = {"Content-Type": "application/json"}
    answer = await served.client.post("/v1/chat/completions", content=body, headers=headers)
    error = answer.json()["error"]
    assert error["code"] == "invalid_json"
    assert error["message"].startswith("the body is not JSON: ")
    assert error["message"].endswith("(at character 18)")


async def test_the_command_line_is_not_spoken_of(serve: Serve, tmp_path: Any) -> None:
    client = (await serve(data=drawn(tmp_path))).client
    answer = await client.post("/v1/runs", json=request(models={"candidate": "echo"}))
    assert answer.json()["error"] == {
        "message": "convbench needs a judge: name one, or give options.generate_only",
        "type": "invalid_request_error",
        "param": "models.judge",
        "code": "invalid_run",
    }


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("see --out and name one (--judge reference/chrf)", "see out and name one"),
        ("--skip-bad-records continues", "options.skip_bad_records continues"),
        ("leave out --prompts", "leave out the server's own prompts"),
        ("one--or two, got '--x'", "one--or two, got '--x'"),
    ],
)
def test_options_of_the_command_line_become_fields(message: str, words: str) -> None:
    assert without_commands(message) == words
