"""Models without a key are refused beforehand, and failures stop what they must."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mmconv.service.openapi import EXAMPLES
from mmconv.store.jobs import Filter
from tests.mmconv.service.conftest import MODELS, Serve
from tests.mmconv.service.dialogues.samples import TURNS
from tests.mmconv.service.run_settings import drawn, ended, request
from tests.mock_server import mock_server

KEYLESS = {"provider": "openai", "model": "x", "api_key_env": "MMCONV_NO_SUCH_KEY"}
SAID = [{"role": "user", "content": "Hello"}]
ONE_TURN = [{"instruction": "What is it?", "reference": "A kite."}]
REQUESTS: list[tuple[str, dict[str, Any], str]] = [
    ("chat/completions", {"model": "keyless", "messages": SAID}, "model"),
    ("dialogues", {"model": "keyless", "turns": ONE_TURN}, "model"),
    ("dialogues", {"model": "echo", "judge": "keyless", "turns": ONE_TURN}, "judge"),
    (
        "judgements",
        {**next(iter(EXAMPLES["POST /v1/judgements"].values())), "judge": "keyless"},
        "judge",
    ),
    (
        "runs",
        request(models={"candidate": "keyless", "judge": "judge"}),
        "models.candidate",
    ),
]


@pytest.mark.parametrize(("path", "body", "param"), REQUESTS)
@pytest.mark.parametrize("calls", [0, 100])
async def test_it_is_refused_by_name_and_nothing_is_queued(
    serve: Serve, tmp_path: Path, path: str, body: dict[str, Any], param: str, calls: int
) -> None:
    models = {**MODELS, "keyless": KEYLESS}
    served = await serve(models=models, data=drawn(tmp_path), synchronous_calls=calls)
    refused = await served.client.post(f"/v1/{path}", json=body)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["param"]) == (409, "model_unusable", param)
    assert "'keyless'" in error["message"]
    assert "MMCONV_NO_SUCH_KEY" not in refused.text
    assert await served.shared.queue.page(Filter()) == []


async def test_it_is_marked_in_the_list(serve: Serve) -> None:
    served = await serve(models={**MODELS, "keyless": KEYLESS})
    listed = (await served.client.get("/v1/models")).json()["data"]
    assert {card["id"]: card["usable"] for card in listed} == {
        **dict.fromkeys(MODELS, True),
        "keyless": False,
    }
    one = await served.client.get("/v1/models/keyless")
    assert one.json()["usable"] is False


TOLD = (
    "candidate (lost) cannot answer: 3 calls failed in a row: "
    "the model's server does not have the model"
)
DIALOGUE: dict[str, Any] = {"model": "lost", "turns": TURNS, "conditions": [0, 1, 2]}


@pytest.fixture
def models() -> Iterator[dict[str, Any]]:
    """A judge, and a model that its server does not have at this address."""
    with mock_server() as url:
        address = url.replace("/v1", "/v2")
        lost = {"provider": "openai", "model": "checkpoints/llava", "base_url": address}
        yield {"lost": lost, "judge": {"provider": "fake", "model": "judge"}}


async def test_a_run_fails_and_names_the_model(
    serve: Serve, tmp_path: Path, models: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    served = await serve(data=drawn(tmp_path), models=models)
    asked = request(models={"candidate": "lost", "judge": "judge"})
    run = (await served.client.post("/v1/runs", json=asked)).json()["id"]
    info = await ended(served.client, run)
    assert (info["state"], info["error"]) == ("failed", TOLD)
    assert "in a row: not_found after 1 attempt: HTTP 404" in caplog.text


async def test_a_queued_dialogue_does_too(serve: Serve, models: dict[str, Any]) -> None:
    served = await serve(models=models, synchronous_calls=1)
    answer = await served.client.post("/v1/dialogues", json=DIALOGUE, params={"wait": 30})
    assert answer.status_code == 202, answer.text
    info = (await served.client.get(answer.headers["location"])).json()
    assert (info["state"], info["error"]) == ("failed", TOLD)


async def test_a_dialogue_that_is_answered_at_once_tells_it_as_chat_does(
    serve: Serve, models: dict[str, Any]
) -> None:
    """The model is everybody's, so that it is asked as long as anybody asks."""
    served = await serve(models=models)
    for _ in range(2):
        answer = await served.client.post("/v1/dialogues", json=DIALOGUE)
        assert (answer.status_code, answer.json()["error"]["code"]) == (502, "not_found")
