"""Several things are closed together, whatever becomes of one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator

import pytest

from mmconv.core.closing import close_all


class Closed(list[str]):
    """What was closed, in the order of closing."""

    async def close(self, name: str, error: Exception | None = None) -> None:
        self.append(name)
        if error is not None:
            raise error


async def test_all_are_closed_and_the_first_failure_comes_out() -> None:
    closed = Closed()
    failures = (closed.close(name, OSError(name)) for name in "ab")
    with pytest.raises(OSError, match="a"):
        await close_all([*failures, closed.close("c")])
    assert closed == ["a", "b", "c"]


async def test_what_an_interrupt_finds_begun_is_closed() -> None:
    closed = Closed()

    def closing() -> Iterator[Awaitable[None]]:
        yield closed.close("a")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await close_all(closing())
    await asyncio.sleep(0)
    assert closed == ["a"]
