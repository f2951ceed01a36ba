"""A backend that sends calls in batches, at half the price, and waits for them.

Calls are gathered until none arrives for a while, or a batch is full. A request is known by a hash
of its content. The store names the batch of each (`mmconv.store.batches`) before it is sent. So a
run that was killed finds what it has paid for, whatever it was doing at that moment.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from mmconv.core.errors import FailureKind, Refused, Transient
from mmconv.core.keys import hash_bytes
from mmconv.core.protocols import BatchApi, BatchState
from mmconv.core.types import Message, Reply, Sampling

if TYPE_CHECKING:
    from mmconv.store.batches import BatchedRequest, BatchedRequests

Result = TypeVar("Result")

_LOGGER = logging.getLogger(__name__)

MAX_CONCURRENCY = 50_000
"""Calls that wait at once: as many as OpenAI's largest batch holds."""

IN_MEMORY = 2
"""Batches whose requests are in memory, until the provider has taken them."""

FIRST_QUIET, LONGEST_QUIET = 5.0, 600.0
"""Seconds without a new call after which a batch is sent; they double with each batch.

So calls that arrive one by one make few batches. No call waits longer than the second.
"""

FIRST_POLL, LONGEST_POLL = 10.0, 60.0
"""Seconds between two looks at a batch; they double with each look."""

SETTLED = 120.0
"""Seconds after which a batch that was sent is in the provider's list of batches."""

_CLOCK_ERROR = 600.0
"""Seconds by which the clocks of two machines may differ."""


@dataclass(slots=True)
class _Request:
    """A request on its way, seen through by `work`; the body is dropped once it was taken."""

    body: bytes
    answer: asyncio.Future[bytes] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    callers: int = 0
    work: asyncio.Task[None] | None = None

    def settle(self, answer: bytes | BaseException) -> None:
        if self.answer.done():
            return
        if isinstance(answer, bytes):
            self.answer.set_result(answer)
        else:
            # a copy, since each caller adds its traceback
            self.answer.set_exception(copy(answer))
            self.answer.exception()  # its caller may have been cancelled


_Requests = Mapping[str, _Request]


