"""Where the operator allows fewer tokens than our defaults are: only what is asked is bounded."""

from __future__ import annotations

from typing import Any

import pytest
from annotated_types import Le

from mmconv.benchmarks.registry import TITLES
from mmconv.service.runs.requests import description, open_options, resolve
from tests.mmconv.benchmarks.shared.requests import REQUESTS
from tests.mmconv.service.conftest import Serve
from tests.mmconv.service.runs.test_requests import asked, settings
from tests.pictures import picture

FEW: dict[str, Any] = {"max_tokens": 512}

SAID = {"model": "echo", "turns": [{"instruction": "Hello"}]}
JUDGED = {"judge": "judge"} | REQUESTS["convbench/direct_turn_1"]


@pytest.mark.parametrize(
    ("path", "body", "change", "param"),
    [
        ("dialogues", SAID, {"sampling": {"max_tokens": 513}}, "sampling.max_tokens"),
        ("dialogues", SAID, {"judge_max_tokens": 513}, "judge_max_tokens"),
        ("judgements", JUDGED, {"max_tokens": 513}, "max_tokens"),
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
    spec = resolve(settings(sizes=FEW), asked(sampling={"candidate": {"temperature": 0.5}}))
    assert spec.sampling["candidate"].temperature == 0.5


@pytest.mark.parametrize(("path", "body"), [("dialogues", SAID), ("chat/completions", None)])
async def test_temperatures_have_one_bound(
    serve: Serve, path: str, body: dict[str, Any] | None
) -> None:
    served = await serve()
    for hot, status in ((2.0, 200), (2.5, 400)):
        asked = (
            {"model": "echo", "messages": [{"role": "user", "content": "Hi"}], "temperature": hot}
            if body is None
            else {**body, "sampling": {"temperature": hot}}
        )
        assert (await served.client.post(f"/v1/{path}", json=asked)).status_code == status


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
    assert known is not None
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
    assert "judge_retries" in numbers
    assert not unbounded
