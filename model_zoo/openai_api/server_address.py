"""Where a server is: its name is looked up once for many connections, and its addresses are raced.

Nothing is sent here: what comes out is a socket that is connected.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import TypeAlias

from aiohappyeyeballs import AddrInfoType, start_connection

REMEMBERED_SECONDS = 10.0
"""How long a name's addresses are known without looking it up again, as with aiohttp."""

HEAD_START_SECONDS = 0.25
"""How long an address is tried before the next one is tried beside it (RFC 8305)."""

_Lookup: TypeAlias = asyncio.Task[Sequence[AddrInfoType]]


class ServerAddress:
    """A host, by name or address, and a port. Belongs to one event loop."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._lookup: _Lookup | None = None
        self._known_until = 0.0

    async def connect(self) -> socket.socket:
        """A socket connected to the first of the addresses that takes a connection.

        Raises `OSError` where none does, where the name has none, and for what can be no name.
        """
        try:
            # who gives up lets others wait on for the same lookup
            addresses = await asyncio.shield(self._addresses())
            return await start_connection(addresses, happy_eyeballs_delay=HEAD_START_SECONDS)
        except (OSError, RuntimeError, ValueError) as error:
            # Not the error itself, which the lookup and the race hold: it would hold our callers.
            raise OSError(*error.args if isinstance(error, OSError) else (str(error),)) from None

    def _addresses(self) -> _Lookup:
        now = asyncio.get_running_loop().time()
        lookup = self._lookup
        if lookup is None or _has_failed(lookup) or now >= self._known_until:
            self._known_until = now + REMEMBERED_SECONDS
            lookup = self._lookup = asyncio.create_task(self._look_up())
            lookup.add_done_callback(_has_failed)  # maybe nobody is left who waits for it
        return lookup

    async def _look_up(self) -> Sequence[AddrInfoType]:
        loop = asyncio.get_running_loop()
        return await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)


def _has_failed(lookup: _Lookup) -> bool:
    """Whether it has come to no addresses."""
    return lookup.done() and (lookup.cancelled() or lookup.exception() is not None)
