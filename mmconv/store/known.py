"""Which keys the table of replies surely lacks, told without a query.

What is known grows by the rows that have come since it was last read, those of other processes
included. Nothing here knows what a reply is, or when somebody asks for one.
"""

from __future__ import annotations

import math
import threading
import time

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    Text,
    cast,
    func,
    literal_column,
    select,
)

from mmconv.store.schema import replies

FRESH_SECONDS = 1.0
"""How long what was read counts as current; other processes' replies are noticed at most so late.
"""

_CHUNK = 1000
"""Keys that are entered in one go, and held in memory while the table is read."""


class KnownKeys:
    """The keys in the table of replies: one bit for each value of a key's first six hex digits.

    A key is a hash, so its digits are as good as any. With a million keys one absent key in
    seventeen is looked up in vain, which costs a query and no more. Any thread may call any method.
    """

    def __init__(self) -> None:
        self._bits = bytearray(16**6 // 8)
        self._entering = threading.Lock()
        self._horizon: int | None = None
        self._read = -math.inf
        self._doubted = -math.inf

    def add(self, *keys: str) -> None:
        """Enter keys."""
        # Two threads that set bits of one byte at once would lose one.
        with self._entering:
            for key in keys:
                place = int(key[:6], 16)
                self._bits[place >> 3] |= 1 << (place & 7)

    def may_hold(self, key: str) -> bool:
        """Whether the key is entered, or another one that cannot be told from it."""
        place = int(key[:6], 16)
        return bool(self._bits[place >> 3] & 1 << (place & 7))

    def rules_out(self, key: str) -> bool:
        """Whether the table surely had no such key a moment ago; False where that is too old."""
        return not self.may_hold(key) and self._is_fresh()

    def doubt(self) -> None:
        """Rule nothing out before the table has been read again."""
        self._doubted = time.monotonic()

    def catch_up(self, connection: Connection) -> None:
        """Enter what has come into the table since it was read, unless that was just now."""
        if self._is_fresh():
            return
        now = time.monotonic()
        position, horizon = _order(connection)
        # Taken before the rows are read: those that come in between are read the next time.
        reached, end = connection.execute(horizon).one()
        new = select(replies.c.key).execution_options(yield_per=_CHUNK)
        if self._horizon is not None:
            new = new.where(position >= self._horizon, position < end)
        for keys in connection.scalars(new).partitions():
            self.add(*keys)
        self._horizon = reached
        self._read = now

    def _is_fresh(self) -> bool:
        return self._read > self._doubted and time.monotonic() - self._read < FRESH_SECONDS


def _order(connection: Connection) -> tuple[ColumnElement[int], Select[int, int]]:
    """A row's place in the order of writing, and a query for two places: horizon and end.

    What lies before the horizon is there or never will be, and what can be read by now lies before
    the end. A transaction of PostgreSQL can end long after a later one. So rows are placed by their
    transaction, and the horizon is the first that was still under way; beyond the end are rows that
    came by a dump, with the numbers of another server. SQLite lets one transaction in after the
    other, so its row numbers do.
    """
    if connection.dialect.name == "postgresql":
        snapshot = func.pg_current_snapshot()
        oldest = cast(cast(func.pg_snapshot_xmin(snapshot), Text), BigInteger)
        return replies.c.written, select(
            oldest, cast(cast(func.pg_snapshot_xmax(snapshot), Text), BigInteger)
        )
    number: ColumnElement[int] = literal_column("rowid", BigInteger)
    behind = func.coalesce(func.max(number), 0) + 1
    return number, select(behind, behind).select_from(replies)
