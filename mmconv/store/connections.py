"""Connections to a database: addresses, engines, timeouts, errors in plain words.

SQLite is the embedded default, with a write-ahead log unless its file is on a network filesystem.
A PostgreSQL URL works the same.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, ExceptionContext, create_engine, event, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    InternalError,
    OperationalError,
    SQLAlchemyError,
)

from mmconv.core.errors import StoreAway, StoreError, StoreFull
from mmconv.store.schema import create_tables

BUSY_SECONDS = 30
"""How long SQLite waits for other writers."""

CACHE_KILOBYTES = 512
"""SQLite's page cache per connection; the system caches the file besides."""

KEPT_STATEMENTS = 16
"""Prepared statements per SQLite connection.

Each holds its last values, and each number of inserted rows makes another statement.
"""

TIMEOUTS = {"connect_timeout": 5, "tcp_user_timeout": 10_000, "keepalives_idle": 10}
"""Timeouts of psycopg: seconds to connect, milliseconds until sent data must be received, seconds
of silence until a keep-alive probe."""

TIMEOUT = "store_timeout"
"""The field of a URL's query that sets `TIMEOUT_SECONDS`: postgresql://...?store_timeout=300."""

TIMEOUT_SECONDS = 60.0
"""How long the store waits for a database server that does not answer, once it is open."""

DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""SQLite's codes for a file that it cannot read; extended codes add higher bits."""

DISK_FULL = (sqlite3.SQLITE_FULL, "53100")
"""The codes of SQLite and PostgreSQL for a full disk."""

SECRETS = ("password", "sslpassword")
"""Fields of a URL's query that hold passwords."""

SILENT_SECONDS = 30.0
"""How long a PostgreSQL server may send nothing during a request before it counts as away."""

MOUNTS = Path("/proc/mounts")
"""Linux lists a device, a folder and a filesystem type in each line."""

NETWORK = frozenset(
    {"afs", "beegfs", "ceph", "cifs", "gpfs", "lustre", "nfs", "nfs4", "panfs", "smb3", "wekafs"}
    | {"fuse.ceph", "fuse.glusterfs", "fuse.juicefs", "fuse.sshfs"}
)
"""Filesystem types that several machines can mount at once."""


def connect(url: str, *, create: bool = True) -> Engine:
    """Open a database by URL, or an SQLite file by path, with its tables up to date.

    Without `create` an SQLite file must exist. Raises `StoreError`, without the password, if that
    fails, and later if the database fails (a full disk, a lost server). An error in a statement
    itself is not converted: it is a bug.
    """
    parsed = read_address(url)
    if parsed.get_backend_name() == "sqlite" and parsed.database:
        _prepare_file(Path(parsed.database), create=create)
    shown = _shown(parsed)
    engine = _make_engine(parsed, shown)
    try:
        create_tables(engine)
    except StoreError:
        engine.dispose()
        raise
    except SQLAlchemyError as error:
        engine.dispose()
        reason = getattr(error, "orig", None) or error
        message = f"cannot open the store {shown}: {reason}"
        message += _recovery(reason, parsed)
        folder = Path(parsed.database or "").parent
        if parsed.get_backend_name() == "sqlite" and not os.access(folder, os.W_OK):
            # SQLite does not say so
            message += f"; {folder} cannot be written, and SQLite keeps more files there"
        raise StoreError(message) from error
    event.listen(engine, "handle_error", _store_error)
    if engine.dialect.driver == "psycopg":
        # only now, since changing the tables of an older store may take long
        bound_silence(engine)
    return engine


