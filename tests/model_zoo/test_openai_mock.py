"""The chat-completions provider against the mock server."""

from __future__ import annotations

import asyncio
import urllib.request
from typing import Any

import orjson
import pytest

from mmconv.core.config import ModelSpec
from mmconv.core.errors import Refused
from mmconv.core.types import Message, Sampling, Text
from model_zoo import openai_api
from tests.mock_server import Behaviour, mock_server
from tests.model_zoo.conftest import NoImages

ONCE = Sampling()


def spec(url: str, **fields: Any) -> ModelSpec:
    return ModelSpec(provider="openai", model="mock", base_url=url, **fields)


def asked(text: str) -> tuple[Message, ...]:
    return (Message(role="user", parts=(Text(text=text),)),)


def stats(url: str) -> dict[str, float]:
    with urllib.request.urlopen(url.removesuffix("/v1") + "/stats") as answer:
        found: dict[str, float] = orjson.loads(answer.read())
    return found


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


async def test_probe_lists_the_models_served() -> None:
    with mock_server(Behaviour(model="tiny/llava")) as url:
        assert await openai_api.probe(spec(url)) == ("tiny/llava",)
        with pytest.raises(Refused, match="usually ends in /v1"):
            await openai_api.probe(spec(url.removesuffix("/v1")))
    with pytest.raises(Refused) as raised:
        await openai_api.probe(spec(url, wait_for_server=0.3))
    assert raised.value.kind == "connection"
