"""Gathers concurrent requests into batches for the one thread that runs the model.

Requests wait in order of arrival. When the model is free, the oldest is taken and others that may
share its batch join it; while prompts are still being prepared it waits for them, briefly. Which
requests may share a batch is `model_zoo.hf.batching`'s matter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TypeAlias

from mmconv.core.errors import Refused, Transient
from model_zoo.hf.batching import Budget, Request, choose_batch
from model_zoo.hf.decoding import Completion

Answer: TypeAlias = Callable[[Sequence[Request]], list[Completion | Refused]]

GATHER_SECONDS = 0.005
"""How long an idle model waits for requests that come at the same time."""

PATIENCE_SECONDS = 1.0
"""How long it waits at most for prompts that are being prepared."""


class BatchQueue:
    """Requests in, completions out; `answer` runs in a thread, one batch at a time."""

    def __init__(self, answer: Answer, budget: Budget) -> None:
        self.answer = answer
        self.budget = budget
        self.waiting: list[Request] = []
        self.news = asyncio.Event()
        self.preparing = 0
        self.thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hf-model")
        self.loop = asyncio.get_running_loop()
        self.driver = self.loop.create_task(self._drive())
        self.driver.add_done_callback(self._fail_waiting)

    @contextmanager
    def expecting(self) -> Iterator[None]:
        """Tell the queue that a request is on its way."""
        self.preparing += 1
        try:
            yield
        finally:
            self.preparing -= 1
            self.news.set()

    async def ask(self, request: Request) -> Completion:
        """Wait for a reply; raises `Refused` where there can be none.

        Raises `Transient` ("connection") once the queue is closed, and where a bug
        has ended it what that bug raised.
        """
        if self.driver.done():
            raise _ending(self.driver)
        self.waiting.append(request)
        self.news.set()
        completion: Completion = await request.answer
        return completion

    async def aclose(self) -> None:
        """Stop after the batch in hand and fail what waits."""
        self.driver.cancel()
        await asyncio.wait([self.driver])
        await asyncio.to_thread(self.thread.shutdown)

    async def _drive(self) -> None:
        while True:
            await self._gather()
            # callers that gave up while they waited cost nothing
            self._forget_answered()
            if self.waiting:
                await self._run(choose_batch(self.waiting, self.budget))
                self._forget_answered()

    async def _gather(self) -> None:
        await self._until(lambda: bool(self.waiting))
        await asyncio.sleep(GATHER_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._until(
                    lambda: not self.preparing or len(self.waiting) >= self.budget.rows
                )

    async def _until(self, ready: Callable[[], bool]) -> None:
        while not ready():
            self.news.clear()
            await self.news.wait()

    async def _run(self, batch: list[Request]) -> None:
        running = self.loop.run_in_executor(self.thread, self.answer, batch)
        await asyncio.wait([running])
        failure = running.exception()
        answers = [failure] * len(batch) if failure is not None else running.result()
        for request, answer in zip(batch, answers, strict=True):
            _settle(request, answer)

    def _forget_answered(self) -> None:
        self.waiting = [request for request in self.waiting if not request.answer.done()]

    def _fail_waiting(self, driver: asyncio.Task[None]) -> None:
        """When the driver ends, nobody else will answer what waits, the batch in hand included."""
        for request in self.waiting:
            _settle(request, _ending(driver))


def _settle(request: Request, answer: Completion | BaseException | None) -> None:
    if request.answer.done():
        return
    if isinstance(answer, BaseException):
        request.answer.set_exception(answer)
    else:
        request.answer.set_result(answer)


def _ending(driver: asyncio.Task[None]) -> BaseException:
    """Why a driver that has ended answers nobody."""
    failure = None if driver.cancelled() else driver.exception()
    return failure or Transient("connection", "the backend was closed")
