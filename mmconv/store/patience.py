"""PostgreSQL connections that are given up where the server says nothing for long.

A server that hangs keeps its connections open, so that nothing else ends the wait for it, and the
process of whoever waits would not end either.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import psycopg
from sqlalchemy import Engine, event

SILENT_SECONDS = 30.0
"""How long a server may say nothing while it is asked for something."""


class _Patient(psycopg.Connection[Any]):
    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **named: Any) -> Any:
        return super().wait(self._listening(gen), *args, **named)

    def _listening(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """The generator; it is told every so often that nothing came, and fails after a while."""
        heard = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    heard = time.monotonic()
                elif time.monotonic() - heard > SILENT_SECONDS:
                    self.pgconn.finish()
                    told = f"the server has said nothing for {SILENT_SECONDS:g} s"
                    raise psycopg.OperationalError(told)
                wanted = gen.send(ready)
        except StopIteration as ended:
            return ended.value


def bound_silence(engine: Engine) -> None:
    """Bound the waits of an engine's connections from now on."""

    def open_one(_dialect: Any, _record: Any, args: Any, named: Any) -> Any:
        return _Patient.connect(*args, **named)

    engine.dispose()
    event.listen(engine, "do_connect", open_one)
