"""The request that is served here, for the log and its response, and the log of refusals."""

from __future__ import annotations

import logging
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from secrets import token_hex

from starlette.types import Scope

log = logging.getLogger(__name__)

HEADER = "X-Request-Id"
"""The header of every response that carries its request's id."""

MOST_LOGGED, WINDOW_SECONDS = 30, 60.0
"""Refusals that are logged one by one within the window. The others are only counted."""

REFUSED = (401, 403, 429)
"""The statuses that are logged as refusals."""


@dataclass(slots=True, kw_only=True)
class Trace:
    """A request: its id, method and path, and the name of its token once it is known."""

    method: str
    path: str
    caller: str | None = None
    id: str = field(default_factory=lambda: token_hex(8))

    def __str__(self) -> str:
        owner = "" if self.caller is None else f" of {self.caller}"
        return f"{self.method} {self.path!a}, request {self.id}{owner}"


_TRACE: ContextVar[Trace | None] = ContextVar("trace", default=None)


def begin_trace(method: str, path: str) -> Trace:
    """Trace a request in the task that serves it, and in the tasks which that one starts."""
    trace = Trace(method=method, path=path)
    _TRACE.set(trace)
    return trace


def id_header() -> dict[str, str]:
    """The header with the request's id, for a response that bypasses the gate."""
    trace = _TRACE.get()
    return {} if trace is None else {HEADER: trace.id}


def traced() -> str:
    """The request that is served here, as the log names it."""
    return str(_TRACE.get() or "no request")


class RefusalLog:
    """Logs who was refused and what they requested, at a bounded rate.

    It never logs what they sent: a token with one wrong letter is nearly a secret.
    """

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._count = 0

    def record(self, scope: Scope, trace: Trace, status: int) -> None:
        """Log one refused request or connection."""
        now = time.monotonic()
        if now - self._since > WINDOW_SECONDS:
            if (more := self._count - MOST_LOGGED) > 0:
                log.warning("%d more requests were refused before", more)
            self._since, self._count = now, 0
        self._count += 1
        if self._count <= MOST_LOGGED:
            peer = (scope.get("client") or ("?",))[0]
            log.warning("refused %s: %s (status %d)", peer, trace, status)
