"""Joining stores: the replies and failures of shards, by key, into one store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, Table, select

from mmconv.store.schema import connect, failures, images, replies, runs
from mmconv.store.store import BATCH, insert_new


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

    Raises `StoreError` if a source is not there.
    """
    opened = [connect(source, create=False) for source in sources]
    into = connect(target)
    added = present = conflicts = 0
    try:
        for out_of in opened:
            new, old, other = _copy_replies(out_of, into)
            _copy_rest(out_of, into)
            added, present, conflicts = added + new, present + old, conflicts + other
    finally:
        for engine in (*opened, into):
            engine.dispose()
    return MergeReport(added=added, present=present, conflicts=conflicts)


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
        known = {(row.key, row.created) for row in writing.execute(select(failures))}
        for rows in _chunks(reading, failures):
            fresh = [
                {name: value for name, value in row.items() if name != "id"}
                for row in rows
                if (row["key"], row["created"]) not in known
            ]
            if fresh:
                writing.execute(failures.insert(), fresh)


def _texts(connection: Connection, keys: Sequence[str]) -> dict[str, str]:
    query = select(replies.c.key, replies.c.text).where(replies.c.key.in_(keys))
    return {row.key: row.text for row in connection.execute(query)}


def _chunks(connection: Connection, table: Table) -> Iterator[list[Mapping[str, Any]]]:
    result = connection.execution_options(yield_per=BATCH).execute(select(table))
    for part in result.mappings().partitions(BATCH):
        yield [dict(row) for row in part]
