"""The queue of the transformers backend, where what answers it is at fault."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from mmconv.core.errors import Transient
from mmconv.core.types import Sampling
from model_zoo.hf.backend import GATHER_SECONDS, BatchQueue
from model_zoo.hf.batching import Budget, Request


def request() -> Request:
    ids = torch.ones(1, 2)
    return Request(tensors={"input_ids": ids}, length=2, sampling=Sampling(max_tokens=1))


def too_few(batch: Sequence[Request]) -> list[Any]:
    return []


async def test_an_idle_model_waits_for_prompts_that_are_being_prepared() -> None:
    sizes: list[int] = []

    def answer(batch: Sequence[Request]) -> list[Any]:
        sizes.append(len(batch))
        return [None for _ in batch]

    queue = BatchQueue(answer, Budget(rows=4, tokens=100))

    async def prepare_and_ask() -> None:
        with queue.expecting():
            await asyncio.sleep(10 * GATHER_SECONDS)
        await queue.ask(request())

    async with asyncio.timeout(20):
        await asyncio.gather(queue.ask(request()), prepare_and_ask())
        await queue.aclose()
    assert sizes == [2]


async def test_whoever_asks_a_queue_that_a_bug_has_ended_is_told_of_it() -> None:
    queue = BatchQueue(too_few, Budget(rows=4, tokens=100))
    async with asyncio.timeout(20):
        together = [queue.ask(request()) for _ in range(2)]
        failures = await asyncio.gather(*together, return_exceptions=True)
        with pytest.raises(ValueError, match="shorter"):
            await queue.ask(request())
        await queue.aclose()
    assert [type(failure) for failure in failures] == [ValueError] * 2


async def test_a_queue_that_is_closed_takes_nothing_more() -> None:
    queue = BatchQueue(too_few, Budget(rows=4, tokens=100))
    async with asyncio.timeout(20):
        await queue.aclose()
        with pytest.raises(Transient, match="closed"):
            await queue.ask(request())
