"""Answers as server-sent events, piece by piece if the model's backend streams.

A whole answer is one piece. The protocols decide how pieces look.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeAlias

import orjson
from fastapi import Request
from starlette.responses import Response, StreamingResponse

from mmconv.core.protocols import Channel
from mmconv.core.types import Reply
from mmconv.service.errors import Problem
from mmconv.service.requests import GONE, first_of, gone

PATIENCE_SECONDS = 10.0
"""How long a stream's head waits for the first piece, so that a failure has its own status. After
that, how often a comment shows clients and proxies that the server is at work."""

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Headers that keep proxies from buffering a stream."""

AT_WORK = b": at work\n\n"

Listener: TypeAlias = Callable[[int], Callable[[Channel, str], None]]
"""Gives what listens to the answer of a number."""

Piece: TypeAlias = tuple[int, Channel, str]
"""The answer's number, the field that it continues, and the text."""


class Answers:
    """The pieces of answers as they come; iterate over it once.

    `answer` is called with a `Listener` and returns the replies. None among the pieces means that
    the work goes on. `replies` are there when the pieces have ended.
    """

    def __init__(self, answer: Callable[[Listener], Coroutine[Any, Any, Sequence[Reply]]]) -> None:
        self.replies: Sequence[Reply] = ()
        self.news = asyncio.Event()
        self.work = asyncio.ensure_future(answer(lambda number: partial(self._add, number)))
        self.work.add_done_callback(lambda _: self.news.set())
        self._pieces: list[Piece] = []
        self._sent: dict[tuple[int, Channel], str] = {}

    async def __aiter__(self) -> AsyncIterator[Piece | None]:
        """Raises `Problem` if the work fails."""
        while not self.work.done() or self._pieces:
            try:
                await asyncio.wait_for(self.news.wait(), PATIENCE_SECONDS)
            except TimeoutError:
                yield None
            if not self.work.done():
                self.news.clear()
            pieces, self._pieces = self._pieces, []
            for piece in pieces:
                yield piece
        self.replies = self.work.result()
        for number, reply in enumerate(self.replies):
            fields: tuple[tuple[Channel, str | None], ...] = (
                ("reasoning", reply.reasoning),
                ("text", reply.text),
            )
            for channel, text in fields:
                # all of it if the backend does not stream
                if rest := (text or "").removeprefix(self._sent.get((number, channel), "")):
                    yield number, channel, rest

    def _add(self, number: int, channel: Channel, text: str) -> None:
        self._sent[number, channel] = self._sent.get((number, channel), "") + text
        self._pieces.append((number, channel, text))
        self.news.set()


async def open_stream(
    request: Request, answers: Answers, events: AsyncIterator[bytes], end: bytes = b""
) -> Response:
    """The response, once the first piece is there; if the client leaves, the work is cancelled.

    `events` are made of the answers; an error in them becomes the event before the `end`. Raises
    `Problem` if the work fails before the head must be sent.
    """
    work = answers.work
    leaving = asyncio.ensure_future(gone(request))
    waiting = asyncio.ensure_future(answers.news.wait())
    try:
        await first_of(waiting, leaving, PATIENCE_SECONDS)
        if leaving.done():
            raise Problem(GONE, "the client has gone")
        if work.done():
            work.result()
    except BaseException:
        work.cancel()
        raise
    finally:
        leaving.cancel()
        waiting.cancel()
    guarded = _guarded(work, events, end)
    return StreamingResponse(guarded, headers=HEADERS, media_type="text/event-stream")


async def _guarded(
    work: asyncio.Future[Any], events: AsyncIterator[bytes], end: bytes
) -> AsyncIterator[bytes]:
    """The events. If the client leaves, Starlette cancels the stream."""
    try:
        async for event in events:
            yield event
    except Problem as problem:
        # The status has been sent. Clients of the protocols look for this.
        yield write_event(problem.body)
    finally:
        work.cancel()
    yield end


def write_event(value: Any, name: str = "") -> bytes:
    """A server-sent event with a value as JSON."""
    head = f"event: {name}\n".encode() if name else b""
    return b"%bdata: %b\n\n" % (head, orjson.dumps(value))
