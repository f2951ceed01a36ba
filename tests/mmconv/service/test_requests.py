"""Bounded JSON, known query parameters, and the operator's limits on requests."""

from typing import Any

import orjson
import pytest
from annotated_types import Le

from mmconv.benchmarks.registry import TITLES
from mmconv.service.errors import Problem
from mmconv.service.requests import DEEPEST, read_json
from mmconv.service.run_requests import description, open_options
from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.judged import TURN
from tests.mmconv.service.test_runs import asked, run_spec, settings
from tests.pictures import picture


def test_json_is_bounded_by_values_and_depth() -> None:
    deep = b"[" * DEEPEST + b"]" * DEEPEST
    assert read_json(b'{"a": [1, 2]}', 4) == {"a": [1, 2]}
    assert read_json(b"[" * (DEEPEST - 1) + b"]" * (DEEPEST - 1), 1000)
    with pytest.raises(Problem, match="more than 3 values"):
        read_json(b'{"a": [1, 2, 3]}', 3)
    with pytest.raises(Problem, match="nested"):
        read_json(b"[" + deep + b"," + deep + b"]", 1000)


@pytest.mark.parametrize(
    "text", ["a, b" * 50, '"quoted, ", ' * 20, "\\\\, " * 20, "[{,}]" * 20, "\n,"]
)
def test_signs_in_texts_separate_no_values(text: str) -> None:
    body = orjson.dumps({"a": text, "b": [1, text]})
    assert read_json(body, 5) == {"a": text, "b": [1, text]}
    with pytest.raises(Problem, match="more than 3 values"):
        read_json(body, 3)


@pytest.mark.parametrize("body", [b'"' * 100_000, b'"\\' * 100_000, b'["' + b"," * 100_000])
def test_texts_without_an_end_take_no_time(body: bytes) -> None:
    with pytest.raises((Problem, orjson.JSONDecodeError)):
        read_json(body, 10)


POSTED = ("/v1/runs", "/v1/dialogues", "/v1/judgements", "/v1/chat/completions", "/v1/images")


@pytest.mark.parametrize("path", POSTED)
async def test_posts_refuse_parameters_that_they_do_not_know(served: Served, path: str) -> None:
    answer = await served.client.post(path, params={"zzz": "1"}, json={})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["code"]) == (400, "zzz", "unknown_parameter")


@pytest.mark.parametrize(
    ("path", "param"),
    [
        ("/v1/runs?zzz=1", "zzz"),
        ("/v1/runs/x?zzz=1", "zzz"),
        ("/v1/runs/x/samples/1?prompt=true", "prompt"),
        ("/v1/runs/x/images/" + "0" * 64 + "?smal=true", "smal"),
        ("/v1/runs?state=done&state=failed", "state"),
        ("/v1/runs/x/samples/1?prompts=true&prompts=false", "prompts"),
        ("/web/choices?zzz=1", "zzz"),
    ],
)
async def test_wrong_parameters_are_refused(served: Served, path: str, param: str) -> None:
    answer = await served.client.get(path)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


async def test_what_is_known_is_taken(served: Served) -> None:
    compared = "/v1/compare?runs=a,b&despite=judge&despite=data"
    assert (await served.client.get(compared)).status_code == 404
    assert (await served.client.get("/v1/runs?state=done&limit=1")).status_code == 200
    # Scripts of the pages read what stands here.
    assert (await served.client.get("/compare?runs=a,b&zzz=1")).status_code == 200


FEW: dict[str, Any] = {"max_tokens": 512}

SAID = {"model": "echo", "turns": [{"instruction": "Hello"}]}


@pytest.mark.parametrize(
    ("path", "body", "change", "param"),
    [
        ("dialogues", SAID, {"sampling": {"max_tokens": 513}}, "sampling.max_tokens"),
        ("dialogues", SAID, {"judge_max_tokens": 513}, "judge_max_tokens"),
        ("judgements", TURN, {"options": {"judge_max_tokens": 513}}, "options.judge_max_tokens"),
    ],
)
async def test_only_what_a_client_asks_for_is_bounded(
    serve: Serve, path: str, body: dict[str, Any], change: dict[str, Any], param: str
) -> None:
    served = await serve(sizes=FEW)
    answer = await served.client.post(f"/v1/{path}", json=body)
    assert answer.status_code == 200, answer.text
    refused = await served.client.post(f"/v1/{path}", json={**body, **change})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


def test_a_runs_sampling_that_names_no_tokens_is_taken() -> None:
    spec = run_spec(settings(sizes=FEW), asked(sampling={"candidate": {"temperature": 0.5}}))
    assert spec.sampling["candidate"].temperature == 0.5


async def test_all_pixels_of_a_request_have_one_bound(serve: Serve) -> None:
    """A small file may hold millions, and the same image is decoded wherever it stands."""
    served = await serve(sizes={"request_pixels": 2 * 40 * 30})
    posted = await served.client.post("/v1/images", content=picture(1, (40, 30)))
    image = posted.json()["id"]
    part = {"type": "image_url", "image_url": {"url": f"image:{image}"}}
    turn = {"instruction": "What is it?"}
    for number, status in ((2, 200), (3, 413)):
        content = [part] * number + [{"type": "text", "text": "What is it?"}]
        chat = {"model": "echo", "messages": [{"role": "user", "content": content}]}
        dialogue = {"model": "echo", "turns": [turn, {**turn, "images": [image] * (number - 1)}]}
        for path, body, param in (
            ("chat/completions", chat, "messages[0].content[2].image_url.url"),
            ("dialogues", {**dialogue, "images": [image]}, "turns[1].images[1]"),
        ):
            answer = await served.client.post(f"/v1/{path}", json=body)
            assert answer.status_code == status, answer.text
            if status == 413:
                assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize("benchmark", TITLES)
def test_every_number_that_multiplies_calls_has_a_bound(benchmark: str) -> None:
    """All calls of a plan are in memory at once, and clients set these options."""
    known = description(benchmark)
    numbers = {
        name: field.metadata
        for name, field in known.options.model_fields.items()
        if name in open_options(benchmark) and field.annotation is int
    }
    # The operator's limit on tokens is looked at with each request.
    unbounded = {
        name
        for name, rules in numbers.items()
        if not any(isinstance(rule, Le) for rule in rules) and not name.endswith("max_tokens")
    }
    assert ("judge_retries" in numbers) == ("judge" in known.roles)
    assert not unbounded
