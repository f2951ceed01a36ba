"""Plain HTTP/1.1 to one server: kept connections, over which requests are sent one after another.

This is the hot path of every run on local servers: it costs a fourth of the CPU time of aiohttp's
session (tests/bench/README.md). It does only what a chat-completions server needs: no TLS, proxies,
redirects or cookies. A connection is used again only if nothing is known to be left of the request
before, in neither direction.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from dataclasses import dataclass
from urllib.parse import quote, urlencode, urlsplit

from mmconv.errors import Transient
from model_zoo.openai_api.endpoint import Endpoint
from model_zoo.openai_api.plain_connection import PlainConnection
from model_zoo.openai_api.server_address import ServerAddress
from model_zoo.openai_api.transport import (
    LARGEST_ANSWER,
    LONGEST_CONNECT,
    Answer,
    request_headers,
    too_long,
)

_UNPACKED = frozenset({"", "identity", "utf-8"})
_PACKED = frozenset({"gzip", "x-gzip", "deflate"})
_GZIP_OR_ZLIB = 47  # zlib's wbits: it looks which of them it is


@dataclass(frozen=True, slots=True, eq=False)
class _Turn:
    """A request that waits; `over` is what it was sent over, or None: it opens a connection."""

    body: bytes
    answer: asyncio.Future[Answer]
    over: asyncio.Future[PlainConnection | None]


class PlainHttp:
    """A `Transport`. What waits goes out in the moment in which a connection comes free."""

    def __init__(self, endpoint: Endpoint, timeout: float, most: int) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        address = urlsplit(endpoint.url)
        self._server = address.netloc
        self._address = ServerAddress(address.hostname or "", address.port or 80)
        self._head = _head(endpoint)
        self._room = most  # for further connections
        self._open: set[PlainConnection] = set()
        self._idle: list[PlainConnection] = []
        self._turns: deque[_Turn] = deque()
        self._is_closed = False

    async def post(self, body: bytes) -> Answer:
        """As `Transport.post`."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        connection = await self._connection_or_room(body, answer)
        try:
            async with asyncio.timeout(self._timeout):
                if connection is None:
                    connection = await self._connect()
                    connection.send(body, answer)
                return _unpacked(await answer)
        except TimeoutError as error:
            told = f"no reply in {self._timeout:g} s"
            if connection is None:
                told = (
                    f"Connection timeout: {self._server} did not take one in {self._patience:g} s"
                )
            raise Transient("timeout", self._endpoint.excerpt(told)) from error
        except OSError as error:
            told = self._endpoint.excerpt(f"{self._server}: {error}")
            raise Transient("connection", told) from error
        finally:
            if connection is not None:
                connection.drop(answer)
            del answer  # an error that it holds would hold it, and the body

    async def aclose(self) -> None:
        """As `Transport.aclose`."""
        self._is_closed = True
        for connection in self._open:
            connection.close()
        await asyncio.sleep(0)  # sockets are closed by the event loop

    async def _connection_or_room(
        self, body: bytes, answer: asyncio.Future[Answer]
    ) -> PlainConnection | None:
        """What the request was sent over, as soon as one is free.

        None where there is room for another: that is taken, and nothing sent.
        """
        if (idle := self._idle_one()) is not None:
            idle.send(body, answer)
            return idle
        if self._room:
            self._room -= 1
            return None
        turn = _Turn(body, answer, asyncio.get_running_loop().create_future())
        self._turns.append(turn)
        try:
            return await turn.over
        except asyncio.CancelledError:
            if not turn.over.cancelled():
                self._give_up(turn)
            elif turn in self._turns:
                self._turns.remove(turn)  # its body would stay until its turn comes
            raise

    def _give_up(self, turn: _Turn) -> None:
        """Undo what was done for a request that nobody waits for any more."""
        if (connection := turn.over.result()) is None:
            self._make_room()
        else:
            connection.drop(turn.answer)
            if turn.answer.done():
                turn.answer.exception()  # nobody else asks for it, which asyncio would report

    def _idle_one(self) -> PlainConnection | None:
        """The connection that was used last, unless its server may have given it up."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_fresh():
                return connection
            connection.close()
        return None

    @property
    def _patience(self) -> float:
        return min(self._timeout, LONGEST_CONNECT)

    async def _connect(self) -> PlainConnection:
        """Open a connection in room that was taken; where that fails it is there again."""
        loop = asyncio.get_running_loop()
        try:
            self._require_open()
            async with asyncio.timeout(self._patience):
                own = await self._address.connect()
                _, connection = await loop.create_connection(
                    lambda: PlainConnection(own, self._head, self._free, self._lost), sock=own
                )
            if self._is_closed:
                connection.close()
            self._require_open()
            if connection.is_closing():
                raise ConnectionResetError("the server closed the connection at once")
        except BaseException:
            self._make_room()
            raise
        self._open.add(connection)
        return connection

    def _require_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("its connections are closed")

    def _take_turn(self) -> _Turn | None:
        """The request that has waited longest, which waits no more; None if none does."""
        while self._turns:
            turn = self._turns.popleft()
            if not turn.over.done():
                return turn
        return None

    def _free(self, connection: PlainConnection) -> None:
        """Use a connection again, or keep it until it is."""
        if (turn := self._take_turn()) is not None:
            connection.send(turn.body, turn.answer)
            turn.over.set_result(connection)
            return
        self._idle.append(connection)
        while self._idle and not self._idle[0].is_fresh():
            self._idle.pop(0).close()

    def _lost(self, connection: PlainConnection) -> None:
        """Let another connection be opened instead."""
        if connection in self._open:  # else it was lost while it was opened: see there
            self._open.remove(connection)
            if connection in self._idle:
                self._idle.remove(connection)
            self._make_room()

    def _make_room(self) -> None:
        if (turn := self._take_turn()) is not None:
            turn.over.set_result(None)
        else:
            self._room += 1


def _unpacked(answer: Answer) -> Answer:
    """The answer as it was before it was packed; raises `Transient`.

    None is asked to be, but some gateways pack all the same.
    """
    packed = answer.headers.get("content-encoding", "").strip().lower()
    if packed in _UNPACKED:
        return answer
    if packed not in _PACKED:
        raise Transient("malformed", f"HTTP {answer.status}, packed in a way not known: {packed}")
    unpacker = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        data = unpacker.decompress(answer.data, LARGEST_ANSWER)
    except zlib.error as error:
        raise Transient("malformed", f"HTTP {answer.status}, not {packed}: {error}") from error
    if unpacker.unconsumed_tail:
        raise too_long()
    if not unpacker.eof:
        raise Transient("malformed", f"HTTP {answer.status}, not {packed} to its end")
    return answer._replace(data=data)


def _head(endpoint: Endpoint) -> bytes:
    """The lines above a request, up to the number of its bytes."""
    address = urlsplit(endpoint.url)
    path = quote(f"{address.path}/chat/completions", safe="/%:@!$&'()*+,;=~")
    query = f"?{urlencode(endpoint.query)}" if endpoint.query else ""
    plain = {"Host": address.netloc, "Accept-Encoding": "identity"}
    headers = request_headers(endpoint, **plain)
    lines = [f"POST {path}{query} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "Content-Length: "]).encode()
