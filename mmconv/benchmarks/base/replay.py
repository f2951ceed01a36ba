"""Replay: a plan whose replies exist already, in a file, in another run or in a request.

Parsing, scoring and tables are those of an ordinary run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mmconv.benchmarks.base.benchmark import Benchmark
from mmconv.benchmarks.base.sample import Sample
from mmconv.benchmarks.layouts import Context, make_tables
from mmconv.core.types import Outcome, Reply, Score, Skipped, Table
from mmconv.stats import ScoreFrame

NOT_IN_FILE = "not in the file"
"""Why a call has no score: the file has no reply to it."""


def replay(
    benchmark: Benchmark[Any, Any],
    sample: Sample,
    condition: str,
    replies: Mapping[str, str | Outcome],
) -> list[Score]:
    """The scores of a sample whose calls have these replies or failures, by call id."""
    calls = {call.id: call for call in benchmark.plan(sample, condition)}
    absent = Skipped(because=NOT_IN_FILE, reason="absent")
    outcomes: dict[str, Outcome] = dict.fromkeys(calls, absent)
    for name in calls.keys() & replies.keys():
        reply = replies[name]
        outcomes[name] = Reply(text=reply) if isinstance(reply, str) else reply
    return [*benchmark.score(sample, benchmark.results(sample, condition, calls, outcomes))]


def published_tables(
    benchmark: Benchmark[Any, Any], frames: Mapping[str, ScoreFrame]
) -> list[Table]:
    """The tables of several models' scores that were read from files."""
    names = [*frames]
    candidate = names[0] if len(names) == 1 else f"{len(names)} models"
    context = Context(candidate=candidate, judge="the judge of the files")
    layouts, metrics = [*benchmark.layouts()], [*benchmark.metrics()]
    return make_tables(layouts, metrics, frames, context)
