"""Jobs whose model cannot answer fail and say so; who waits for a dialogue has it all the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mmconv.dialogues.samples import TURNS
from tests.mmconv.service.conftest import Serve
from tests.mmconv.service.run_settings import drawn, ended, request
from tests.mock_server import mock_server

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
    asked = request(seats={"candidate": "lost", "judge": "judge"})
    run = (await served.client.post("/v1/runs", json=asked)).json()["id"]
    told = await ended(served.client, run)
    assert (told["state"], told["error"]) == ("failed", TOLD)
    assert "in a row: not_found after 1 attempt: HTTP 404" in caplog.text


async def test_a_queued_dialogue_does_too(serve: Serve, models: dict[str, Any]) -> None:
    served = await serve(models=models, synchronous_calls=1)
    answer = await served.client.post("/v1/dialogues", json=DIALOGUE, params={"wait": 30})
    assert answer.status_code == 202, answer.text
    told = (await served.client.get(answer.headers["location"])).json()
    assert (told["state"], told["error"]) == ("failed", TOLD)


async def test_a_dialogue_that_is_answered_at_once_tells_it_as_chat_does(
    serve: Serve, models: dict[str, Any]
) -> None:
    """The model is everybody's, so that it is asked as long as anybody asks."""
    served = await serve(models=models)
    for _ in range(2):
        answer = await served.client.post("/v1/dialogues", json=DIALOGUE)
        assert (answer.status_code, answer.json()["error"]["code"]) == (502, "not_found")
