"""The tables, and how a database is opened and brought up to date.

SQLite in WAL mode is the embedded default; a PostgreSQL URL works the same. What a reply answered
is not kept here: prompts are planned again from the run's specification, and the content key
proves that they are the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    DateTime,
    Dialect,
    Engine,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    create_engine,
    event,
    inspect,
    make_url,
    select,
)
from sqlalchemy.exc import SQLAlchemyError

from mmconv.errors import StoreError

HEAD = "0001"
"""The newest migration; a database that has it is opened without loading Alembic."""

metadata = MetaData()

_STANDIN = "\x1a"


class AnyText(TypeDecorator[str]):
    """Text with any characters: PostgreSQL's has no place for NUL, which a model can well say.

    There, NUL and the sign that stands for it are written with that sign before them.
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
    Column("created", DateTime(timezone=True), nullable=False),
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
    Column("id", String(80), primary_key=True),
    Column("spec", Text, nullable=False),
    Column("created", DateTime(timezone=True), nullable=False),
)


versions = Table("alembic_version", metadata, Column("version_num", String(32), primary_key=True))
"""Alembic's own table."""


def connect(url: str, *, create: bool = True) -> Engine:
    """Open a database by URL, or an SQLite file by path, migrated to `HEAD`.

    Without `create` an SQLite file must be there. Raises `StoreError` naming the database, without
    its password.
    """
    parsed = make_url(url if "://" in url else f"sqlite:///{url}")
    if parsed.get_backend_name() == "sqlite" and parsed.database:
        _prepare_file(Path(parsed.database), create=create)
    engine = create_engine(parsed)
    if parsed.get_backend_name() == "sqlite":
        event.listen(engine, "connect", _tune_sqlite)
    try:
        _migrate(engine)
    except SQLAlchemyError as error:
        engine.dispose()
        reason = getattr(error, "orig", None) or error
        shown = parsed.render_as_string(hide_password=True)
        raise StoreError(f"cannot open the store {shown}: {reason}") from error
    return engine


def _prepare_file(path: Path, *, create: bool) -> None:
    if not create and not path.is_file():
        raise StoreError(f"there is no store at {path}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make {path.parent}: {error.strerror or error}") from error


def _tune_sqlite(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA busy_timeout=30000")
    cursor.close()


def _migrate(engine: Engine) -> None:
    with engine.connect() as connection:
        found = _version(connection)
        if found is None and not inspect(connection).has_table(replies.name):
            _create(connection)
            return
    if found == HEAD:
        return
    if found is not None and found > HEAD:
        raise StoreError(
            f"the store was written by a newer mmconv (version {found}, this one knows {HEAD})"
        )
    # Alembic takes a quarter of a second to import, so only a database that needs it pays.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "mmconv.store:migrations")
    config.set_main_option("path_separator", "os")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _create(connection: Connection) -> None:
    """A new database gets today's tables at once; a test holds them against the migrations."""
    metadata.create_all(connection)
    connection.execute(versions.insert(), {"version_num": HEAD})
    connection.commit()


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.scalar(select(versions.c.version_num))
