"""Samples of a run in its current state, finished or not: planned again, read from the store.

No model is called. As `mmconv show` does, for one sample or a page of them, in a thread: a page may
have thousands of calls to plan, while the server has other requests to serve.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from itertools import groupby, islice
from typing import Any, TypeVar

from mmconv.core.plans import Finished, Plan
from mmconv.core.protocols import Replies
from mmconv.core.types import Failure, Outcome, Reply
from mmconv.engine import Runner
from mmconv.engine.run import Evaluation
from mmconv.run_folder.transcripts import call_records, message_record, score_record
from mmconv.service.errors import Problem
from mmconv.service.results.run_files import clean_call
from mmconv.service.runs.execution import RunResources
from mmconv.service.runs.requests import reading_data

Result = TypeVar("Result")

OPEN_PLANS = 8
"""How many plans are read at once. Few share queries, since the server's loop answers them and has
other work between."""

Planned = list[tuple[Plan, Any]]
"""The plans of one sample, each with the benchmark's own record of it."""

Page = tuple[list[dict[str, Any]], str | None]
"""Samples, and the last one if more follow."""


async def live_page(
    resources: RunResources, evaluation: Evaluation, after: str | None, limit: int
) -> Page:
    """At most `limit` samples after `after`. Raises `Problem` 400 for an unknown `after`."""
    return await _read_in_thread(resources, evaluation, partial(_page, after=after, limit=limit))


async def live_records(
    resources: RunResources, evaluation: Evaluation, sample: str
) -> dict[str, Any] | None:
    """One sample's calls, with judges' prompts, and its scores; None for an unknown sample."""
    return await _read_in_thread(resources, evaluation, partial(_sample, sample=sample))


async def _read_in_thread(
    resources: RunResources,
    evaluation: Evaluation,
    read: Callable[[Evaluation, Replies], Coroutine[Any, Any, Result]],
) -> Result:
    """Read a run in a thread with its own loop, one request at a time.

    Raises `Problem` 409 if its data cannot be read any more.
    """
    replies = _RepliesOfOtherLoop(evaluation.resources.store, asyncio.get_running_loop())
    async with resources.viewing:
        with reading_data(evaluation.spec.options):
            return await asyncio.to_thread(lambda: asyncio.run(read(evaluation, replies)))


async def _page(evaluation: Evaluation, replies: Replies, after: str | None, limit: int) -> Page:
    groups = _groups_after(evaluation, after, limit + 1)
    plans = [plan for group in groups[:limit] for plan, _ in group]
    finished = await _finish(evaluation, replies, plans)
    page = [_sample_info([finished[plan.order] for plan, _ in group]) for group in groups[:limit]]
    return page, page[-1]["sample"] if len(groups) > limit else None


async def _sample(evaluation: Evaluation, replies: Replies, sample: str) -> dict[str, Any] | None:
    conditions = len(evaluation.benchmark.conditions)
    group = list(islice(evaluation.plans(lambda name: name == sample), conditions))
    if not group:
        return None
    finished = await _finish(evaluation, replies, [plan for plan, _ in group])
    return {
        "sample": sample,
        "calls": [call for plan, _ in group for call in _calls(finished[plan.order])],
        "scores": [
            score_record(score)
            for plan, record in group
            for score in evaluation.benchmark.score_finished(record, finished[plan.order])
        ],
    }


def _groups_after(evaluation: Evaluation, after: str | None, count: int) -> list[Planned]:
    """The plans of `count` samples. Those before them are not planned."""
    passed = after is None

    def is_behind(sample: str) -> bool:
        nonlocal passed
        before, passed = passed, passed or sample == after
        return before

    plans = groupby(evaluation.plans(is_behind), lambda planned: planned[0].sample)
    groups = [list(group) for _, group in islice(plans, count)]
    if not passed:
        raise Problem(400, "after: no such sample", param="after")
    return groups


async def _finish(
    evaluation: Evaluation, replies: Replies, plans: list[Plan]
) -> Mapping[int, Finished]:
    """The plans by their order, with the outcomes that are cached."""
    finished: list[Finished] = []
    runner = Runner(evaluation.resources.models, replies, window=OPEN_PLANS, offline=True)
    await runner.run(plans, finished.append)
    return {result.plan.order: result for result in finished}


def _sample_info(finished: list[Finished]) -> dict[str, Any]:
    outcomes = [outcome for result in finished for outcome in result.outcomes.values()]
    return {
        "sample": finished[0].plan.sample,
        "conditions": tuple(result.plan.condition for result in finished),
        "calls": len(outcomes),
        "replies": sum(isinstance(outcome, Reply) for outcome in outcomes),
        "failures": sum(isinstance(outcome, Failure) for outcome in outcomes),
    }


def _calls(finished: Finished) -> Iterator[dict[str, Any]]:
    for record in call_records(finished):
        call = finished.asked.get(record["call"])
        messages = call and [message_record(message) for message in call.messages]
        yield clean_call(record | {"messages": messages})


class _RepliesOfOtherLoop:
    """A store whose coroutines belong to the loop `home`, for the loop of another thread."""

    def __init__(self, store: Replies, home: asyncio.AbstractEventLoop) -> None:
        self.flights: dict[str, asyncio.Future[Outcome | None]] = {}
        self._store = store
        self._home = home

    async def get(self, key: str) -> Reply | None:
        return await self._at_home(self._store.get(key))

    async def put(self, key: str, fingerprint: str, reply: Reply) -> Reply:
        return await self._at_home(self._store.put(key, fingerprint, reply))

    async def add_failure(self, key: str, failure: Failure) -> None:
        await self._at_home(self._store.add_failure(key, failure))

    async def claim(self, key: str) -> Reply | bool:
        return await self._at_home(self._store.claim(key))

    def release(self, key: str) -> None:
        self._home.call_soon_threadsafe(self._store.release, key)

    async def wait_for_others(self, key: str) -> Reply | None:
        return await self._at_home(self._store.wait_for_others(key))

    async def last_failure(self, key: str) -> Failure | None:
        return await self._at_home(self._store.last_failure(key))

    async def _at_home(self, call: Coroutine[Any, Any, Result]) -> Result:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._home))
