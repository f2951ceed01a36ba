"""Samples of a run as they stand now, finished or not: planned again, read from the store.

Nothing is asked. It is what `mmconv show` does, for one sample or a page of them, in a thread: of
a page there may be thousands of calls to plan, while the server has others to serve.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from itertools import groupby, islice
from typing import Any, TypeVar

from mmconv.core.plans import Finished, Plan, score_finished
from mmconv.core.protocols import Replies
from mmconv.core.types import Failure, Outcome, Reply
from mmconv.engine import Runner
from mmconv.engine.run import Evaluation
from mmconv.run_folder.transcripts import call_records, message_record, score_record
from mmconv.service.errors.problems import Problem
from mmconv.service.results.run_files import clean_call
from mmconv.service.runs.problems import reading_data
from mmconv.service.runs.resources import RunResources

Made = TypeVar("Made")

OPEN_PLANS = 8
"""How many plans are read at once: as few as share queries, since the server's loop hands out what
they ask the store for, and has other things to do between."""

Planned = list[tuple[Plan, Any]]
"""The plans of one sample, each with the benchmark's own record of it."""

Page = tuple[list[dict[str, Any]], str | None]
"""Samples, and the last one if more follow."""


async def live_page(
    resources: RunResources, evaluation: Evaluation, after: str | None, limit: int
) -> Page:
    """At most `limit` samples behind `after`; raises `Problem` 400 where there is none such."""
    return await _look_in_thread(resources, evaluation, partial(_page, after=after, limit=limit))


async def live_records(
    resources: RunResources, evaluation: Evaluation, sample: str
) -> dict[str, Any] | None:
    """One sample's calls, judges' prompts included, and its scores; None if there is none such."""
    return await _look_in_thread(resources, evaluation, partial(_sample, sample=sample))


async def _look_in_thread(
    resources: RunResources,
    evaluation: Evaluation,
    look: Callable[[Evaluation, Replies], Coroutine[Any, Any, Made]],
) -> Made:
    """Look at a run in a thread with a loop of its own, while no other request does.

    Raises `Problem` 409 where its data cannot be read any more.
    """
    replies = RepliesOfOtherLoop(evaluation.resources.store, asyncio.get_running_loop())
    async with resources.viewing:
        with reading_data(evaluation.spec.options):
            return await asyncio.to_thread(lambda: asyncio.run(look(evaluation, replies)))


async def _page(evaluation: Evaluation, replies: Replies, after: str | None, limit: int) -> Page:
    groups = _behind(evaluation, after, limit + 1)
    plans = [plan for group in groups[:limit] for plan, _ in group]
    finished = await _read(evaluation, replies, plans)
    page = [_sample_info([finished[plan.order] for plan, _ in group]) for group in groups[:limit]]
    return page, page[-1]["sample"] if len(groups) > limit else None


async def _sample(evaluation: Evaluation, replies: Replies, sample: str) -> dict[str, Any] | None:
    conditions = len(evaluation.benchmark.conditions)
    group = list(islice(evaluation.plans(lambda name: name == sample), conditions))
    if not group:
        return None
    finished = await _read(evaluation, replies, [plan for plan, _ in group])
    return {
        "sample": sample,
        "calls": [call for plan, _ in group for call in _calls(finished[plan.order])],
        "scores": [
            score_record(score)
            for plan, record in group
            for score in score_finished(evaluation.benchmark, record, finished[plan.order])
        ],
    }


def _behind(evaluation: Evaluation, after: str | None, count: int) -> list[Planned]:
    """The plans of `count` samples; those before them are not planned."""
    passed = after is None

    def is_behind(sample: str) -> bool:
        nonlocal passed
        before, passed = passed, passed or sample == after
        return before

    plans = evaluation.plans(is_behind)
    groups = [list(group) for _, group in islice(groupby(plans, _name), count)]
    if not passed:
        raise Problem(400, "after: no such sample", param="after")
    return groups


def _name(planned: tuple[Plan, Any]) -> str:
    return planned[0].sample


async def _read(
    evaluation: Evaluation, replies: Replies, plans: list[Plan]
) -> Mapping[int, Finished]:
    finished: dict[int, Finished] = {}

    def keep(each: Finished) -> None:
        finished[each.plan.order] = each

    runner = Runner(evaluation.resources.seats, replies, window=OPEN_PLANS, offline=True)
    await runner.run(plans, keep)
    return finished


def _sample_info(finished: list[Finished]) -> dict[str, Any]:
    outcomes = [outcome for each in finished for outcome in each.outcomes.values()]
    return {
        "sample": finished[0].plan.sample,
        "conditions": tuple(each.plan.condition for each in finished),
        "calls": len(outcomes),
        "replies": sum(isinstance(outcome, Reply) for outcome in outcomes),
        "failures": sum(isinstance(outcome, Failure) for outcome in outcomes),
    }


def _calls(finished: Finished) -> Iterator[dict[str, Any]]:
    for record in call_records(finished):
        asked = finished.asked.get(record["call"])
        messages = asked and [message_record(message) for message in asked.messages]
        yield clean_call(record | {"messages": messages})


Found = TypeVar("Found")


class RepliesOfOtherLoop:
    """The replies of a store whose coroutines belong to the loop `home`, for another thread's loop.

    Closing the store is not its users' matter.
    """

    def __init__(self, store: Replies, home: asyncio.AbstractEventLoop) -> None:
        self.flights: dict[str, asyncio.Future[Outcome | None]] = {}
        self._store = store
        self._home = home

    async def get(self, key: str) -> Reply | None:
        """The reply kept under this key, if there is one."""
        return await self._at_home(self._store.get(key))

    def look_again(self) -> None:
        """Let every later `get` find what any process has committed by now."""
        self._store.look_again()

    async def put(self, key: str, fingerprint: str, reply: Reply) -> Reply:
        """Keep a reply, and return the one that is kept."""
        return await self._at_home(self._store.put(key, fingerprint, reply))

    async def add_failure(self, key: str, failure: Failure) -> None:
        """Keep how a call failed, for the record."""
        await self._at_home(self._store.add_failure(key, failure))

    async def claim(self, key: str) -> Reply | bool:
        """Claim a call just before it is requested."""
        return await self._at_home(self._store.claim(key))

    def release(self, key: str) -> None:
        """Give a claim back."""
        self._home.call_soon_threadsafe(self._store.release, key)

    async def wait_for_others(self, key: str) -> Reply | None:
        """The reply to a call that another process requests."""
        return await self._at_home(self._store.wait_for_others(key))

    async def last_failure(self, key: str) -> Failure | None:
        """How a call failed the last time, for the record."""
        return await self._at_home(self._store.last_failure(key))

    async def _at_home(self, asked: Coroutine[Any, Any, Found]) -> Found:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asked, self._home))
