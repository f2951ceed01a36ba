"""Samples of a run as they stand now, finished or not: planned again, read from the store.

Nothing is asked. It is what `mmconv show` does, for one sample or a page of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby, islice
from typing import Any

from mmconv.evaluation import Evaluation
from mmconv.plans import Finished, Plan
from mmconv.report.transcripts import call_records, message_record, score_record
from mmconv.service.run_files import clean_call
from mmconv.values import Failure, Reply

Planned = list[tuple[Plan, Any]]
"""The plans of one sample, each with the benchmark's own record of it."""


async def planned_page(
    evaluation: Evaluation, after: str | None, limit: int
) -> tuple[list[dict[str, Any]], str | None]:
    """At most `limit` samples behind `after`, and the last one if more follow."""
    groups = await asyncio.to_thread(_behind, evaluation, after, limit + 1)
    finished = await _read(evaluation, [plan for group in groups[:limit] for plan, _ in group])
    page = [_told([finished[plan.order] for plan, _ in group]) for group in groups[:limit]]
    return page, page[-1]["sample"] if len(groups) > limit else None


async def planned_sample(evaluation: Evaluation, sample: str) -> dict[str, Any] | None:
    """One sample's calls, judges' prompts included, and its scores; None if there is none such."""
    group = await asyncio.to_thread(_find, evaluation, sample)
    if not group:
        return None
    finished = await _read(evaluation, [plan for plan, _ in group])
    return {
        "sample": sample,
        "calls": [call for plan, _ in group for call in _calls(finished[plan.order])],
        "scores": [
            score for plan, record in group for score in _scores(evaluation, finished, plan, record)
        ],
    }


def _groups(evaluation: Evaluation) -> Iterator[Planned]:
    for _, group in groupby(evaluation.plans(), lambda planned: planned[0].sample):
        yield list(group)


def _behind(evaluation: Evaluation, after: str | None, count: int) -> list[Planned]:
    groups = _groups(evaluation)
    if after is not None:
        for group in groups:
            if group[0][0].sample == after:
                break
    return list(islice(groups, count))


def _find(evaluation: Evaluation, sample: str) -> Planned:
    return next((group for group in _groups(evaluation) if group[0][0].sample == sample), [])


async def _read(evaluation: Evaluation, plans: list[Plan]) -> Mapping[int, Finished]:
    finished: dict[int, Finished] = {}

    def keep(each: Finished) -> None:
        finished[each.plan.order] = each

    await evaluation.runner(offline=True).run(plans, keep)
    return finished


def _told(finished: list[Finished]) -> dict[str, Any]:
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


def _scores(
    evaluation: Evaluation, finished: Mapping[int, Finished], plan: Plan, record: Any
) -> Iterator[dict[str, Any]]:
    calls = {call.id: call for call in plan.calls}
    outcomes = finished[plan.order].outcomes
    for score in evaluation.benchmark.score(record, plan.condition, calls, outcomes):
        yield score_record(replace(score, sample=plan.sample))
