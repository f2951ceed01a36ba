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
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

from sqlalchemy import Connection, delete, func, select
from sqlalchemy.exc import SQLAlchemyError

from mmconv.core.errors import StoreAway, StoreError, StoreFull, StoreGone
from mmconv.core.types import Failure, Outcome, Reply
from mmconv.store.claims import LEASE_SECONDS, Claims
from mmconv.store.connections import connect, read_address, read_timeout
from mmconv.store.known import KnownKeys
from mmconv.store.rows import BATCH, failure_row, insert_new, now, read_replies, reply_row
from mmconv.store.schema import failures, images, replies, runs

Item = TypeVar("Item")
Result = TypeVar("Result")

_Answered: TypeAlias = tuple[str, str, Reply]
"""A reply with its key and the fingerprint of its model."""

_Step: TypeAlias = Literal["claim", "release", "renew"]
"""What a write does with claims."""

_Item: TypeAlias = tuple[str, str, Reply | Failure | _Step]
"""What a write is about: a key, the fingerprint of a model, and what to write."""

_Written: TypeAlias = Reply | bool | None
"""What comes of an item: the reply that is kept; for a claim, whether it was free, or a reply."""

_LOGGER = logging.getLogger(__name__)

AWAY_SECONDS = 30.0
"""How long a database that is away is waited for at the end, if replies are not kept yet."""

RETRY_SECONDS = 0.5
"""How long to wait between two tries to reach a database server that does not answer."""

GATHER_SECONDS = 0.001
"""How long a write waits for others to share its transaction."""

LOOK_SECONDS = 0.5
"""How long to wait between two looks for the reply to a call that another process requests."""


