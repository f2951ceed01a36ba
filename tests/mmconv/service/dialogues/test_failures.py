"""Dialogues of which some calls fail, or all: what is told of each, and with which status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.dialogues.samples import TURNS

URL = "/v1/dialogues"
MODELS: Mapping[str, Any] = {
    "echo": {"provider": "fake", "model": "echo"},
    "judge": {"provider": "fake", "model": "judge"},
    "brief": {"provider": "fake", "model": "scripted", "options": {"script": ["A kite."]}},
    "busy": {
        "provider": "fake",
        "model": "echo",
        "options": {"rate": 1.0, "kinds": ["rate_limit"]},
        "attempts": 1,
    },
    "away": {
        "provider": "openai",
        "model": "x",
        "base_url": "http://127.0.0.1:9/secret",
        "attempts": 1,
        "wait_for_server": 0.3,
    },
}
DIALOGUE: dict[str, Any] = {
    "judge": "judge",
    "caption": "Red beside blue.",
    "turns": TURNS,
    "conditions": ["free"],
    "gradings": ["direct"],
}


@pytest.fixture
async def failing(serve: Serve) -> Served:
    return await serve(models=dict(MODELS))


async def test_a_failure_is_part_of_the_result(failing: Served) -> None:
    answer = await failing.client.post(URL, json=DIALOGUE | {"model": "brief"})
    assert answer.status_code == 200, answer.text
    [condition] = answer.json()["conditions"]
    first, second, third = condition["turns"]
    assert (first["text"], second["failed"], third["skipped"]) == ("A kite.", "rejected", "turn_2")
    assert second["problem"]
    # a turn more, both turns' judgements and the whole's
    assert (condition["overall"][0]["state"], answer.json()["lost"]) == ("skipped", 5)


async def test_why_a_judgement_failed_is_told(failing: Served) -> None:
    asked = DIALOGUE | {"model": "echo", "judge": "away"}
    answer = await failing.client.post(URL, json=asked)
    assert answer.status_code == 200, answer.text
    [condition] = answer.json()["conditions"]
    for judged in (condition["turns"][0]["judgements"][0], condition["overall"][0]):
        assert judged["state"] == "failed"
        assert judged["problem"] == "the model could not be reached"
    assert "secret" not in answer.text


@pytest.mark.parametrize(("model", "status"), [("away", 502), ("busy", 503)])
async def test_a_dialogue_of_which_nothing_was_answered_fails_as_chat_does(
    failing: Served, model: str, status: int
) -> None:
    answer = await failing.client.post(URL, json=DIALOGUE | {"model": model})
    chat = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
    same = await failing.client.post("/v1/chat/completions", json=chat)
    assert answer.status_code == same.status_code == status
    assert answer.json() == same.json()
    assert answer.headers.get("retry-after") == same.headers.get("retry-after")
