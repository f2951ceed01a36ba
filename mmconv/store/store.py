"""The store as the runner sees it: ask for replies by key, hand over new ones, await the commit.

Requests that arrive together share one query or one transaction (group commit): reads run on one
thread, writes on another, so that a lookup never waits for the disk. A write is acknowledged only
after its transaction is on disk; an acknowledged reply is never asked for again. Which keys there
are is held in two megabytes, so that a call that was never asked costs no query; what other
processes have kept is read anew each second in which somebody asks.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from datetime import UTC, datetime
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar, cast

import orjson
from sqlalchemy import Connection, Table, bindparam, delete, func, select, update
from sqlalchemy.exc import SQLAlchemyError

from mmconv.errors import StoreAway, StoreError, StoreFull, StoreGone
from mmconv.store.known import KnownKeys
from mmconv.store.schema import (
    connect,
    failures,
    images,
    read_address,
    read_timeout,
    replies,
    runs,
)
from mmconv.values import Failure, Outcome, Reply, SeenImage

Item = TypeVar("Item")
Result = TypeVar("Result")

_Answered: TypeAlias = tuple[str, str, Reply]
"""A reply with its key and the fingerprint of its model."""

_LOGGER = logging.getLogger(__name__)

AWAY_SECONDS = 30.0
"""How long a database that is away is waited for at the end, if replies are not kept yet."""

RETRY_SECONDS = 0.5
"""How long to wait between two tries to reach a database server that does not answer."""

BATCH = 500
"""Keys per query; SQLite allows about 32,000 variables, PostgreSQL 65,535."""

_REPLY = tuple(field.name for field in fields(Reply))
"""A reply's columns, which are named like its fields."""

_ROW = select(
    replies.c.checksum, replies.c.key, replies.c.fingerprint, *(replies.c[name] for name in _REPLY)
)
# Made once: making it takes as long as reading what it chooses.
_CHOSEN_REPLIES = _ROW.where(replies.c.key.in_(bindparam("keys", expanding=True)))

GATHER_SECONDS = 0.005
"""How long a write waits for others to share its transaction; it holds up no request."""