def _store_error(failed: ExceptionContext) -> StoreError | None:
    """The error to raise instead of the driver's; None keeps that one."""
    error, kind = failed.original_exception, type(failed.sqlalchemy_exception)
    if failed.is_pre_ping or kind not in (OperationalError, InternalError, DatabaseError):
        return None
    code = getattr(error, "sqlite_errorcode", None) or getattr(error, "sqlstate", None)
    if code == sqlite3.SQLITE_ERROR:
        return None
    where = "" if failed.engine is None else f" {_shown(failed.engine.url)}"
    message = f"the store{where} fails: {' '.join(str(error).split())}"
    if failed.engine is not None and (advice := _recovery(error, failed.engine.url)):
        return StoreError(message + advice)
    if kind is OperationalError:
        message += "; earlier replies are cached: fix the cause and run the same command again"
    if code in DISK_FULL:
        return StoreFull(message)
    is_server = failed.dialect.name != "sqlite"
    return StoreAway(message) if is_server and kind is OperationalError else StoreError(message)


def _recovery(error: BaseException, url: URL) -> str:
    """What to do with a file that SQLite cannot read; empty for other errors."""
    code = getattr(error, "sqlite_errorcode", None)
    if not isinstance(code, int) or code & 0xFF not in DAMAGED:
        return ""
    return f"; `sqlite3 {url.database} .recover | sqlite3 NEW` copies what can be read"


def _shown(url: URL) -> str:
    """A database's URL without its password, or a file's path, for messages."""
    if url.get_backend_name() == "sqlite" and not url.query and url.database:
        return url.database
    return url.difference_update_query(SECRETS).render_as_string(hide_password=True)


def read_address(address: str) -> URL:
    """The URL that an address stands for: one of PostgreSQL or SQLite, or an SQLite file's path.

    The default driver of PostgreSQL is psycopg. Raises `StoreError`, without the password, for
    anything else.
    """
    if "://" not in address:
        return URL.create("sqlite", database=address)
    try:
        url = make_url(address)
    except (ArgumentError, ValueError) as error:
        # the parser's message may hold the password
        shown = re.sub(r"(?<=://).*@", "***@", address)
        expected = "postgresql://user:password@host:5432/database, or the path of an SQLite file"
        raise StoreError(f"{shown!r} is not a database's address: write {expected}") from error
    if url.drivername in ("postgres", "postgresql"):
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise StoreError(
            f"{url.drivername} is not supported: use an SQLite file or a PostgreSQL database"
        )
    return url


def file_of(address: str) -> Path | None:
    """The file of an SQLite store; None for a server or a database in memory."""
    url = read_address(address)
    is_file = url.get_backend_name() == "sqlite" and url.database
    return Path(str(url.database)) if is_file else None


def read_timeout(address: str) -> float:
    """How many seconds to wait for a server that does not answer, from its address.

    Raises `StoreError` for a `store_timeout` that is not a number of seconds.
    """
    value = read_address(address).query.get(TIMEOUT, TIMEOUT_SECONDS)
    try:
        seconds = float(str(value))
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise StoreError(f"{TIMEOUT}={value}: write a number of seconds, as in {TIMEOUT}=300")
    return seconds


def _make_engine(url: URL, shown: str) -> Engine:
    """The engine for a URL, not yet connected; `shown` is the URL in messages."""
    is_sqlite = url.get_backend_name() == "sqlite"
    options = {"cached_statements": KEPT_STATEMENTS} if is_sqlite else TIMEOUTS
    options = {name: value for name, value in options.items() if name not in url.query}
    bare = url.difference_update_query([TIMEOUT])
    try:
        # a server that was restarted has closed idle connections of the pool
        engine = create_engine(bare, pool_pre_ping=not is_sqlite, connect_args=options)
    except ImportError as error:
        advice = "pip install 'mmconv[postgres]' for postgresql+psycopg"
        raise StoreError(f"{shown} needs {error.name}, which is not installed: {advice}") from error
    except (SQLAlchemyError, TypeError, ValueError) as error:
        raise StoreError(f"cannot open the store {shown}: {error}") from error
    if is_sqlite:
        event.listen(engine, "connect", _tuned(url))
    return engine


