"""The store for work that has a thread and an event loop of its own, beside the server's.

It is asked where it belongs, so that what is looked up there and here still shares queries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from mmconv.protocols import Replies
from mmconv.values import Failure, Outcome, Reply

Found = TypeVar("Found")


class RepliesElsewhere:
    """The replies of a store whose coroutines belong to the loop `home`, for another thread's loop.

    Closing the store is not its users' matter.
    """

    def __init__(self, store: Replies, home: asyncio.AbstractEventLoop) -> None:
        self.flights: dict[str, asyncio.Future[Outcome | None]] = {}
        self._store = store
        self._home = home

    async def get(self, key: str) -> Reply | None:
        """The reply kept under this key, if there is one."""
        return await self._at_home(self._store.get(key))

    def look_again(self) -> None:
        """Let every later `get` find what any process has committed by now."""
        self._store.look_again()

    async def put(self, key: str, fingerprint: str, reply: Reply) -> Reply:
        """Keep a reply, and return the one that is kept."""
        return await self._at_home(self._store.put(key, fingerprint, reply))

    async def add_failure(self, key: str, failure: Failure) -> None:
        """Keep how a call failed, for the record."""
        await self._at_home(self._store.add_failure(key, failure))

    async def last_failure(self, key: str) -> Failure | None:
        """How a call failed the last time, for the record."""
        return await self._at_home(self._store.last_failure(key))

    async def _at_home(self, asked: Coroutine[Any, Any, Found]) -> Found:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asked, self._home))