class BatchBackend:
    """A `Backend` on batches, created inside its event loop; tests replace its clock."""

    max_concurrency = MAX_CONCURRENCY

    def __init__(
        self,
        api: BatchApi,
        fingerprint: str,
        records: BatchedRequests,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._fingerprint = fingerprint.encode()
        self._records = records
        self._sleep = sleep
        self._now = now
        self._requests: dict[str, _Request] = {}
        self._pending: dict[str, _Request] = {}
        self._pending_bytes = self._arrived = 0
        self._quiet = FIRST_QUIET
        self._gathering: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._room = asyncio.Semaphore(IN_MEMORY)
        self._waiting: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._posts: set[asyncio.Task[str]] = set()

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        """Answer from a batch, within a day; raises `Transient` or `Refused`."""
        async with self._turn:
            body, seen = await self._api.encode(messages, sampling)
            key = hash_bytes(b"%s %d %s" % (self._fingerprint, sampling.trial, body))
            request = self._requests.get(key) or await self._add(key, _Request(body))
            del body
        request.callers += 1
        try:
            # other callers may wait for the same answer
            answer = await asyncio.shield(request.answer)
        finally:
            request.callers -= 1
            if not request.callers and key in self._pending:
                del self._pending[key], self._requests[key]
                self._pending_bytes -= len(request.body)
        return replace(self._api.read(answer, seen), batched=True)

    def describe_wait(self) -> str:
        """The batches and calls that it waits for, or ""."""
        parts, waiting = [], sum(self._waiting.values())
        if waiting:
            many = "batch" if len(self._waiting) == 1 else "batches"
            parts.append(f"waiting for {len(self._waiting):,} {many} with {_count(waiting)}")
        if (sending := len(self._requests) - len(self._pending) - waiting) > 0:
            parts.append(f"sending {_count(sending)}")
        if self._pending:
            parts.append(f"gathering {_count(len(self._pending))} for a batch")
        return ", ".join(parts)

    async def aclose(self) -> None:
        """Stop waiting. Batches that were sent go on, and the next run finds them."""
        tasks = [*self._tasks, *([self._gathering] if self._gathering else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._posts, return_exceptions=True)
        await self._api.aclose()

    async def _add(self, key: str, request: _Request) -> _Request:
        size = len(request.body)
        if self._pending and self._pending_bytes + size > self._api.most_bytes:
            await self._cut()
        self._requests[key] = self._pending[key] = request
        self._pending_bytes += size
        self._arrived += 1
        if len(self._pending) >= self._api.most_requests:
            await self._cut()
        elif self._gathering is None:
            self._gathering = asyncio.create_task(self._gather())
        return request

    async def _gather(self) -> None:
        while self._pending:
            arrived, waited, quiet = -1, 0.0, self._quiet
            while arrived != self._arrived and waited < LONGEST_QUIET:
                arrived = self._arrived
                await self._sleep(quiet)
                waited += quiet
            self._quiet = min(2 * quiet, LONGEST_QUIET)
            async with self._turn:
                await self._cut()
        self._gathering = None

    async def _cut(self) -> None:
        """Start to send what is pending, once there is room in memory for what follows."""
        if not self._pending:
            return
        await self._room.acquire()
        requests, self._pending, self._pending_bytes = self._pending, {}, 0
        self._start(self._send(requests), requests)

    def _start(self, work: Coroutine[Any, Any, object], requests: _Requests) -> None:
        async def see_through() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001 - it is raised to every caller
                # others were handed on, and may have been paid for
                own = {key: each for key, each in requests.items() if each.work is task}
                self._settle(own, dict.fromkeys(own, error))

        task = asyncio.create_task(see_through())
        for request in requests.values():
            request.work = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, requests: _Requests) -> None:
        try:
            by_name: dict[str, list[BatchedRequest]] = {}
            for row in await self._records.find(requests):
                by_name.setdefault(row.name, []).append(row)
            new = dict(requests)
            for rows in by_name.values():
                sent = {row.request: new.pop(row.request) for row in rows}
                self._start(self._adopt(rows[0].name, rows[0].batch, rows[0].created, sent), sent)
            if new:
                await self._submit(new)
        finally:
            self._room.release()

    async def _submit(self, requests: _Requests) -> None:
        while True:
            name, created = uuid4().hex, self._now()
            await self._records.add(name, created, requests)
            try:
                batch = await self._post(name, requests)
            except Refused:
                await self._records.drop(name, requests)
                raise
            except Transient as error:
                _LOGGER.warning("a batch of %d requests was not sent: %s", len(requests), error)
                if error.kind != "rate_limit":
                    # it may have arrived all the same
                    self._start(self._adopt(name, None, created, requests), requests)
                    return
            else:
                state = await self._wait_while(batch, "checking")
                if state.status != "full":
                    for request in requests.values():
                        request.body = b""
                    self._start(self._collect(name, batch, requests), requests)
                    return
                _LOGGER.warning(
                    "a batch of %d requests has to wait: %s", len(requests), state.error
                )
                if not self._waiting and len(requests) > 1:
                    await self._submit_halves(requests)
                    return
            await self._sleep(LONGEST_QUIET)

    async def _submit_halves(self, requests: _Requests) -> None:
        items = [*requests.items()]
        middle = len(items) // 2
        for half in (dict(items[:middle]), dict(items[middle:])):
            await self._submit(half)

    async def _post(self, name: str, requests: _Requests) -> str:
        """Send a batch; `aclose` lets this end, so that the batch is known afterwards."""

        async def post() -> str:
            bodies = {key: request.body for key, request in requests.items()}
            batch = await self._api.submit(name, bodies)
            await self._records.set_batch(name, batch)
            return batch

        task = asyncio.create_task(post())
        self._posts.add(task)
        task.add_done_callback(self._posts.discard)
        return await asyncio.shield(task)

    async def _adopt(
        self, name: str, batch: str | None, created: float, requests: _Requests
    ) -> None:
        """Collect requests of a batch that was sent before; send them if it never arrived."""
        for each in [batch] if batch else await self._find(name, created):
            try:
                if await self._collect(name, each, requests, is_known=batch is not None):
                    return
            except Refused as error:
                if error.kind != "not_found":
                    raise
        await self._records.drop(name, requests)
        await self._submit(requests)

    async def _find(self, name: str, created: float) -> list[str]:
        """The batches that may be the one that was being sent at this time."""
        await self._sleep(max(0.0, created + SETTLED - self._now()))
        rows = await self._records.find_batch(name)
        # another part of the batch may have found it in the meantime
        if known := [row.batch for row in rows if row.batch][:1]:
            return known
        return await self._insist(lambda: self._api.find(name, len(rows), created - _CLOCK_ERROR))

    async def _collect(
        self, name: str, batch: str, requests: _Requests, *, is_known: bool = True
    ) -> bool:
        self._waiting[batch] = len(requests) + self._waiting.get(batch, 0)
        try:
            state = await self._wait_while(batch, "checking", "running")
            answers = await self._insist(lambda: self._api.results(batch))
        finally:
            self._waiting.pop(batch, None)
        if not is_known and not answers.keys() & requests.keys():
            return False
        if not is_known:
            await self._records.set_batch(name, batch)
        missing = state.error or Transient("server", f"batch {batch} ended without an answer")
        results = {key: answers.get(key, missing) for key in requests}
        # before callers send them again
        failed = [key for key, result in results.items() if not isinstance(result, bytes)]
        await self._records.drop(name, failed)
        self._settle(requests, results)
        return True

    async def _wait_while(self, batch: str, *statuses: str) -> BatchState:
        pause = FIRST_POLL
        while (state := await self._insist(lambda: self._api.poll(batch))).status in statuses:
            await self._sleep(pause)
            pause = min(2 * pause, LONGEST_POLL)
        return state

    async def _insist(self, request: Callable[[], Awaitable[Result]]) -> Result:
        """Repeat what changes nothing until there is an answer."""
        while True:
            try:
                return await request()
            except Transient as error:
                _LOGGER.warning("no answer about a batch, which goes on: %s", error)
            await self._sleep(LONGEST_POLL)

    def _settle(self, requests: _Requests, results: Mapping[str, bytes | BaseException]) -> None:
        for key, request in requests.items():
            if self._requests.get(key) is request:
                del self._requests[key]
            result = results[key]
            if isinstance(result, Transient):
                # the provider has waited already, so other calls need not
                kind: FailureKind = "server" if result.kind == "rate_limit" else result.kind
                result = Transient(kind, str(result))
            request.settle(result)


def _count(calls: int) -> str:
    return f"{calls:,} call{'' if calls == 1 else 's'}"