def _prepare_file(path: Path, *, create: bool) -> None:
    if path.is_dir():
        raise StoreError(f"{path} is a folder; a store is a file, as in {path / 'store.sqlite'}")
    if not create and not path.is_file():
        raise StoreError(f"{path}: no cache found (file does not exist)")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make {path.parent}: {error.strerror or error}") from error


def _tuned(url: URL) -> Callable[[Any, object], None]:
    """A function that sets up a new connection to an SQLite file."""
    journal = "DELETE" if url.database and is_on_network(Path(url.database)) else "WAL"

    def tune(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")
        _switch_journal(cursor, journal)
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute(f"PRAGMA cache_size=-{CACHE_KILOBYTES}")
        cursor.close()

    return tune


def _switch_journal(cursor: Any, journal: str) -> None:
    """Switch to or from a write-ahead log; SQLite itself does not wait for others here."""
    until = time.monotonic() + BUSY_SECONDS
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


def bound_silence(engine: Engine) -> None:
    """Close an engine's PostgreSQL connections if the server is silent for `SILENT_SECONDS`.

    A server that hangs keeps its connections open, so without this a request would never end.
    """
    # the driver is an extra
    import psycopg

    class BoundedConnection(psycopg.Connection[Any]):
        def wait(self, gen: Generator[Any, Any, Any], *args: Any, **named: Any) -> Any:
            return super().wait(self._bounded(gen), *args, **named)

        def _bounded(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
            """The generator, which psycopg resumes regularly with what is ready, if anything."""
            last_heard = time.monotonic()
            try:
                needed = next(gen)
                while True:
                    ready = yield needed
                    if ready:
                        last_heard = time.monotonic()
                    elif time.monotonic() - last_heard > SILENT_SECONDS:
                        self.pgconn.finish()
                        raise psycopg.OperationalError(
                            f"the server sent nothing for {SILENT_SECONDS:g} s"
                        )
                    needed = gen.send(ready)
            except StopIteration as ended:
                return ended.value

    def open_connection(_dialect: Any, _record: Any, args: Any, named: Any) -> Any:
        return BoundedConnection.connect(*args, **named)

    engine.dispose()
    event.listen(engine, "do_connect", open_connection)


def is_on_network(path: Path) -> bool:
    """Whether a file, or its folder, is on a network filesystem.

    SQLite's write-ahead log does not work there: its index is memory shared by all processes. Only
    Linux lists its mounts; elsewhere every filesystem counts as local.
    """
    try:
        lines = MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return False
    place = path.resolve()
    kind, depth = "", -1
    for _, name, mounted_kind, *_ in (line.split(" ") for line in lines):
        # blanks and the like are octal numbers
        folder = Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), name))
        # a later mount of the same folder hides the earlier one
        if len(folder.parts) >= depth and place.is_relative_to(folder):
            kind, depth = mounted_kind, len(folder.parts)
    return kind in NETWORK


def require_folder(address: str, named: str, made: Path | None = None) -> None:
    """Raise `StoreError` if the folder of an SQLite file does not exist, or for a bad address.

    `named` is the store's name in the message; the folder `made` will be created in time.
    """
    url = read_address(address)
    if url.get_backend_name() != "sqlite" or not url.database:
        return
    folder = Path(url.database).parent
    if not folder.is_dir() and (made is None or folder.absolute() != made.absolute()):
        raise StoreError(f"{named}: folder {folder} does not exist; create it first")


def has_password(address: str) -> bool:
    """Whether the address holds a password; raises `StoreError` for a bad address."""
    url = read_address(address)
    return url.password is not None or any(name in url.query for name in SECRETS)


def without_password(address: str) -> str:
    """The address without its password; raises `StoreError` for a bad address."""
    if "://" not in address:
        return address
    url = read_address(address)._replace(password=None)
    return url.difference_update_query(SECRETS).render_as_string()


def with_password(address: str, known: str) -> str:
    """`known` if it names the same database as this address, else the address unchanged.

    In that case PostgreSQL may find the password in PGPASSWORD or a password file.
    """
    return known if known and without_password(known) == without_password(address) else address
