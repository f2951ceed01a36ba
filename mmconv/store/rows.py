"""Rows of the store's tables: written, read and verified by checksum."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b
from importlib import import_module
from typing import Any

import orjson
from sqlalchemy import Connection, Table, bindparam, select

from mmconv.core.types import Reply, SeenImage
from mmconv.store.schema import replies

_LOGGER = logging.getLogger(__name__)

BATCH = 500
"""Keys per query; SQLite allows about 32,000 variables, PostgreSQL 65,535."""

_REPLY = tuple(field.name for field in fields(Reply) if field.name != "logprobs")
"""A reply's columns, which are named like its fields."""

# built once: building it takes as long as running it
_CHOSEN_REPLIES = select(
    replies.c.checksum, replies.c.key, replies.c.fingerprint, *(replies.c[name] for name in _REPLY)
).where(replies.c.key.in_(bindparam("keys", expanding=True)))


def insert_new(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> int:
    """Insert the rows whose primary key is new; returns their number."""
    return len(connection.execute(_inserting(connection.dialect.name, table), list(rows)).all())


@cache
def _inserting(dialect_name: str, table: Table) -> Any:
    """Inserts rows with new keys; returns the keys: not all drivers count the rows."""
    insert = dialect_insert(dialect_name, table)
    return insert.on_conflict_do_nothing().returning(*table.primary_key.columns)


def dialect_insert(dialect_name: str, table: Table) -> Any:
    """The insert of SQLite or PostgreSQL, which can say what to do on a conflict."""
    # imported by name, since PostgreSQL's takes a while
    return import_module(f"sqlalchemy.dialects.{dialect_name}").insert(table)


def read_replies(
    connection: Connection, keys: Sequence[str], changed: set[str] | None = None
) -> dict[str, Reply]:
    """The replies of these keys; `changed` gets the keys of replies with a wrong checksum.

    Such a reply is not returned, so that it is requested again and never scored.
    """
    found = {}
    for start in range(0, len(keys), BATCH):
        chosen = {"keys": keys[start : start + BATCH]}
        for checksum, *row in connection.execute(_CHOSEN_REPLIES, chosen):
            key, _, *columns = row
            if checksum is None or checksum == find_checksum(row):
                found[key] = _reply(columns)
            elif changed is not None:
                changed.add(key)
                _LOGGER.warning("%s was changed in the store after it was written: ignored", key)
    return found


def find_checksum(row: Sequence[Any]) -> str:
    """The checksum of a reply's row: key, fingerprint and columns as stored."""
    # the last two columns came later: rows without them keep their checksums
    known = list(row)
    while known[-1] is None and len(known) > len(row) - 2:
        del known[-1]
    return blake2b(orjson.dumps(known), digest_size=16).hexdigest()


def checksum_of(row: Mapping[str, Any]) -> str:
    """The checksum of a row with named columns."""
    return find_checksum([row[name] for name in ("key", "fingerprint", *_REPLY)])


def reply_row(key: str, fingerprint: str, reply: Reply) -> dict[str, Any]:
    """A reply's columns, with its checksum and the time."""
    row = {"key": key, "fingerprint": fingerprint} | {name: getattr(reply, name) for name in _REPLY}
    row["seen"] = orjson.dumps(reply.seen).decode() if reply.seen else None
    row["batched"] = reply.batched or None
    return {**row, "checksum": checksum_of(row), "created": now()}


def _reply(columns: Iterable[Any]) -> Reply:
    values = dict(zip(_REPLY, columns, strict=True))
    seen, name = values["seen"], values["answered_by"]
    values["seen"] = tuple(SeenImage(**image) for image in orjson.loads(seen)) if seen else ()
    values["batched"] = bool(values["batched"])
    # one string for all replies of a model
    values["answered_by"] = name and sys.intern(name)
    return Reply(**values)


def now() -> datetime:
    """The time in UTC."""
    return datetime.now(UTC)
