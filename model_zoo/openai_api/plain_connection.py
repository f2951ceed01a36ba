"""One plain HTTP/1.1 connection to a server: a request at a time, its answer read by httptools."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import cast

import httptools

from mmconv.errors import Transient
from model_zoo.openai_api.transport import LARGEST_ANSWER, Answer, too_long

_LARGEST_COPIED_BODY = 2**16  # bytes: cheaper to copy behind the head than to send by itself
_FIRST_FINAL_STATUS = 200
_FIRST_ERROR_STATUS = 400
_LONGEST_IDLE = 4.0  # seconds: uvicorn and vLLM close a connection after 5 s


class PlainConnection(asyncio.Protocol):
    """A connection by the socket `own`; `head` is what stands above each body, up to its length.

    `free` is called once an answer is there and the connection may be used again, in the moment in
    which it comes, `lost` when the connection is closed.
    """

    def __init__(
        self,
        own: socket.socket,
        head: bytes,
        free: Callable[[PlainConnection], None],
        lost: Callable[[PlainConnection], None],
    ) -> None:
        self._own = own
        self._head = head
        self._free = free
        self._lost = lost
        self._parser = httptools.HttpResponseParser(self)
        # Servers are not all strict, and answers not passed on to whom laxness might harm.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._time = asyncio.get_running_loop().time
        self._waiter: asyncio.Future[Answer] | None = None
        self._sent_at = self._idle_since = 0.0
        self._received = 0
        self._answer: Answer | None = None
        self._is_kept = False
        self.on_message_begin()

    def send(self, body: bytes, answer: asyncio.Future[Answer]) -> None:
        """Send a request, whose `answer` is set when it comes.

        Its exception is an `OSError` where the connection ends before, a `Transient` for what is no
        answer.
        """
        self._waiter, self._received, self._sent_at = answer, 0, self._time()
        head = b"%b%d\r\n\r\n" % (self._head, len(body))
        if len(body) <= _LARGEST_COPIED_BODY:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(memoryview(body))

    def drop(self, answer: asyncio.Future[Answer]) -> None:
        """Close the connection if this is the answer that it still waits for."""
        if self._waiter is answer:
            self._waiter = None
            self.close()

    def is_fresh(self) -> bool:
        """Whether it is open, and was not idle for too long."""
        return self._time() - self._idle_since < _LONGEST_IDLE and not self.is_closing()

    def is_closing(self) -> bool:
        """Whether it is closed, or will be in a moment."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Close the connection at once; it is lost a moment later."""
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
            self._fail(too_long())
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
        # Who refuses a request may hang up on the rest of it.
        if self._ends_with_connection and (error is None or self._status >= _FIRST_ERROR_STATUS):
            self.on_message_complete()
            self._deliver()
        told = f" ({error})" if error else ""
        self._fail(ConnectionResetError(f"the server closed the connection, no whole answer{told}"))
        del self._parser  # it holds this connection
        self._lost(self)

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
            seconds = self._time() - self._sent_at
            self._answer = Answer(self._status, self._headers, bytes(self._body), seconds)
            self._is_kept = self._parser.should_keep_alive()

    def _deliver(self) -> None:
        """Hand over an answer that is whole, and free or close the connection."""
        answer, self._answer = self._answer, None
        if answer is None or self._waiter is None:
            return
        if not self._waiter.done():
            self._waiter.set_result(answer)
        self._waiter = None
        if self._is_kept and not self._transport.get_write_buffer_size() and self._is_silent():
            self._idle_since = self._time()
            self._free(self)
        else:
            self.close()

    def _is_silent(self) -> bool:
        """Whether nothing more has come, not even the end: some servers hang up without a word.

        The event loop has not looked again since the answer came, and the next request may go out
        at once.
        """
        try:
            self._own.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass  # the transport will tell
        return False

    def _fail(self, error: Exception) -> None:
        """Have whoever waits for an answer raise an error, and close the connection."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self._waiter = None
        self.close()