class Store:
    """Replies, failures, image facts and run specifications in one database.

    Raises `mmconv.errors.StoreError` if it cannot be opened, and later if it can no longer be read
    or written (a full disk): what was acknowledged is kept. A database server that stops answering
    is waited for (`store_timeout` in its URL, 60 s) before `StoreAway` is raised. If an SQLite file
    is deleted or replaced while it is in use, every later read and write raises `StoreGone`, and
    `aclose` writes all replies to a file beside it.

    The coroutines belong to one event loop; `aclose` waits for what is under way. `flights` are the
    calls that runners look up or request at this moment, by key, so that equal ones are one. One
    that its runner gave up ends as None, and the others request it again.
    """

    def __init__(self, url: str, *, create: bool = True) -> None:
        self.flights: dict[str, asyncio.Future[Outcome | None]] = {}
        self._timeout = read_timeout(url)
        self._engine = connect(url, create=create)
        self._file = _File.of(url)
        self._known = KnownKeys()
        with self._engine.connect() as connection:
            self._known.catch_up(connection)
        self._reader = _Batcher(self._guarded(self._read_replies))
        self._failure_reader = _Batcher(self._guarded(self._read_failures))
        write = self._guarded(self._write_outcomes)
        self._writer = _Batcher(write, gather=GATHER_SECONDS, one_by_one=True)
        self._unsaved: dict[str, _Answered] = {}
        self._changed: set[str] = set()

    async def get(self, key: str) -> Reply | None:
        """The reply kept under this key, if there is one.

        One that could not be kept when it came, since the database was away, is kept first. A
        reply that another process has kept within the last second may not be found; `put` then
        hands that one out. `look_again` makes sure of all that are there.
        """
        if (unsaved := self._unsaved.get(key)) is not None:
            return await self.put(*unsaved)
        if self._known.rules_out(key):
            return None
        return await self._reader.submit(key)

    def look_again(self) -> None:
        """Let every later `get` find what any process has committed by now; costs one query."""
        self._known.doubt()

    async def put(self, key: str, fingerprint: str, reply: Reply) -> Reply:
        """Keep a reply, and return once it is committed.

        What comes back is what the store holds: where another process kept a reply under the same
        key first, that one stands, so that every run sees the same text. A reply that cannot be
        kept is remembered, and kept as soon as anything is: it may have been paid for.
        """
        # Before it is there: whoever puts it may be cancelled meanwhile, and then nobody would.
        self._known.add(key)
        return cast("Reply", await self._writer.submit((key, fingerprint, reply)))

    async def add_failure(self, key: str, failure: Failure) -> None:
        """Append to the history of failures, which is never consulted as an answer."""
        await self._writer.submit((key, "", failure))

    async def last_failure(self, key: str) -> Failure | None:
        """How a call failed the last time, for the record."""
        return await self._failure_reader.submit(key)

    def add_run(self, run_id: str, spec: str) -> None:
        """Keep a run's specification (JSON) under its id; the first one stands."""
        with self._engine.begin() as connection:
            row = {"id": run_id, "spec": spec, "created": _now()}
            insert_new(connection, runs, [row])

    def image_facts(self) -> dict[str, dict[str, Any]]:
        """All that is known about images, by hash: the columns of the table `images`."""
        with self._engine.connect() as connection:
            return {row.sha256: dict(row._mapping) for row in connection.execute(select(images))}

    def add_image_facts(self, facts: Iterable[Mapping[str, Any]]) -> None:
        """Keep what was found out about images."""
        rows = [dict(fact) for fact in facts]
        if rows:
            with self._engine.begin() as connection:
                insert_new(connection, images, rows)

    async def aclose(self) -> None:
        """Finish what is under way and close the database. Safe to call twice.

        A database that is away is waited for, `AWAY_SECONDS` at most, if replies are not kept yet.
        """
        await self._reader.aclose()
        await self._failure_reader.aclose()
        await self._writer.aclose()
        await self._save_rest()
        if self._file is not None and self._file.is_gone:
            await asyncio.to_thread(self._rescue, self._file)
        self._engine.dispose()

    def _guarded(
        self, work: Callable[[Sequence[Item]], Sequence[Result]]
    ) -> Callable[[Sequence[Item]], Sequence[Result]]:
        """The work, retried while the server is away; `StoreGone` if the file is gone after it."""

        def guarded(items: Sequence[Item]) -> Sequence[Result]:
            began: float | None = None
            while True:
                try:
                    results = work(items)
                    break
                except StoreAway:
                    if began is None:
                        began = time.monotonic()
                        message = "the store's server does not answer; waiting for it, up to %g s"
                        _LOGGER.warning(message, self._timeout)
                    if time.monotonic() - began > self._timeout:
                        raise
                    time.sleep(RETRY_SECONDS)
            if self._file is not None:
                self._file.check()
            return results

        return guarded

    def _rescue(self, file: _File) -> None:
        """Write all that the deleted file holds to another: its connections still have it."""
        if file.rescue.exists():
            _LOGGER.error("%s is there already: the deleted store was not saved again", file.rescue)
            return
        try:
            with self._engine.connect() as connection:
                connection.exec_driver_sql("VACUUM INTO ?", (str(file.rescue),))
        except (StoreError, SQLAlchemyError) as error:
            _LOGGER.error("the replies of the deleted store cannot be saved: %s", error)
        else:
            _LOGGER.warning("all replies of the deleted store are in %s", file.rescue)

    async def _save_rest(self) -> None:
        until = time.monotonic() + AWAY_SECONDS
        if self._unsaved:
            _LOGGER.warning("replies that are not kept yet: %d; trying again", len(self._unsaved))
        while self._unsaved:
            try:
                await asyncio.to_thread(self._write_outcomes, ())
            except StoreError as error:
                if isinstance(error, StoreFull) or time.monotonic() > until:
                    told = "replies that are lost, and will be asked for again: %d (%s)"
                    _LOGGER.error(told, len(self._unsaved), error)
                    self._unsaved.clear()
                    return
                await asyncio.sleep(1)

    def _read_replies(self, keys: Sequence[str]) -> list[Reply | None]:
        with self._engine.connect() as connection:
            self._known.catch_up(connection)
            held = [key for key in keys if self._known.may_hold(key)]
            found = read_replies(connection, held, self._changed)
        return [found.get(key) for key in keys]

    def _remove_changed(self, connection: Connection, keys: Iterable[str]) -> None:
        """Make room for replies that are requested again since the stored ones were changed."""
        changed = self._changed.intersection(keys)
        if changed:
            connection.execute(delete(replies).where(replies.c.key.in_(changed)))

    def _read_failures(self, keys: Sequence[str]) -> list[Failure | None]:
        """The latest failure of each key; there are at most `BATCH` of them."""
        latest = select(func.max(failures.c.id)).where(failures.c.key.in_(keys))
        chosen = failures.c.id.in_(latest.group_by(failures.c.key))
        with self._engine.connect() as connection:
            found = {
                row.key: Failure(kind=row.kind, message=row.message, attempts=row.attempts)
                for row in connection.execute(select(failures).where(chosen))
            }
        return [found.get(key) for key in keys]

    def _write_outcomes(
        self, items: Sequence[tuple[str, str, Reply | Failure]]
    ) -> list[Reply | None]:
        """Write them, and what could not be written before; what comes back is of `items`."""
        answered = {item[0]: item for item in items if isinstance(item[2], Reply)}
        before = [item for key, item in self._unsaved.items() if key not in answered]
        try:
            written = self._write((*before, *items))
        except StoreError:
            self._unsaved |= cast("dict[str, _Answered]", answered)
            raise
        self._unsaved.clear()
        return written[len(before) :]

    def _write(self, items: Sequence[tuple[str, str, Reply | Failure]]) -> list[Reply | None]:
        new = [item for item in items if isinstance(item[2], Reply)]
        failed = [item for item in items if isinstance(item[2], Failure)]
        with self._engine.begin() as connection:
            kept: Mapping[str, Reply] = {}
            if new:
                self._remove_changed(connection, [key for key, _, _ in new])
                rows = [_reply_row(key, name, cast("Reply", reply)) for key, name, reply in new]
                if insert_new(connection, replies, rows) != len(rows):
                    kept = read_replies(connection, [key for key, _, _ in new])
            if failed:
                connection.execute(
                    failures.insert(),
                    [_failure_row(key, cast("Failure", failure)) for key, _, failure in failed],
                )
        # not before the commit: a write that fails leaves the changed replies where they are
        self._changed.difference_update(key for key, _, _ in new)
        return [
            kept.get(key, outcome) if isinstance(outcome, Reply) else None
            for key, _, outcome in items
        ]


