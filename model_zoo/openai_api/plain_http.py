"""Plain HTTP/1.1 to one server: kept connections, with httptools (llhttp) reading what comes.

This is the hot path of every run on local servers: it costs a fourth of the CPU time of aiohttp's
session (tests/bench/README.md). It does only what a chat-completions server needs: no TLS, proxies,
redirects or cookies. A connection is used again only if nothing is left of the request before, in
neither direction.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import cast
from urllib.parse import quote, urlencode, urlsplit

import httptools

from mmconv.errors import Transient
from model_zoo.openai_api.endpoint import Endpoint
from model_zoo.openai_api.server_address import ServerAddress
from model_zoo.openai_api.transport import (
    LARGEST_ANSWER,
    LONGEST_CONNECT,
    Answer,
    request_headers,
)

_LARGEST_COPIED_BODY = 2**16  # bytes: cheaper to copy behind the head than to send by itself
_FIRST_FINAL_STATUS = 200
_FIRST_ERROR_STATUS = 400
_LONGEST_IDLE = 4.0  # seconds: uvicorn and vLLM close a connection after 5 s
_UNPACKED = frozenset({"", "identity", "utf-8"})
_PACKED = frozenset({"gzip", "x-gzip", "deflate"})
_GZIP_OR_ZLIB = 47  # zlib's wbits: it looks which of them it is


class PlainHttp:
    """A `Transport` with as many connections as requests are under way at once."""

    def __init__(self, endpoint: Endpoint, timeout: float) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        address = urlsplit(endpoint.url)
        self._server = address.netloc
        self._address = ServerAddress(address.hostname or "", address.port or 80)
        self._head = _head(endpoint)
        self._open: set[_Connection] = set()
        self._idle: list[_Connection] = []
        self._is_closed = False

    async def post(self, body: bytes) -> Answer:
        """As `Transport.post`."""
        if self._is_closed:
            raise RuntimeError("its connections are closed")
        connection = None
        try:
            async with asyncio.timeout(self._timeout):
                connection = self._idle_one() or await self._connect()
                answer = await connection.post(self._head, body)
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
        return _unpacked(answer)

    async def aclose(self) -> None:
        """As `Transport.aclose`."""
        self._is_closed = True
        for connection in self._open:
            connection.close()
        await asyncio.sleep(0)  # sockets are closed by the event loop

    def _idle_one(self) -> _Connection | None:
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

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._patience):
            _, connection = await loop.create_connection(
                lambda: _Connection(self._open, self._idle), sock=await self._address.connect()
            )
        return connection


class _Connection(asyncio.Protocol):
    """One connection: in `open_` from its first request until it is lost, in `idle` between two."""

    def __init__(self, open_: set[_Connection], idle: list[_Connection]) -> None:
        self._open = open_
        self._idle = idle
        self._parser = httptools.HttpResponseParser(self)
        # Servers are not all strict, and answers not passed on to whom laxness might harm.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._waiter: asyncio.Future[Answer] | None = None
        self._received = 0
        self._answer: Answer | None = None
        self._is_kept = False
        self._idle_since = 0.0
        self.on_message_begin()

    async def post(self, head: bytes, body: bytes) -> Answer:
        """Send a request and wait for the answer.

        Raises `OSError` where the connection ends before, `Transient` for what is no answer.
        """
        if self._transport.is_closing():
            raise ConnectionResetError("the server closed the connection at once")
        self._open.add(self)
        waiter: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiter, self._received = waiter, 0
        head = b"%b%d\r\n\r\n" % (head, len(body))
        if len(body) <= _LARGEST_COPIED_BODY:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(memoryview(body))
        try:
            return await waiter
        finally:
            if waiter.cancelled():
                self._waiter = None
                self.close()
            del waiter  # an error that it holds would hold it, and the body

    def is_fresh(self) -> bool:
        """Whether it may be used, as long as it was idle."""
        idle = asyncio.get_running_loop().time() - self._idle_since
        return idle < _LONGEST_IDLE and not self._transport.is_closing()

    def close(self) -> None:
        """Close the connection at once; it is lost a moment later."""
        if self in self._idle:
            self._idle.remove(self)
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As every protocol of asyncio."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own is of no such class

    def data_received(self, data: bytes) -> None:
        """As every protocol of asyncio."""
        self._received += len(data)
        if self._waiter is None:
            self.close()  # nothing was asked
        elif self._received > LARGEST_ANSWER:
            self._fail(_too_long())
        else:
            try:
                self._parser.feed_data(data)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
                if self._answer is None:
                    told = f"what the server sends is no HTTP: {error}"
                    self._fail(Transient("connection", told))
                self._is_kept = False
            self._deliver()

    def eof_received(self) -> None:
        """As every protocol of asyncio: nobody reads what is not sent yet."""
        self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """As every protocol of asyncio."""
        self._open.discard(self)
        # Who refuses a request may hang up on the rest of it.
        if self._ends_with_connection and (error is None or self._status >= _FIRST_ERROR_STATUS):
            self.on_message_complete()
            self._deliver()
        told = f" ({error})" if error else ""
        self._fail(ConnectionResetError(f"the server closed the connection, no whole answer{told}"))
        del self._parser  # it holds this connection

    @property
    def _status(self) -> int:
        return self._parser.get_status_code()

    def on_message_begin(self) -> None:
        """An answer begins, the parser tells, or one that only announces it."""
        if self._answer is not None:
            self._is_kept = False  # that is more than was asked
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._ends_with_connection = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header is whole, the parser tells."""
        self._headers[name.decode("latin-1").lower()] = value.decode("utf-8", "replace")

    def on_headers_complete(self) -> None:
        """All headers are there, the parser tells."""
        chunked = "chunked" in self._headers.get("transfer-encoding", "").lower()
        self._ends_with_connection = not chunked and "content-length" not in self._headers

    def on_body(self, piece: bytes) -> None:
        """More of the body has come, the parser tells."""
        self._body += piece

    def on_message_complete(self) -> None:
        """An answer is whole, the parser tells; what has a status below 200 announces another."""
        self._ends_with_connection = False
        if self._answer is None and self._status >= _FIRST_FINAL_STATUS:
            self._answer = Answer(self._status, self._headers, bytes(self._body))
            self._is_kept = self._parser.should_keep_alive()

    def _deliver(self) -> None:
        """Hand over an answer that is whole, and keep or close the connection."""
        answer, self._answer = self._answer, None
        if answer is None or self._waiter is None:
            return
        if not self._waiter.done():
            self._waiter.set_result(answer)
        self._waiter = None
        if self._is_kept and not self._transport.get_write_buffer_size():
            self._idle_since = asyncio.get_running_loop().time()
            self._idle.append(self)
            while self._idle and not self._idle[0].is_fresh():
                self._idle[0].close()
        else:
            self.close()

    def _fail(self, error: Exception) -> None:
        """Have whoever waits for an answer raise an error, and close the connection."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self._waiter = None
        self.close()


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
        raise _too_long()
    if not unpacker.eof:
        raise Transient("malformed", f"HTTP {answer.status}, not {packed} to its end")
    return answer._replace(data=data)


def _too_long() -> Transient:
    return Transient("malformed", f"an answer of more than {LARGEST_ANSWER >> 20} MiB")


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
