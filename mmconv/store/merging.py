"""Merging stores: copies the replies and failures of shards into one store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from sqlalchemy import (
    ColumnClause,
    Connection,
    Engine,
    RowMapping,
    Table,
    create_engine,
    literal_column,
    select,
)
from sqlalchemy.exc import DatabaseError

from mmconv.core.errors import StoreDamaged, StoreError
from mmconv.store.connections import connect, read_address
from mmconv.store.jobs import utc
from mmconv.store.rows import BATCH, checksum_of, insert_new
from mmconv.store.schema import failures, images, replies, runs

_Read: TypeAlias = Callable[[Connection, Table], Iterator[list[dict[str, Any]]]]
"""Reads a table in parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeReport:
    """The result of a merge: replies added, and replies that were present.

    `conflicts` counts keys with different texts in two stores; the target keeps its text. `changed`
    counts replies with a wrong checksum, which are not copied. `damaged` names the sources that
    could be read only in part.
    """

    added: int
    present: int
    conflicts: int
    changed: int = 0
    damaged: tuple[str, ...] = ()


def merge(target: str, sources: Sequence[str]) -> MergeReport:
    """Copy everything from the stores `sources` into the store `target`.

    Of a damaged SQLite file, all rows that can be read are copied. Raises `StoreError` if a source
    is missing, or a store cannot be read or written.
    """
    counts: Counter[str] = Counter()
    damaged = []
    with ExitStack() as stack:
        into = _open(stack, target, create=True)
        for source in sources:
            try:
                out_of = _open(stack, source, create=False)
                copied = _copy(out_of, into, _chunks)
            except StoreDamaged:
                damaged.append(source)
                salvaged = create_engine(read_address(source))
                stack.callback(salvaged.dispose)
                copied = _copy(salvaged, into, _readable_chunks)
            counts.update(copied)
    return MergeReport(**counts, damaged=tuple(damaged))


def _open(stack: ExitStack, address: str, *, create: bool) -> Engine:
    engine = connect(address, create=create)
    stack.callback(engine.dispose)
    return engine


def _copy(out_of: Engine, into: Engine, chunks: _Read) -> dict[str, int]:
    """Copy all tables in one transaction, which is undone if the source fails.

    Failures have no unique key: key and time identify them.
    """
    counts = {"added": 0, "present": 0, "conflicts": 0, "changed": 0}
    with out_of.connect() as reading, into.begin() as writing:
        for found in chunks(reading, replies):
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
            for rows in chunks(reading, table):
                insert_new(writing, table, rows)
        times = select(failures.c.key, failures.c.created)
        known = {(row.key, utc(row.created)) for row in writing.execute(times)}
        for rows in chunks(reading, failures):
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
        yield _with_zones(part)


def _with_zones(rows: Sequence[RowMapping]) -> list[dict[str, Any]]:
    """The rows with times in UTC: SQLite's have no time zone, PostgreSQL's the session's."""
    return [
        {name: utc(value) if isinstance(value, datetime) else value for name, value in row.items()}
        for row in rows
    ]


def _readable_chunks(connection: Connection, table: Table) -> Iterator[list[dict[str, Any]]]:
    """The readable rows of a damaged SQLite file, found by halving ranges of row numbers."""
    try:
        known = {row[1] for row in connection.exec_driver_sql(f"PRAGMA table_info({table.name})")}
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    except DatabaseError as error:
        message = f"nothing can be read of the store {connection.engine.url.database}"
        raise StoreError(message) from error
    columns = [each for each in table.columns if each is not failures.c.id and each.name in known]
    rowid: ColumnClause[int] = literal_column("rowid")
    # no page holds more rows than this: the shortest row takes some 100 of its 4,096 bytes
    ranges = [(0, pages * 40 + 1)] if columns else []
    while ranges:
        first, end = ranges.pop()
        chosen = select(*columns).where(rowid >= first, rowid < end).order_by(rowid)
        try:
            rows = connection.execute(chosen).mappings().all()
        except DatabaseError:
            if end - first > 1:
                middle = (first + end) // 2
                ranges += [(middle, end), (first, middle)]
            continue
        for start in range(0, len(rows), BATCH):
            yield _with_zones(rows[start : start + BATCH])