class _File:
    """The file of an SQLite store, as it was when the store was opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity = self._found()
        self.is_gone = False
        self.rescue = path.with_name(f"{path.name}.rescued")

    @classmethod
    def of(cls, address: str) -> _File | None:
        """The file at an address; None for a server and for memory."""
        url = read_address(address)
        is_file = url.get_backend_name() == "sqlite" and url.database
        return cls(Path(str(url.database))) if is_file else None

    def check(self) -> None:
        """Raise `StoreGone` if the path holds another file by now, or none."""
        if self.is_gone or self._found() != self._identity:
            self.is_gone = True
            raise StoreGone(
                f"the store {self._path} was deleted or replaced while it was in use; its replies "
                f"are saved to {self.rescue}: put that file in its place, then give the same "
                "command again"
            )

    def _found(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino


class _Batcher(Generic[Item, Result]):
    """Runs a function of many items on its own thread, over whatever has gathered meanwhile.

    `gather` is how many seconds the first of a batch waits for others. Results that are handed out
    `one_by_one` let what has come meanwhile be seen to before the next one is worked on.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item]], Sequence[Result]],
        gather: float = 0.0,
        *,
        one_by_one: bool = False,
    ) -> None:
        self._work = work
        self._gather = gather
        self._one_by_one = one_by_one
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mmconv-store")
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._pump: asyncio.Task[None] | None = None

    def submit(self, item: Item) -> asyncio.Future[Result]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((item, future))
        if self._pump is None:
            self._pump = loop.create_task(self._drain())
        return future

    async def aclose(self) -> None:
        if self._pump is not None:
            await self._pump
        self._thread.shutdown()

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            await asyncio.sleep(self._gather)
            batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
            try:
                results = await loop.run_in_executor(
                    self._thread, self._work, [item for item, _ in batch]
                )
            except Exception as error:  # noqa: BLE001 - handed to everyone who waits for it
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)
                if self._one_by_one:
                    await asyncio.sleep(0)
        self._pump = None


