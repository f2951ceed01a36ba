"""Merging stores: copies the replies and failures of shards into one store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Connection,
    Engine,
    Table,
    select,
)

from mmconv.store.connections import connect
from mmconv.store.jobs import utc
from mmconv.store.rows import BATCH, checksum_of, insert_new
from mmconv.store.schema import failures, images, replies, runs


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeReport:
    """The result of a merge: replies added, and replies that were present.

    `conflicts` counts keys with different texts in two stores; the target keeps its text. `changed`
    counts replies with a wrong checksum, which are not copied.
    """

    added: int
    present: int
    conflicts: int
    changed: int = 0


def merge(target: str, sources: Sequence[str]) -> MergeReport:
    """Copy everything from the stores `sources` into the store `target`.

    Raises `StoreError` if a source is missing, or a store cannot be read or written.
    """
    counts: Counter[str] = Counter()
    with ExitStack() as stack:

        def open_store(address: str, *, create: bool = False) -> Engine:
            engine = connect(address, create=create)
            stack.callback(engine.dispose)
            return engine

        into = open_store(target, create=True)
        for source in sources:
            counts.update(_copy(open_store(source), into))
    return MergeReport(**counts)


def _copy(out_of: Engine, into: Engine) -> dict[str, int]:
    """Copy all tables in one transaction, which is undone if the source fails.

    Failures have no unique key: key and time identify them.
    """
    counts = {"added": 0, "present": 0, "conflicts": 0, "changed": 0}
    with out_of.connect() as reading, into.begin() as writing:
        for found in _chunks(reading, replies):
            rows = [row for row in found if row.get("checksum") in (None, checksum_of(row))]
            counts["changed"] += len(found) - len(rows)
            for row in rows:
                row["checksum"] = checksum_of(row)
            new = insert_new(writing, replies, rows)
            counts["added"] += new
            if new < len(rows):
                texts = _texts(writing, [row["key"] for row in rows])
                counts["present"] += len(rows) - new
                counts["conflicts"] += sum(texts[row["key"]] != row["text"] for row in rows)
        for table in (images, runs):
            for rows in _chunks(reading, table):
                insert_new(writing, table, rows)
        times = select(failures.c.key, failures.c.created)
        known = {(row.key, utc(row.created)) for row in writing.execute(times)}
        for rows in _chunks(reading, failures):
            fresh = [row for row in rows if (row["key"], row["created"]) not in known]
            if fresh:
                writing.execute(failures.insert(), fresh)
    return counts


def _texts(connection: Connection, keys: Sequence[str]) -> dict[str, str]:
    query = select(replies.c.key, replies.c.text).where(replies.c.key.in_(keys))
    return {row.key: row.text for row in connection.execute(query)}


def _chunks(connection: Connection, table: Table) -> Iterator[list[dict[str, Any]]]:
    """The rows, without the ids that their database gave them."""
    columns = [column for column in table.columns if column is not failures.c.id]
    result = connection.execution_options(yield_per=BATCH).execute(select(*columns))
    for part in result.mappings().partitions(BATCH):
        # SQLite's times have no zone, PostgreSQL's the session's
        yield [
            {
                name: utc(value) if isinstance(value, datetime) else value
                for name, value in row.items()
            }
            for row in part
        ]
