"""The tables, and how a database is opened and brought up to date.

SQLite is the embedded default, with a write-ahead log where that is safe; a PostgreSQL URL works
the same. What a reply answered is not kept here: prompts are planned again from the run's
specification, and the content key proves that they are the same.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from sqlalchemy import (
    URL,
    BigInteger,
    Boolean,
    Column,
    Connection,
    DateTime,
    Dialect,
    Engine,
    ExceptionContext,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    create_engine,
    event,
    func,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    InternalError,
    OperationalError,
    SQLAlchemyError,
)

from mmconv.core.errors import StoreAway, StoreDamaged, StoreError, StoreFull
from mmconv.store.connections import is_on_network

HEAD = "0007"
"""The newest migration; a database that has it is opened without loading Alembic."""

MIGRATING, SUBMITTING = 0x6D6D63_01, 0x6D6D63_02
"""Purposes of transactions of which there is one at a time; the numbers are PostgreSQL's locks."""

PATIENCE_SECONDS = 30
"""How long SQLite waits while others write."""

CACHE_KILOBYTES = 512
"""How much of an SQLite file each connection keeps; the system keeps what was read besides."""

KEPT_STATEMENTS = 16
"""How many statements a connection to SQLite keeps prepared.

Each keeps the values it was last given, and that of an insert is another for each number of rows.
"""

PATIENT = {"connect_timeout": 5, "tcp_user_timeout": 10_000, "keepalives_idle": 10}
"""How long psycopg waits for a server that is silent: seconds to connect, milliseconds until what
was sent must be received, seconds until a server that says nothing is asked whether it is there."""

TIMEOUT = "store_timeout"
"""The field of a URL's query that sets `TIMEOUT_SECONDS`: postgresql://...?store_timeout=300."""

TIMEOUT_SECONDS = 60.0
"""How long a database server that does not answer is waited for, once the store is open."""

DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""What SQLite calls a file that it cannot read; extended codes add higher bits."""

DISK_FULL = (sqlite3.SQLITE_FULL, "53100")
"""What SQLite and PostgreSQL call it."""

SECRETS = ("password", "sslpassword")
"""Fields of a URL's query that drivers take for passwords."""

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
    Column("answered_by", AnyText),
    Column("created", DateTime(timezone=True), nullable=False),
    # of everything above but the time; None in rows of a version that wrote none
    Column("checksum", String(32)),
    # PostgreSQL's number of the transaction that wrote the row: `mmconv.store.known` says why.
    Column("written", BigInteger),
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
"""Alembic's own table."""


def connect(url: str, *, create: bool = True) -> Engine:
    """Open a database by URL, or an SQLite file by path, migrated to `HEAD`.

    Without `create` an SQLite file must be there. Raises `StoreError` naming the database, without
    its password. A database that fails while it is in use, as on a full disk or a server that is
    gone, raises it too; what is wrong with a statement itself stays a bug.
    """
    parsed = read_address(url)
    if parsed.get_backend_name() == "sqlite" and parsed.database:
        _prepare_file(Path(parsed.database), create=create)
    shown = _shown(parsed)
    engine = _make_engine(parsed, shown)
    try:
        _migrate(engine)
    except SQLAlchemyError as error:
        engine.dispose()
        reason = getattr(error, "orig", None) or error
        if _is_damaged(reason):
            message = f"cannot open the store {shown}: {reason}; {_recovery(engine)}"
            raise StoreDamaged(message) from error
        raise StoreError(f"cannot open the store {shown}: {reason}{_closed(parsed)}") from error
    event.listen(engine, "handle_error", _store_error)
    if engine.dialect.driver == "psycopg":
        # Migrations may take long, and the driver is an extra.
        from mmconv.store.connections import bound_silence

        bound_silence(engine)
    return engine


def _closed(url: URL) -> str:
    """What to add where SQLite's folder is closed to writing, since SQLite does not say so."""
    if url.get_backend_name() != "sqlite" or not url.database:
        return ""
    folder = Path(url.database).parent
    is_closed = folder.is_dir() and not os.access(folder, os.W_OK)
    return f"; {folder} cannot be written, and SQLite keeps more files there" if is_closed else ""


def _store_error(failed: ExceptionContext) -> StoreError | None:
    """The error to raise in place of the driver's; None leaves that one."""
    error, kind = failed.original_exception, type(failed.sqlalchemy_exception)
    if failed.is_pre_ping or kind not in (OperationalError, InternalError, DatabaseError):
        return None
    code = getattr(error, "sqlite_errorcode", None) or getattr(error, "sqlstate", None)
    if code == sqlite3.SQLITE_ERROR:
        return None
    where = "" if failed.engine is None else f" {_shown(failed.engine.url)}"
    message = f"the store{where} fails: {' '.join(str(error).split())}"
    if _is_damaged(error):
        return StoreDamaged(f"{message}; {_recovery(failed.engine)}")
    if kind is OperationalError:
        message += (
            "; what was answered before is kept: once the cause is fixed, the same command goes on"
        )
    if code in DISK_FULL:
        return StoreFull(message)
    is_server = failed.dialect.name != "sqlite"
    return StoreAway(message) if is_server and kind is OperationalError else StoreError(message)


def _is_damaged(error: BaseException) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF in DAMAGED


def _recovery(engine: Engine | None) -> str:
    """How to go on with a damaged file."""
    old = Path("OLD" if engine is None else str(engine.url.database))
    new = old.with_name(f"new-{old.name}")
    return f"`mmconv merge {new} {old}` copies what can be read; go on with --store {new}"


