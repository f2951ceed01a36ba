"""A filter of keys: which replies are surely not cached, without a query.

It is updated with the rows written since the last update, by any process.
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
"""How long an update counts as current, and other processes' replies may be missed."""

_CHUNK = 1000
"""Keys that are read and added at once."""


class KnownKeys:
    """The keys in the table of replies: one bit for each value of a key's first six hex digits.

    Keys are hashes, so their digits are evenly distributed. With a million keys, one in seventeen
    missing keys is looked up in vain. The methods are thread-safe.
    """

    def __init__(self) -> None:
        self._bits = bytearray(16**6 // 8)
        self._entering = threading.Lock()
        self._horizon: int | None = None
        self._read = -math.inf
        self._doubted = -math.inf

    def add(self, *keys: str) -> None:
        """Add keys."""
        # two threads that set bits of one byte at once would lose one
        with self._entering:
            for key in keys:
                place = int(key[:6], 16)
                self._bits[place >> 3] |= 1 << (place & 7)

    def may_hold(self, key: str) -> bool:
        """Whether the key, or another one with the same first digits, was added."""
        place = int(key[:6], 16)
        return bool(self._bits[place >> 3] & 1 << (place & 7))

    def rules_out(self, key: str) -> bool:
        """Whether the table surely had no such key a moment ago; False without an update."""
        return not self.may_hold(key) and self._is_fresh()

    def doubt(self) -> None:
        """Rule nothing out before the next update."""
        self._doubted = time.monotonic()

    def catch_up(self, connection: Connection) -> None:
        """Add the keys written since the last update, unless that was just now."""
        if self._is_fresh():
            return
        now = time.monotonic()
        position, horizon = _order(connection)
        # taken before the rows are read; rows written in between are read the next time
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
    """A row's position in the order of writing, and a query for two positions: horizon and end.

    No more rows will appear before the horizon, and all rows readable now are before the end. In
    PostgreSQL a transaction can end long after a later one. So the position is the transaction's
    number, and the horizon is the first transaction still open. Rows restored from another server's
    dump can have numbers beyond the end. SQLite runs one transaction after the other, so its row
    numbers will do.
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
