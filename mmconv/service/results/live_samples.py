"""Samples of a run in its current state, finished or not: planned again, read from the store.

No model is called. They are planned and scored in a thread: a page may have thousands of calls,
while the server has other requests to serve.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from itertools import groupby, islice
from typing import Any

from mmconv.core.plans import Finished, Plan
from mmconv.core.types import Failure, Reply
from mmconv.engine import Runner
from mmconv.engine.run import Evaluation
from mmconv.run_folder.transcripts import call_records, message_record, score_record
from mmconv.service.http.requests import unknown_page
from mmconv.service.results.run_files import clean_call, no_sample
from mmconv.service.runs.requests import reading_data
from mmconv.service.state import Readable

OPEN_PLANS = 8
"""How many plans are read at once. Few share queries, since the server's loop answers them and has
other work between."""

Planned = list[tuple[Plan, Any]]
"""The plans of one sample, each with the benchmark's own record of it."""

Page = tuple[list[dict[str, Any]], str | None]
"""Samples, and the last one if more follow."""


async def live_page(
    shared: Readable, evaluation: Evaluation, after: str | None, limit: int
) -> Page:
    """At most `limit` samples after `after`. Raises `Problem` 400 for an unknown `after`."""
    async with shared.viewing:
        with reading_data(evaluation.spec.options):
            groups = await asyncio.to_thread(_groups_after, evaluation, after, limit + 1)
        plans = [plan for group in groups[:limit] for plan, _ in group]
        finished = await _finish(evaluation, plans)
    page = [_sample_info([finished[plan.order] for plan, _ in group]) for group in groups[:limit]]
    return page, page[-1]["sample"] if len(groups) > limit else None


async def live_records(shared: Readable, evaluation: Evaluation, sample: str) -> dict[str, Any]:
    """One sample's calls, with judges' prompts, and its scores. Raises `Problem` 404."""

    def plan() -> Planned:
        conditions = len(evaluation.benchmark.conditions)
        return list(islice(evaluation.plans(lambda name: name == sample), conditions))

    def read(group: Planned, finished: Mapping[int, Finished]) -> dict[str, Any]:
        return {
            "sample": sample,
            "calls": [call for plan, _ in group for call in _calls(finished[plan.order])],
            "scores": [
                score_record(score)
                for plan, record in group
                for score in evaluation.benchmark.score_finished(record, finished[plan.order])
            ],
        }

    async with shared.viewing:
        with reading_data(evaluation.spec.options):
            group = await asyncio.to_thread(plan)
            if not group:
                raise no_sample()
            finished = await _finish(evaluation, [plan for plan, _ in group])
            return await asyncio.to_thread(read, group, finished)


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
        raise unknown_page()
    return groups


async def _finish(evaluation: Evaluation, plans: list[Plan]) -> Mapping[int, Finished]:
    """The plans by their order, with the outcomes that are cached."""
    finished: list[Finished] = []
    resources = evaluation.resources
    runner = Runner(resources.models, resources.store, window=OPEN_PLANS, offline=True)
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
        call = finished.resolved.get(record["call"])
        messages = call and [message_record(message) for message in call.messages]
        yield clean_call(record | {"messages": messages})
