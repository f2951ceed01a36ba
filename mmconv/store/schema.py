"""The tables, and how they are created or brought up to date.

Requests are not stored. Prompts are planned again from the run's specification, and the content key
proves that they are the same.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Connection,
    DateTime,
    Dialect,
    Engine,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    delete,
    func,
    inspect,
    select,
    text,
    update,
)

from mmconv.core.errors import StoreError

VERSION = "0010"
"""The version of the tables; versions are compared as texts."""

CREATING, SUBMITTING = 0x6D6D63_01, 0x6D6D63_02
"""Purposes of exclusive transactions; the numbers are PostgreSQL's advisory locks."""

metadata = MetaData()

_STANDIN = "\x1a"


class AnyText(TypeDecorator[str]):
    """Text with any characters, even NUL, which models produce and PostgreSQL does not store.

    On PostgreSQL, NUL and the escape character are written with the escape character before them.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Write."""
        if value is None or dialect.name != "postgresql":
            return value
        return value.replace(_STANDIN, _STANDIN * 2).replace("\x00", f"{_STANDIN}0")

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Read back what was written."""
        if value is None or dialect.name != "postgresql" or _STANDIN not in value:
            return value
        pieces = value.split(_STANDIN * 2)
        return _STANDIN.join(piece.replace(f"{_STANDIN}0", "\x00") for piece in pieces)


replies = Table(
    "replies",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("text", AnyText, nullable=False),
    Column("reasoning", AnyText),
    Column("finish", String(16), nullable=False),
    Column("input_tokens", Integer),
    Column("output_tokens", Integer),
    Column("seconds", Float, nullable=False),
    Column("dropped", Integer, nullable=False),
    Column("seen", Text),
    Column("answered_by", AnyText),
    Column("cached_tokens", Integer),
    # null for false, so that older rows keep their checksums
    Column("batched", Boolean),
    Column("created", DateTime(timezone=True), nullable=False),
    # of all columns above but the time; None in rows of versions that wrote none
    Column("checksum", String(32)),
)

failures = Table(
    "failures",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(64), nullable=False, index=True),
    Column("kind", String(16), nullable=False),
    Column("message", AnyText, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("created", DateTime(timezone=True), nullable=False),
)

images = Table(
    "images",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("media_type", String(32), nullable=False),
    Column("width", Integer, nullable=False),
    Column("height", Integer, nullable=False),
    Column("mode", String(8), nullable=False),
    Column("frames", Integer, nullable=False),
    Column("byte_count", Integer, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("id", String(255), primary_key=True),
    Column("spec", Text, nullable=False),
    Column("created", DateTime(timezone=True), nullable=False),
)

claims = Table(
    "claims",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("owner", String(160), nullable=False, index=True),
    # seconds since 1970 by the database's clock
    Column("expires", Float, nullable=False),
)

batched_requests = Table(
    "batched_requests",
    metadata,
    Column("request", String(64), primary_key=True),
    Column("name", String(32), nullable=False, index=True),
    Column("batch", Text),
    # seconds since 1970
    Column("created", Float, nullable=False),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("owner", String(64), nullable=False, index=True),
    Column("spec", AnyText, nullable=False),
    Column("benchmark", String(64), index=True),
    Column("model", Text),
    Column("state", String(16), nullable=False, index=True),
    Column("stopping", Boolean, nullable=False),
    Column("worker", String(128)),
    Column("lease", DateTime(timezone=True)),
    Column("starts", Integer, nullable=False),
    Column("progress", AnyText, nullable=False),
    Column("lost", Integer, nullable=False),
    Column("result", AnyText),
    Column("error", AnyText),
    Column("created", DateTime(timezone=True), nullable=False),
    Column("queued", DateTime(timezone=True), nullable=False),
    Column("started", DateTime(timezone=True)),
    Column("updated", DateTime(timezone=True), nullable=False),
    Column("ended", DateTime(timezone=True)),
    Index("ix_jobs_listed", "kind", "created", "id"),
)

job_keys = Table(
    "job_keys",
    metadata,
    Column("owner", String(64), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("job", String(128), nullable=False),
    Column("created", DateTime(timezone=True), nullable=False),
)

versions = Table("alembic_version", metadata, Column("version_num", String(32), primary_key=True))


def create_tables(engine: Engine) -> None:
    """Create the tables of a new database, and add what an older one does not have yet."""
    with engine.connect() as connection:
        if _version(connection) == VERSION:
            return
    with engine.begin() as connection:
        # if several processes open a database together, only one changes it
        hold_alone(connection, CREATING)
        version = _version(connection)
        if version is not None and version > VERSION:
            raise StoreError(
                f"the store was written by a newer mmconv (version {version}, this one knows "
                f"{VERSION})"
            )
        if version is None and inspect(connection).has_table(replies.name):
            raise StoreError(f"the database has a table {replies.name!r} of another program")
        if version != VERSION:
            _add_missing(connection)
            _rename_fields(connection)


def hold_alone(connection: Connection, purpose: int) -> None:
    """Exclude other transactions of the same purpose until this one ends; call it first.

    SQLite excludes all other writers.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(purpose)))
    else:
        connection.execute(text("BEGIN IMMEDIATE"))


def now_of(connection: Connection) -> datetime:
    """The time of the database server, or of this machine with SQLite."""
    if connection.dialect.name == "postgresql":
        now = connection.scalars(select(func.clock_timestamp())).one()
        return cast("datetime", now).astimezone(UTC)
    return datetime.now(UTC)


def _add_missing(connection: Connection) -> None:
    """Create missing tables, columns (which may be null) and indexes, and set the version."""
    inspector = inspect(connection)
    for table in metadata.sorted_tables:
        if not inspector.has_table(table.name):
            table.create(connection)
            continue
        names = {column["name"] for column in inspector.get_columns(table.name)}
        for column in table.columns:
            if column.name not in names:
                kind = column.type.compile(connection.dialect)
                added = f"ALTER TABLE {table.name} ADD COLUMN {column.name} {kind}"
                connection.execute(text(added))
        for index in table.indexes:
            index.create(connection, checkfirst=True)
    connection.execute(delete(versions))
    connection.execute(versions.insert(), {"version_num": VERSION})


def _rename_fields(connection: Connection) -> None:
    """Give the fields of older jobs' JSON their present names."""
    names = {"seats": "models", "asked": "requested", "stored": "cached"}
    for column in (jobs.c.spec, jobs.c.progress, jobs.c.result):
        value: ColumnElement[str | None] = column
        for old, new in names.items():
            # quotes inside a text are escaped, so that only names of fields match
            value = func.replace(value, f'"{old}":', f'"{new}":')
        connection.execute(update(jobs).values({column: value}))


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.scalar(select(versions.c.version_num))
