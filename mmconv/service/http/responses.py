"""How an answer goes out: without a body to HEAD, and to a client that has it already.

A stream of events that is cut off is brought to its protocol's end.

A route answers GET alone; what it says of `ETag` and `Last-Modified` is held here against what the
client has, so that no route need do so.
"""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime

import orjson
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Scope, Send

from mmconv.service.errors.problems import Problem
from mmconv.service.http.request_tracing import HEADER

_OF_BODY = ("content-encoding", "content-length", "content-range", "content-type")
"""Headers that are about a body, and stay out of an answer that says that it is not needed."""

_TAG = re.compile(r'"[^"]*"')


class Answer:
    """Passes an answer on with its request's id, and remembers its status.

    That is 499 where the client went before one.
    """

    def __init__(self, scope: Scope, send: Send, request_id: str) -> None:
        self._send = send
        self._method: str = scope["method"]
        self._asked = Headers(scope=scope)
        self._id = (HEADER.lower().encode(), request_id.encode())
        self._ended = False
        self.status = 499
        self.begun = False
        self.streams = False

    async def send(self, message: Message) -> None:
        """Send a part of it; what follows the head is dropped where no body is wanted."""
        if self._ended:
            return
        if message["type"] == "http.response.start":
            self.begun = True
            message = {**message, "headers": [*message["headers"], self._id]}
            if self._has_it(message["status"], Headers(raw=message["headers"])):
                message["status"] = 304
                headers = MutableHeaders(raw=message["headers"])
                for name in _OF_BODY:
                    del headers[name]
                message["headers"] = headers.raw
            self.status = message["status"]
            kind = Headers(raw=message["headers"]).get("content-type", "")
            self.streams = kind.startswith("text/event-stream")
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._ended = True
        elif self.begun and (self._method == "HEAD" or self.status == 304):
            self._ended = True
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def end_stream(self, problem: Problem) -> None:
        """End a stream of events with the problem, as OpenAI's protocol does."""
        last = b"data: " + orjson.dumps(problem.body) + b"\n\ndata: [DONE]\n\n"
        await self.send({"type": "http.response.body", "body": last, "more_body": False})

    def _has_it(self, status: int, given: Headers) -> bool:
        """Whether the client has what would be sent, by the tag or the date that it has told."""
        if self._method not in ("GET", "HEAD") or status not in (200, 206) or "etag" not in given:
            return False
        if (tags := self._asked.get("if-none-match")) is not None:
            own = _TAG.findall(given["etag"])
            return tags.strip() == "*" or own[0] in _TAG.findall(tags)
        try:
            since = parsedate_to_datetime(self._asked["if-modified-since"])
            return parsedate_to_datetime(given["last-modified"]) <= since
        except (KeyError, TypeError, ValueError):
            return False
