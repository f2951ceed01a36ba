"""Joining stores: the replies and failures of shards, by key, into one store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, Table, select

from mmconv.store.jobs import utc
from mmconv.store.schema import connect, failures, images, replies, runs
from mmconv.store.store import BATCH, insert_new

_NUMBERS = frozenset({failures.c.id, replies.c.written})


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeReport:
    """What merging did: replies added, replies that were there, and those that said otherwise.

    `conflicts` counts keys that hold different texts in the two stores; the target's text stands.
    """

    added: int
    present: int
    conflicts: int


def merge(target: str, sources: Sequence[str]) -> MergeReport:
    """Copy everything from the stores `sources` into the store `target`.

    Raises `StoreError` if a source is not there, or a store cannot be read or written.
    """
    added = present = conflicts = 0
    with ExitStack() as stack:
        opened = [_open(stack, source, create=False) for source in sources]
        into = _open(stack, target, create=True)
        for out_of in opened:
            new, old, other = _copy_replies(out_of, into)
            _copy_rest(out_of, into)
            added, present, conflicts = added + new, present + old, conflicts + other
    return MergeReport(added=added, present=present, conflicts=conflicts)


def _open(stack: ExitStack, address: str, *, create: bool) -> Engine:
    engine = connect(address, create=create)
    stack.callback(engine.dispose)
    return engine


def _copy_replies(out_of: Engine, into: Engine) -> tuple[int, int, int]:
    added = present = conflicts = 0
    with out_of.connect() as reading, into.begin() as writing:
        for rows in _chunks(reading, replies):
            new = insert_new(writing, replies, rows)
            added += new
            if new < len(rows):
                texts = _texts(writing, [row["key"] for row in rows])
                present += len(rows) - new
                conflicts += sum(texts[row["key"]] != row["text"] for row in rows)
    return added, present, conflicts


def _copy_rest(out_of: Engine, into: Engine) -> None:
    """Failures are history: those that are there already are told by key and time."""
    with out_of.connect() as reading, into.begin() as writing:
        for table in (images, runs):
            for rows in _chunks(reading, table):
                insert_new(writing, table, rows)
        times = select(failures.c.key, failures.c.created)
        known = {(row.key, utc(row.created)) for row in writing.execute(times)}
        for rows in _chunks(reading, failures):
            fresh = [row for row in rows if (row["key"], row["created"]) not in known]
            if fresh:
                writing.execute(failures.insert(), fresh)


def _texts(connection: Connection, keys: Sequence[str]) -> dict[str, str]:
    query = select(replies.c.key, replies.c.text).where(replies.c.key.in_(keys))
    return {row.key: row.text for row in connection.execute(query)}


def _chunks(connection: Connection, table: Table) -> Iterator[list[dict[str, Any]]]:
    """The rows, less the numbers that their own database gave them."""
    columns = [column for column in table.columns if column not in _NUMBERS]
    result = connection.execution_options(yield_per=BATCH).execute(select(*columns))
    for part in result.mappings().partitions(BATCH):
        yield [{name: _in_utc(value) for name, value in row.items()} for row in part]


def _in_utc(value: Any) -> Any:
    """SQLite's times have no zone, and PostgreSQL's that of the session."""
    return utc(value) if isinstance(value, datetime) else value