class Store:
    """Replies, failures, image facts and run specifications in one database.

    Raises `StoreError` if it cannot be opened, and later if it can no longer be read
    or written (a full disk): what was acknowledged is kept. A database server that stops answering
    is waited for (`store_timeout` in its URL, 60 s) before `StoreAway` is raised. If an SQLite file
    is deleted or replaced while it is in use, every later read and write raises `StoreGone`, and
    `aclose` writes all replies to a file beside it.

    The coroutines belong to one event loop; `aclose` waits for what is under way. `flights` are the
    calls that runners look up or request at this moment, by key, so that equal ones are one. One
    that its runner gave up ends as None, and the others request it again. What other processes
    request is found by their claims (`mmconv.store.claims`).
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
        self._claims = Claims()
        self._claimed: set[str] = set()
        self._renewing: asyncio.Task[None] | None = None
        self._watcher = _Batcher(self._guarded(self._look_for_others))

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

    async def claim(self, key: str) -> Reply | bool:
        """Claim a call just before it is requested; True if no other process requests it.

        False if another one does, and its reply if there is one by now. A claim ends with `put`,
        `add_failure` or `release`.
        """
        self._claimed.add(key)
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._renew())
        won = cast("Reply | bool", await self._writer.submit((key, "", "claim")))
        if won is not True:
            self._claimed.discard(key)
        return won

    def release(self, key: str) -> None:
        """Give a claim back, if there is one, for other processes to request the call."""
        if key in self._claimed:
            self._claimed.discard(key)
            # if this fails, the claim ends with its lease
            self._writer.submit((key, "", "release")).add_done_callback(_forget)

    async def wait_for_others(self, key: str) -> Reply | None:
        """The reply to a call that another process requests; None once none requests it."""
        found: Reply | bool = True
        while found is True:
            await asyncio.sleep(LOOK_SECONDS)
            found = await self._watcher.submit(key)
        return found or None

    async def last_failure(self, key: str) -> Failure | None:
        """How a call failed the last time, for the record."""
        return await self._failure_reader.submit(key)

    def add_run(self, run_id: str, spec: str) -> None:
        """Keep a run's specification (JSON) under its id; the first one stands."""
        with self._engine.begin() as connection:
            row = {"id": run_id, "spec": spec, "created": now()}
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
        if self._renewing is not None:
            self._renewing.cancel()
        await self._reader.aclose()
        await self._failure_reader.aclose()
        await self._watcher.aclose()
        await self._writer.aclose()
        await self._save_rest()
        if self._claimed:
            await asyncio.to_thread(self._release_all)
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
        if file.fallback.exists():
            _LOGGER.error(
                "%s is there already: the deleted store was not saved again", file.fallback
            )
            return
        try:
            with self._engine.connect() as connection:
                connection.exec_driver_sql("VACUUM INTO ?", (str(file.fallback),))
        except (StoreError, SQLAlchemyError) as error:
            _LOGGER.error("the replies of the deleted store cannot be saved: %s", error)
        else:
            _LOGGER.warning("all replies of the deleted store are in %s", file.fallback)

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

    async def _renew(self) -> None:
        """Keep the leases of claims from running out, as long as there are any."""
        while self._claimed:
            await asyncio.sleep(LEASE_SECONDS / 3)
            # a store that fails is noticed by those who read and write replies
            with suppress(StoreError):
                await self._writer.submit(("", "", "renew"))
        self._renewing = None

    def _look_for_others(self, keys: Sequence[str]) -> list[Reply | bool]:
        """Of each key: its reply if there is one, else whether another process requests it."""
        with self._engine.begin() as connection:
            # claims first: a reply is written as its claim ends
            others = self._claims.find_others(connection, keys)
            found = read_replies(connection, keys, self._changed)
        return [found.get(key, key in others) for key in keys]

    def _release_all(self) -> None:
        with suppress(StoreError), self._engine.begin() as connection:
            self._claims.release_all(connection)
        self._claimed.clear()

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

    def _write_outcomes(self, items: Sequence[_Item]) -> list[_Written]:
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

    def _write(self, items: Sequence[_Item]) -> list[_Written]:
        new = [item for item in items if isinstance(item[2], Reply)]
        failed = [item for item in items if isinstance(item[2], Failure)]
        with self._engine.begin() as connection:
            claims = self._change_claims(connection, items)
            kept: Mapping[str, Reply] = {}
            if new:
                self._remove_changed(connection, [key for key, _, _ in new])
                rows = [reply_row(key, name, cast("Reply", reply)) for key, name, reply in new]
                if insert_new(connection, replies, rows) != len(rows):
                    kept = read_replies(connection, [key for key, _, _ in new])
            if failed:
                connection.execute(
                    failures.insert(),
                    [failure_row(key, cast("Failure", failure)) for key, _, failure in failed],
                )
        # not before the commit: a write that fails leaves the changed replies where they are
        self._changed.difference_update(key for key, _, _ in new)
        self._claimed.difference_update(key for key, _, _ in (*new, *failed))
        return [
            kept.get(key, what)
            if isinstance(what, Reply)
            else (claims[key] if what == "claim" else None)
            for key, _, what in items
        ]

    def _change_claims(
        self, connection: Connection, items: Sequence[_Item]
    ) -> dict[str, Reply | bool]:
        """Take, renew and release claims; returns what came of each that was to be taken."""
        by_step: dict[str, list[str]] = {"claim": [], "release": [], "renew": []}
        for key, _, what in items:
            by_step[what if isinstance(what, str) else "release"].append(key)
        found: dict[str, Reply | bool] = {}
        if wanted := by_step["claim"]:
            won = self._claims.take(connection, wanted)
            # a reply that was written since it was looked up; it may be there without a claim
            replied = read_replies(connection, wanted, self._changed)
            found = {key: replied.get(key, key in won) for key in wanted}
            by_step["release"] += won & replied.keys()
        if by_step["release"]:
            self._claims.release(connection, by_step["release"])
        if by_step["renew"]:
            self._claims.renew(connection)
        return found


class _File:
    """The file of an SQLite store, as it was when the store was opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity = self._found()
        self.is_gone = False
        self.fallback = path.with_name(f"{path.name}.rescued")

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
                f"are saved to {self.fallback}: put that file in its place, then give the same "
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


def _forget(future: asyncio.Future[Any]) -> None:
    """Note that an error of a future was seen."""
    if not future.cancelled():
        future.exception()
