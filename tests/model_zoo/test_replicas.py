from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from mmconv.core.types import Message, Reply, Sampling, Text
from model_zoo.replicas import Replicas

MESSAGES = (Message(role="user", parts=(Text(text="hello"),)),)


class Recorder:
    """A backend that notes what it is asked and answers when told to."""

    def __init__(self, max_concurrency: int = 2) -> None:
        self.max_concurrency = max_concurrency
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()
        self.closed = 0
        self.failure: Exception | None = None

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        self.asked.append(affinity)
        await self.may_answer.wait()
        if self.failure:
            raise self.failure
        return Reply(text=affinity)

    async def aclose(self) -> None:
        self.closed += 1
        if self.failure:
            raise self.failure


async def ask(replicas: Replicas, affinity: str) -> Reply:
    return await replicas.generate(MESSAGES, Sampling(), affinity=affinity)


async def under_way(replicas: Replicas, *affinities: str) -> list[asyncio.Task[Reply]]:
    """Ask without waiting for the answers."""
    tasks = []
    for affinity in affinities:
        tasks.append(asyncio.create_task(ask(replicas, affinity)))
        await asyncio.sleep(0)
    return tasks


def test_none_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Replicas([])


async def test_concurrency_is_the_sum() -> None:
    assert Replicas([Recorder(3), Recorder(5)]).max_concurrency == 8


async def test_new_conversations_go_to_the_least_loaded() -> None:
    small, large = Recorder(2), Recorder(4)
    replicas = Replicas([small, large])
    tasks = await under_way(replicas, "a", "b", "c", "d", "e", "f")
    assert (len(small.asked), len(large.asked)) == (2, 4)
    small.may_answer.set()
    large.may_answer.set()
    assert [reply.text for reply in await asyncio.gather(*tasks)] == list("abcdef")


async def test_a_conversation_stays_where_it_began() -> None:
    first, second = Recorder(), Recorder()
    replicas = Replicas([first, second])
    tasks = await under_way(replicas, "a", "b")
    first.may_answer.set()
    second.may_answer.set()
    await asyncio.gather(*tasks)
    for _ in range(5):
        await asyncio.gather(ask(replicas, "b"), ask(replicas, "a"))
    assert (set(first.asked), set(second.asked)) == ({"a"}, {"b"})


async def test_it_moves_only_from_a_full_replica_to_one_with_room() -> None:
    first, second = Recorder(2), Recorder(2)
    replicas = Replicas([first, second])
    tasks = await under_way(replicas, "a", "a", "a")
    assert (first.asked, second.asked) == (["a", "a"], ["a"])
    tasks += await under_way(replicas, "a", "a")
    assert (len(first.asked), len(second.asked)) == (2, 3)
    first.may_answer.set()
    second.may_answer.set()
    await asyncio.gather(*tasks)


async def test_a_failed_call_frees_its_place() -> None:
    only = Recorder(1)
    only.failure = RuntimeError("boom")
    only.may_answer.set()
    other = Recorder(1)
    replicas = Replicas([only, other])
    for _ in range(3):
        with pytest.raises(RuntimeError, match="boom"):
            await ask(replicas, "a")
    assert other.asked == []


async def test_forgotten_conversations_are_placed_anew() -> None:
    first, second = Recorder(4), Recorder(4)
    second.may_answer.set()
    replicas = Replicas([first, second], remembered=2)
    tasks = await under_way(replicas, "a")
    await ask(replicas, "b")
    await ask(replicas, "c")
    await ask(replicas, "a")
    assert (first.asked, second.asked) == (["a"], ["b", "c", "a"])
    first.may_answer.set()
    await asyncio.gather(*tasks)


async def test_all_are_closed_even_if_one_fails() -> None:
    first, second = Recorder(), Recorder()
    first.failure = RuntimeError("cannot close")
    with pytest.raises(RuntimeError, match="cannot close"):
        await Replicas([first, second]).aclose()
    assert (first.closed, second.closed) == (1, 1)
