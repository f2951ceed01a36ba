"""The chat-completions provider against the mock server, and the mock server itself."""

from __future__ import annotations

import asyncio
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from mmconv.core.config import ModelSpec
from mmconv.core.errors import Refused, Transient
from mmconv.core.protocols import Backend
from mmconv.core.types import Message, Reply, Sampling, Text
from model_zoo import openai_api
from tests.mock_server import Behaviour, mock_server
from tests.model_zoo.conftest import NoImages

ONCE = Sampling()


def spec(url: str, **fields: Any) -> ModelSpec:
    return ModelSpec(provider="openai", model="mock", base_url=url, **fields)


def asked(text: str) -> tuple[Message, ...]:
    return (Message(role="user", parts=(Text(text=text),)),)


async def ask_until_answered(backend: Backend, text: str, kinds: Counter[str]) -> Reply:
    while True:
        try:
            return await backend.generate(asked(text), ONCE, affinity="")
        except Transient as error:
            kinds[error.kind] += 1


async def ask_all(url: str, requests: int) -> tuple[list[Reply], Counter[str]]:
    backend = await openai_api.open_backend(spec(url, timeout=60), NoImages())
    kinds: Counter[str] = Counter()
    texts = [f"Question {number}?" for number in range(requests)]
    replies = await asyncio.gather(*(ask_until_answered(backend, text, kinds) for text in texts))
    await backend.aclose()
    return replies, kinds


def stats(url: str) -> dict[str, float]:
    with urllib.request.urlopen(url.removesuffix("/v1") + "/stats") as answer:
        found: dict[str, float] = orjson.loads(answer.read())
    return found


async def test_failures_are_named_and_every_answer_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # each dropped request is a failure here, as if the server had worked on it for long
    monkeypatch.setattr("model_zoo.openai_api.client._AT_ONCE", 0.0)
    log = tmp_path / "answered"
    failing = Behaviour(
        failure_rate=0.3, failures=("429", "500", "drop", "malformed"), seed=1, latency=0.001
    )
    with mock_server(failing, log=log) as url:
        replies, kinds = await ask_all(url, 200)
        counts = stats(url)
    with mock_server(failing) as url:
        _, same_kinds = await ask_all(url, 200)
    with mock_server() as url:
        calm, none = await ask_all(url, 200)
    assert [reply.text for reply in replies] == [reply.text for reply in calm]
    assert len({reply.text for reply in replies}) == 200
    assert set(kinds) == {"rate_limit", "server", "connection", "malformed"}
    assert kinds == same_kinds
    assert not none
    answered = log.read_text().split()
    assert len(answered) == len(set(answered)) == 200 == counts["answered"]
    assert counts["requests"] == 200 + kinds.total()
    assert 1 < counts["peak"] <= 64


async def test_waiting_for_a_connection_counts_neither_as_seconds_nor_towards_the_timeout() -> None:
    with mock_server(Behaviour(latency=0.6)) as url:
        backend = await openai_api.open_backend(
            spec(url, max_concurrency=8, timeout=1.1), NoImages()
        )
        assert backend.max_concurrency == 9
        questions = [asked(f"Question {number}?") for number in range(9)]
        replies = await asyncio.gather(
            *(backend.generate(question, ONCE, affinity="") for question in questions)
        )
        peak = stats(url)["peak"]
        await backend.aclose()
    assert peak == 8
    assert all(0.6 <= reply.seconds < 1.1 for reply in replies)


@pytest.mark.parametrize(
    ("hang", "patience", "kind"), [(60, 0.1, "timeout"), (0.01, 60, "connection")]
)
async def test_a_hang_is_a_timeout_until_the_server_gives_up(
    hang: float, patience: float, kind: str
) -> None:
    with mock_server(Behaviour(failure_rate=1, failures=("hang",), hang=hang)) as url:
        backend = await openai_api.open_backend(spec(url, timeout=patience), NoImages())
        with pytest.raises(Transient) as raised:
            await backend.generate(asked("Hm?"), ONCE, affinity="")
        await backend.aclose()
    assert raised.value.kind == kind


async def test_probe_lists_the_models_served() -> None:
    with mock_server(Behaviour(model="tiny/llava")) as url:
        assert await openai_api.probe(spec(url)) == ("tiny/llava",)
        with pytest.raises(Refused, match="usually ends in /v1"):
            await openai_api.probe(spec(url.removesuffix("/v1")))
    with pytest.raises(Refused) as raised:
        await openai_api.probe(spec(url, wait_for_server=0.3))
    assert raised.value.kind == "connection"
