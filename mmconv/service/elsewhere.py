"""The store for work that has a thread and an event loop of its own, beside the server's.

It is asked where it belongs, so that what is looked up there and here still shares queries. Such
work only reads.
"""

from __future__ import annotations

import asyncio

from mmconv.store import Store
from mmconv.values import Failure, Reply


class StoreElsewhere(Store):
    """The `store`, whose coroutines belong to the loop `home`, as another thread's loop reads it.

    It has no database of its own, and closing it is not its readers' matter.
    """

    def __init__(self, store: Store, home: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._home = home

    async def get(self, key: str) -> Reply | None:
        """The reply kept under this key, if there is one."""
        asked = asyncio.run_coroutine_threadsafe(self._store.get(key), self._home)
        return await asyncio.wrap_future(asked)

    def look_again(self) -> None:
        """Let every later `get` find what any process has committed by now."""
        self._store.look_again()

    async def last_failure(self, key: str) -> Failure | None:
        """How a call failed the last time, for the record."""
        # It asks a thread of its own accord, whatever loop it is awaited in.
        return await self._store.last_failure(key)