def _shown(url: URL) -> str:
    """A database's URL as messages may have it, without a password; a file's path."""
    if url.get_backend_name() == "sqlite" and not url.query and url.database:
        return url.database
    return url.difference_update_query(SECRETS).render_as_string(hide_password=True)


def read_address(address: str) -> URL:
    """The URL that an address stands for: one of PostgreSQL or SQLite, or an SQLite file's path.

    PostgreSQL is spoken to through psycopg where the URL names no driver. Raises `StoreError` for
    anything else, and shows no password.
    """
    if "://" not in address:
        return URL.create("sqlite", database=address)
    try:
        url = make_url(address)
    except (ArgumentError, ValueError) as error:
        # The parser's own message may hold the password.
        shown = re.sub(r"(?<=://).*@", "***@", address)
        expected = "postgresql://user:password@host:5432/database, or the path of an SQLite file"
        raise StoreError(f"{shown!r} is no database's address: write {expected}") from error
    if url.drivername in ("postgres", "postgresql"):
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise StoreError(f"a store is kept in SQLite or PostgreSQL, not in {url.drivername}")
    return url


def read_timeout(address: str) -> float:
    """How many seconds a server that does not answer is waited for, by its address.

    Raises `StoreError` for a `store_timeout` that is not a number of seconds.
    """
    given = read_address(address).query.get(TIMEOUT, TIMEOUT_SECONDS)
    try:
        seconds = float(str(given))
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise StoreError(f"{TIMEOUT}={given}: write a number of seconds, as in {TIMEOUT}=300")
    return seconds


def _make_engine(url: URL, shown: str) -> Engine:
    """The engine for a URL, not yet connected; `shown` is the URL as messages may have it."""
    try:
        # a server that was restarted while nobody asked has closed the connections that are kept
        pings = url.get_backend_name() != "sqlite"
        bare = url.difference_update_query([TIMEOUT])
        engine = create_engine(bare, pool_pre_ping=pings, connect_args=_driver_options(bare))
    except ImportError as error:
        advice = "pip install 'mmconv[postgres]' for postgresql+psycopg"
        raise StoreError(f"{shown} needs {error.name}, which is not here: {advice}") from error
    except (SQLAlchemyError, TypeError, ValueError) as error:
        raise StoreError(f"cannot open the store {shown}: {error}") from error
    if url.get_backend_name() == "sqlite":
        event.listen(engine, "connect", _tuned(url))
    return engine


def _driver_options(url: URL) -> dict[str, int]:
    """What SQLite keeps prepared, or how long to wait for a server, where the URL says nothing."""
    sqlite = url.get_backend_name() == "sqlite"
    options = {"cached_statements": KEPT_STATEMENTS} if sqlite else PATIENT
    return {name: value for name, value in options.items() if name not in url.query}


def _prepare_file(path: Path, *, create: bool) -> None:
    if path.is_dir():
        raise StoreError(f"{path} is a folder; a store is a file, as in {path / 'store.sqlite'}")
    if not create and not path.is_file():
        raise StoreError(f"there is no store at {path}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make {path.parent}: {error.strerror or error}") from error


def _tuned(url: URL) -> Callable[[Any, object], None]:
    """What sets up a new connection to an SQLite file; see `mmconv.store.connections` for its log."""
    journal = "DELETE" if url.database and is_on_network(Path(url.database)) else "WAL"

    def tune(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={PATIENCE_SECONDS * 1000}")
        _switch_journal(cursor, journal)
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute(f"PRAGMA cache_size=-{CACHE_KILOBYTES}")
        cursor.close()

    return tune


def _switch_journal(cursor: Any, journal: str) -> None:
    """Switch to or from a write-ahead log: SQLite does not wait while others open the file."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            cursor.execute(f"PRAGMA journal_mode={journal}")
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


def _migrate(engine: Engine) -> None:
    with engine.connect() as connection:
        if _version(connection) == HEAD:
            return
    with engine.begin() as connection:
        # Of several processes that open a new or an old database together, one does the work.
        hold_alone(connection, MIGRATING)
        found = _version(connection)
        if found is None and not inspect(connection).has_table(replies.name):
            _create(connection)
        elif found is not None and found > HEAD:
            raise StoreError(
                f"the store was written by a newer mmconv (version {found}, this one knows {HEAD})"
            )
        elif found != HEAD:
            _upgrade(connection)


def hold_alone(connection: Connection, purpose: int) -> None:
    """Let no other transaction of the same purpose in until this one ends; call it first.

    SQLite lets no other writer in at all.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(purpose)))
    else:
        connection.execute(text("BEGIN IMMEDIATE"))


def now_of(connection: Connection) -> datetime:
    """The time by the server's clock; processes on one machine, as SQLite's are, share theirs."""
    if connection.dialect.name == "postgresql":
        now = connection.scalars(select(func.clock_timestamp())).one()
        return cast("datetime", now).astimezone(UTC)
    return datetime.now(UTC)


def _upgrade(connection: Connection) -> None:
    # Alembic takes a quarter of a second to import, so only a database that needs it pays.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "mmconv.store:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _create(connection: Connection) -> None:
    """A new database gets today's tables at once; a test holds them against the migrations."""
    metadata.create_all(connection)
    # SQLite has no such numbers, and would pay for the index with every reply.
    if connection.dialect.name == "postgresql":
        connection.execute(text("CREATE INDEX ix_replies_written ON replies (written)"))
        number = "pg_current_xact_id()::text::bigint"
        connection.execute(text(f"ALTER TABLE replies ALTER COLUMN written SET DEFAULT ({number})"))
    connection.execute(versions.insert(), {"version_num": HEAD})


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.scalar(select(versions.c.version_num))
