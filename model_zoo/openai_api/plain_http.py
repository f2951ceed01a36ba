"""Plain HTTP/1.1 to one server: kept connections, with httptools (llhttp) reading what comes.

This is the hot path of every run on local servers: it costs a fourth of the CPU time of aiohttp's
session (tests/bench/README.md). It does only what a chat-completions server needs: no TLS, proxies,
redirects, cookies or packed answers.
"""

from __future__ import annotations

import asyncio
from typing import cast
from urllib.parse import quote, urlencode, urlsplit

import httptools

from mmconv.errors import Transient
from model_zoo.openai_api.endpoint import Endpoint
from model_zoo.openai_api.transport import (
    LARGEST_ANSWER,
    LONGEST_CONNECT,
    Answer,
    request_headers,
)

_LARGEST_COPIED_BODY = 2**16  # bytes: cheaper to copy behind the head than to send by itself
_FIRST_FINAL_STATUS = 200


class PlainHttp:
    """A `Transport` with as many connections as requests are under way at once."""

    def __init__(self, endpoint: Endpoint, timeout: float) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        address = urlsplit(endpoint.url)
        self._server = address.netloc
        self._host, self._port = address.hostname or "", address.port or 80
        self._head = _head(endpoint)
        self._open: set[_Connection] = set()
        self._idle: list[_Connection] = []

    async def post(self, body: bytes) -> Answer:
        """As `Transport.post`."""
        try:
            async with asyncio.timeout(self._timeout):
                connection = self._idle.pop() if self._idle else await self._connect()
                answer = await connection.post(self._head, body)
        except TimeoutError as error:
            raise Transient("timeout", f"no reply in {self._timeout:g} s") from error
        except OSError as error:
            told = self._endpoint.excerpt(f"{self._server}: {error}")
            raise Transient("connection", told) from error
        if (packed := answer.headers.get("content-encoding", "identity")) != "identity":
            raise Transient("malformed", f"an answer that is packed ({packed}), which none may be")
        return answer

    async def aclose(self) -> None:
        """As `Transport.aclose`."""
        for connection in self._open:
            connection.close()
        await asyncio.sleep(0)  # sockets are closed by the event loop

    async def _connect(self) -> _Connection:
        patience = min(self._timeout, LONGEST_CONNECT)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(patience):
                _, connection = await loop.create_connection(
                    lambda: _Connection(self._open, self._idle), self._host, self._port
                )
        except TimeoutError as error:
            told = f"Connection timeout: {self._server} did not take one in {patience:g} s"
            raise Transient("timeout", self._endpoint.excerpt(told)) from error
        return connection


class _Connection(asyncio.Protocol):
    """One connection: in `open_` until it is lost, and in `idle` while nothing is asked over it."""

    def __init__(self, open_: set[_Connection], idle: list[_Connection]) -> None:
        self._open = open_
        self._idle = idle
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[Answer] | None = None
        self._received = 0
        self._answer: Answer | None = None
        self.on_message_begin()

    async def post(self, head: bytes, body: bytes) -> Answer:
        """Send a request and wait for the answer.

        Raises `OSError` where the connection ends before, `Transient` for what is no answer.
        """
        waiter: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiter, self._received = waiter, 0
        head = b"%b%d\r\n\r\n" % (head, len(body))
        if len(body) <= _LARGEST_COPIED_BODY:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)
        try:
            return await waiter
        finally:
            if waiter.cancelled():
                self._waiter = None
                self.close()

    def close(self) -> None:
        """Close the connection at once; it is lost a moment later."""
        if self in self._idle:
            self._idle.remove(self)
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As every protocol of asyncio."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own is of no such class
        self._open.add(self)

    def data_received(self, data: bytes) -> None:
        """As every protocol of asyncio."""
        self._received += len(data)
        if self._waiter is None:
            self.close()  # nothing was asked
        elif self._received > LARGEST_ANSWER:
            told = f"an answer of more than {LARGEST_ANSWER >> 20} MiB"
            self._fail(Transient("malformed", told))
        else:
            try:
                self._parser.feed_data(data)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
                self._fail(Transient("connection", f"what the server sends is no HTTP: {error}"))
            else:
                self._deliver()

    def connection_lost(self, error: Exception | None) -> None:
        """As every protocol of asyncio."""
        self._open.discard(self)
        if error is None and self._ends_with_connection:
            self.on_message_complete()
            self._deliver()
        told = f" ({error})" if error else ""
        self._fail(ConnectionResetError(f"the server closed the connection, no whole answer{told}"))

    def on_message_begin(self) -> None:
        """An answer begins, the parser tells, or one that only announces it."""
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._ends_with_connection = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header is whole, the parser tells."""
        self._headers[name.decode("latin-1").lower()] = value.decode("utf-8", "replace")

    def on_headers_complete(self) -> None:
        """All headers are there, the parser tells."""
        lengths = {"content-length", "transfer-encoding"}
        self._ends_with_connection = lengths.isdisjoint(self._headers)

    def on_body(self, piece: bytes) -> None:
        """More of the body has come, the parser tells."""
        self._body += piece

    def on_message_complete(self) -> None:
        """An answer is whole, the parser tells; what has a status below 200 announces another."""
        status = self._parser.get_status_code()
        if status >= _FIRST_FINAL_STATUS:
            self._answer = Answer(status, self._headers, bytes(self._body))
            self._is_kept = self._parser.should_keep_alive()

    def _deliver(self) -> None:
        """Hand over an answer that is whole, and keep or close the connection."""
        answer, self._answer = self._answer, None
        if answer is None or self._waiter is None:
            return
        if not self._waiter.done():
            self._waiter.set_result(answer)
        self._waiter = None
        if self._is_kept:
            self._idle.append(self)
        else:
            self.close()

    def _fail(self, error: Exception) -> None:
        """Have whoever waits for an answer raise an error, and close the connection."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self._waiter = None
        self.close()


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
