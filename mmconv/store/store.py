"""The cache of replies as the runner sees it: look up replies by key, write new ones.

Reads that arrive together share a query, writes share a transaction (group commit). Reads run on
one thread and writes on another, so that a lookup never waits for the disk. A write is acknowledged
after its transaction is on disk; an acknowledged reply is never requested again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

from sqlalchemy import Connection, delete, func, select
from sqlalchemy.exc import SQLAlchemyError

from mmconv.core.errors import StoreAway, StoreError, StoreFull
from mmconv.core.types import Failure, Outcome, Reply
from mmconv.store.batches import BatchedRequests
from mmconv.store.claims import LEASE_SECONDS, Claims
from mmconv.store.connections import connect, file_of, read_timeout
from mmconv.store.rows import BATCH, insert_new, now, read_replies, reply_row
from mmconv.store.schema import failures, images, replies, runs

Item = TypeVar("Item")
Result = TypeVar("Result")

_Answered: TypeAlias = tuple[str, str, Reply]
"""A reply with its key and the fingerprint of its model."""

_Step: TypeAlias = Literal["claim", "release", "renew"]
"""What a write can do with a claim."""

_Item: TypeAlias = tuple[str, str, Reply | Failure | _Step]
"""An item to write: a key, the fingerprint of a model, and what to write."""

_Written: TypeAlias = Reply | bool | None
"""The result of an item: the cached reply; for a claim, whether it was free, or a reply."""

_LOGGER = logging.getLogger(__name__)

RETRY_SECONDS = 0.5
"""Time between two attempts to reach a database that fails."""

GATHER_SECONDS = 0.004
"""How long a read or write waits for others that share its query or transaction."""

LOOK_SECONDS = 0.5
"""Time between two lookups of a call that another process requests."""


class Store:
    """Replies, failures, image facts and run specifications in one database.

    Raises `StoreError` if it cannot be opened, read or written (a full disk). If a database server
    stops answering, reads and writes wait for it, up to `store_timeout` in its URL (60 s), and then
    raise `StoreAway`. If an SQLite file is deleted or replaced while it is in use, every later read
    and write raises `StoreError`, and `aclose` saves all replies to another file.

    The coroutines belong to one event loop. `flights` are the calls that runners look up or request
    at this moment, by key, so that equal calls share one request. A flight that its runner gave up
    ends as None, and another runner requests the call. Requests of other processes are known by
    their claims (`mmconv.store.claims`). `batched_requests` are those that were sent in batches.
    """

    def __init__(self, url: str, *, create: bool = True) -> None:
        self.flights: dict[str, asyncio.Future[Outcome | None]] = {}
        self._timeout = read_timeout(url)
        self._away_since: float | None = None
        self._engine = connect(url, create=create)
        self._path = file_of(url)
        self._inode = _inode(self._path)
        self._reader = _Batcher(self._guarded(self._read_replies))
        self._failure_reader = _Batcher(self._guarded(self._read_failures))
        self._writer = _Batcher(self._guarded(self._write_outcomes))
        self._unsaved: dict[str, _Answered] = {}
        self._changed: set[str] = set()
        self._claims = Claims()
        self._claimed: set[str] = set()
        self._renewing: asyncio.Task[None] | None = None
        self._watcher = _Batcher(self._guarded(self._look_for_others))
        self.batched_requests = BatchedRequests(self._engine, self._guarded)

    async def get(self, key: str) -> Reply | None:
        """The cached reply of this key, if there is one.

        A reply that could not be written before is written first.
        """
        if (unsaved := self._unsaved.get(key)) is not None:
            return await self.put(*unsaved)
        return await self._reader.submit(key)

    async def put(self, key: str, fingerprint: str, reply: Reply) -> Reply:
        """Write a reply, and return the cached one once it is committed.

        If another process wrote a reply of the same key first, that one is returned, so that all
        runs see the same text. A reply that cannot be written is remembered, and written with the
        next one: it may have been paid for.
        """
        return cast("Reply", await self._writer.submit((key, fingerprint, reply)))

    async def add_failure(self, key: str, failure: Failure) -> None:
        """Append to the history of failures, which is never used as a reply."""
        await self._writer.submit((key, "", failure))

    async def claim(self, key: str) -> Reply | bool:
        """Claim a call just before it is requested; True if no other process requests it.

        Returns False if another process requests it, or its reply if there is one by now. A claim
        ends with `put`, `add_failure` or `release`.
        """
        self._claimed.add(key)
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._renew())
        won = cast("Reply | bool", await self._writer.submit((key, "", "claim")))
        if won is not True:
            self._claimed.discard(key)
        return won

    def release(self, key: str) -> None:
        """Give a claim back, if there is one, so that other processes can request the call."""
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
        """Write a run's specification (JSON) under its id, unless there is one."""
        with self._engine.begin() as connection:
            row = {"id": run_id, "spec": spec, "created": now()}
            insert_new(connection, runs, [row])

    def image_facts(self) -> dict[str, dict[str, Any]]:
        """The metadata of images by hash: the columns of the table `images`."""
        with self._engine.connect() as connection:
            return {row.sha256: dict(row._mapping) for row in connection.execute(select(images))}

    def add_image_facts(self, facts: Iterable[Mapping[str, Any]]) -> None:
        """Write the metadata of images."""
        rows = [dict(fact) for fact in facts]
        if rows:
            with self._engine.begin() as connection:
                insert_new(connection, images, rows)

    async def aclose(self) -> None:
        """Finish reads and writes under way and close the database. Safe to call twice.

        If replies are not written yet since the database fails, this waits for it, too, until
        `store_timeout` is over.
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
        if _inode(self._path) != self._inode:
            await asyncio.to_thread(self._save_copy)
        self._engine.dispose()

    def _guarded(
        self, work: Callable[[Sequence[Item]], Sequence[Result]]
    ) -> Callable[[Sequence[Item]], Sequence[Result]]:
        """The work, retried while the server is away."""

        def guarded(items: Sequence[Item]) -> Sequence[Result]:
            while True:
                try:
                    results = work(items)
                except StoreAway:
                    if self._away_since is None:
                        self._away_since = time.monotonic()
                        message = "the store's server does not answer; waiting for it, up to %g s"
                        _LOGGER.warning(message, self._timeout)
                    if time.monotonic() - self._away_since > self._timeout:
                        raise
                    time.sleep(RETRY_SECONDS)
                else:
                    self._away_since = None
                    if _inode(self._path) != self._inode:
                        raise StoreError(
                            f"the store {self._path} was deleted or replaced while it was in use; "
                            "its replies are saved to another file when the run ends"
                        )
                    return results

        return guarded

    def _save_copy(self) -> None:
        """Copy the content of a deleted file, which its connections still have."""
        path = cast("Path", self._path)
        copy = path.with_name(f"{path.name}.rescued-{time.time_ns() // 1_000_000}")
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
            with self._engine.connect() as connection:
                connection.exec_driver_sql("VACUUM INTO ?", (str(copy),))
        except (StoreError, SQLAlchemyError, OSError) as error:
            _LOGGER.error("the replies of the deleted store cannot be saved: %s", error)
        else:
            advice = "rename it to %s and give the same command again"
            _LOGGER.warning("all replies of the deleted store are in %s; " + advice, copy, path)

    async def _save_rest(self) -> None:
        until = (self._away_since or time.monotonic()) + self._timeout
        if self._unsaved:
            _LOGGER.warning("%d replies are not cached yet; trying again", len(self._unsaved))
        while self._unsaved:
            try:
                await asyncio.to_thread(self._write_outcomes, ())
            except StoreError as error:
                if isinstance(error, StoreFull) or time.monotonic() >= until:
                    message = "%d replies are lost, and will be requested again (%s)"
                    _LOGGER.error(message, len(self._unsaved), error)
                    self._unsaved.clear()
                    return
                await asyncio.sleep(RETRY_SECONDS)

    def _read_replies(self, keys: Sequence[str]) -> list[Reply | None]:
        with self._engine.connect() as connection:
            found = read_replies(connection, keys, self._changed)
        return [found.get(key) for key in keys]

    async def _renew(self) -> None:
        """Renew the leases of claims as long as there are any."""
        while self._claimed:
            await asyncio.sleep(LEASE_SECONDS / 3)
            # reads and writes of replies report a store that fails
            with suppress(StoreError):
                await self._writer.submit(("", "", "renew"))
        self._renewing = None

    def _look_for_others(self, keys: Sequence[str]) -> list[Reply | bool]:
        """For each key: its reply if there is one, else whether another process requests it."""
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
        """The latest failure of each key, for at most `BATCH` keys."""
        latest = select(func.max(failures.c.id)).where(failures.c.key.in_(keys))
        chosen = failures.c.id.in_(latest.group_by(failures.c.key))
        with self._engine.connect() as connection:
            found = {
                row.key: Failure(kind=row.kind, message=row.message, attempts=row.attempts)
                for row in connection.execute(select(failures).where(chosen))
            }
        return [found.get(key) for key in keys]

    def _write_outcomes(self, items: Sequence[_Item]) -> list[_Written]:
        """Write the items, and replies that could not be written before; results are of `items`."""
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
        failed = [(key, what) for key, _, what in items if isinstance(what, Failure)]
        with self._engine.begin() as connection:
            claims = self._change_claims(connection, items)
            kept: Mapping[str, Reply] = {}
            if new:
                # they were changed in the database after they were written
                changed = self._changed.intersection(key for key, _, _ in new)
                if changed:
                    connection.execute(delete(replies).where(replies.c.key.in_(changed)))
                rows = [reply_row(key, name, cast("Reply", reply)) for key, name, reply in new]
                if insert_new(connection, replies, rows) != len(rows):
                    kept = read_replies(connection, [key for key, _, _ in new])
            if failed:
                rows = [{"key": key, "created": now()} | asdict(each) for key, each in failed]
                connection.execute(failures.insert(), rows)
        # after the commit: a write that fails leaves the changed replies where they are
        self._changed.difference_update(key for key, _, _ in new)
        self._claimed.difference_update(key for key, *_ in (*new, *failed))
        return [
            kept.get(key, what)
            if isinstance(what, Reply)
            else (claims[key] if what == "claim" else None)
            for key, _, what in items
        ]

    def _change_claims(
        self, connection: Connection, items: Sequence[_Item]
    ) -> dict[str, Reply | bool]:
        """Take, renew and release claims; returns the result of each that was to be taken."""
        by_step: dict[str, list[str]] = {"claim": [], "release": [], "renew": []}
        for key, _, what in items:
            by_step[what if isinstance(what, str) else "release"].append(key)
        results: dict[str, Reply | bool] = {}
        if keys := by_step["claim"]:
            won = self._claims.take(connection, keys)
            # a reply may have been written since it was looked up, even without a claim
            replied = read_replies(connection, keys, self._changed)
            results = {key: replied.get(key, key in won) for key in keys}
            by_step["release"] += won & replied.keys()
        if by_step["release"]:
            self._claims.release(connection, by_step["release"])
        if by_step["renew"]:
            self._claims.renew(connection)
        return results


def _inode(path: Path | None) -> tuple[int, int] | None:
    """What a file is known by, other than its name; None without a file."""
    try:
        status = path.stat() if path else None
    except OSError:
        return None
    return status and (status.st_dev, status.st_ino)


class _Batcher(Generic[Item, Result]):
    """Runs a function on its own thread, over all items that were submitted in the meantime."""

    def __init__(self, work: Callable[[Sequence[Item]], Sequence[Result]]) -> None:
        self._work = work
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
            await asyncio.sleep(GATHER_SECONDS)
            batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
            try:
                results = await loop.run_in_executor(
                    self._thread, self._work, [item for item, _ in batch]
                )
            except Exception as error:  # noqa: BLE001 - it is raised to every caller
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)
        self._pump = None


def _forget(future: asyncio.Future[Any]) -> None:
    """Mark an error of a future as handled."""
    if not future.cancelled():
        future.exception()