def insert_new(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> int:
    """Insert the rows whose primary key is not there yet; returns how many were."""
    # Loaded by its name, since PostgreSQL's takes a while that a run with SQLite need not spend.
    dialect = import_module(f"sqlalchemy.dialects.{connection.dialect.name}")
    statement = dialect.insert(table).on_conflict_do_nothing()
    # Drivers do not all count the rows of many inserts, but all return what was asked for.
    new = connection.execute(statement.returning(*table.primary_key.columns), list(rows))
    return len(new.all())


def read_replies(
    connection: Connection, keys: Sequence[str], changed: set[str] | None = None
) -> dict[str, Reply]:
    """The replies kept under these keys; `changed` gets the keys of those that are not as written.

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
    """The checksum of a reply's row: key, fingerprint and columns as they are stored."""
    return blake2b(orjson.dumps([*row]), digest_size=16).hexdigest()


def checksum_of(row: Mapping[str, Any]) -> str:
    """The same of a row whose columns have names."""
    return find_checksum([row[name] for name in ("key", "fingerprint", *_REPLY)])


def fill_checksums(connection: Connection) -> None:
    """Give a checksum to every reply without one."""
    missing = _ROW.where(replies.c.checksum.is_(None))
    filled = (
        update(replies).where(replies.c.key == bindparam("of")).values(checksum=bindparam("is"))
    )
    while rows := connection.execute(missing.limit(BATCH)).all():
        values = [{"of": row.key, "is": find_checksum([*row][1:])} for row in rows]
        connection.execute(filled, values)


def _reply_row(key: str, fingerprint: str, reply: Reply) -> dict[str, Any]:
    row = {
        "key": key,
        "fingerprint": fingerprint,
        "text": reply.text,
        "reasoning": reply.reasoning,
        "finish": reply.finish,
        "input_tokens": reply.input_tokens,
        "output_tokens": reply.output_tokens,
        "seconds": reply.seconds,
        "dropped": reply.dropped,
        "seen": orjson.dumps(reply.seen).decode() if reply.seen else None,
        "answered_by": reply.answered_by,
    }
    return {**row, "checksum": checksum_of(row), "created": _now()}


def _failure_row(key: str, failure: Failure) -> dict[str, Any]:
    return {
        "key": key,
        "kind": failure.kind,
        "message": failure.message,
        "attempts": failure.attempts,
        "created": _now(),
    }


def _reply(columns: Iterable[Any]) -> Reply:
    told = dict(zip(_REPLY, columns, strict=True))
    seen, name = told["seen"], told["answered_by"]
    told["seen"] = tuple(SeenImage(**each) for each in orjson.loads(seen)) if seen else ()
    # one string for all replies of a model
    told["answered_by"] = name and sys.intern(name)
    return Reply(**told)


def _now() -> datetime:
    return datetime.now(UTC)
