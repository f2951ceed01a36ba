"""Which request is served just now, so that its answer and lines of the log can be matched."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from secrets import token_hex

HEADER = "X-Request-Id"
"""The header of every answer that tells its request's id."""


@dataclass(slots=True, kw_only=True)
class Trace:
    """A request: its id, what it asks for, and the name of its token once that is known."""

    method: str
    path: str
    caller: str | None = None
    id: str = field(default_factory=lambda: token_hex(8))

    def __str__(self) -> str:
        whose = "" if self.caller is None else f" of {self.caller}"
        return f"{self.method} {self.path!a}, request {self.id}{whose}"


_TRACE: ContextVar[Trace | None] = ContextVar("trace", default=None)


def begin_trace(method: str, path: str) -> Trace:
    """Trace a request in the task that serves it, and in those that this one starts."""
    trace = Trace(method=method, path=path)
    _TRACE.set(trace)
    return trace


def id_header() -> dict[str, str]:
    """The header that tells the request served here, for an answer that goes out past the gate."""
    trace = _TRACE.get()
    return {} if trace is None else {HEADER: trace.id}


def traced() -> str:
    """The request that is served here, as lines of the log tell it."""
    return str(_TRACE.get() or "no request")
