"""The card of an audited judge: its error rates, and exactly which judge it was.

A run that cites it gets numbers corrected by these rates. It must have been judged in the same way:
by the same model, with the same prompts and options.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from mmconv.benchmarks.audit.benchmark import Audit
from mmconv.benchmarks.audit.metrics import (
    KINDER_TO_RIGHT,
    KINDER_TO_WRONG,
    PARAPHRASE,
    RIGHT,
    Measured,
    measure_judge,
)
from mmconv.benchmarks.audit.trust import excludes_zero
from mmconv.benchmarks.base.benchmark import Benchmark
from mmconv.benchmarks.options import file_options
from mmconv.stats import ScoreFrame, summarise_share
from mmconv.stats.corrections import Rate


class Entry(BaseModel):
    """A part of a card."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Judged(Entry):
    """How verdicts were made: by which model with which settings, and how it was asked."""

    benchmark: str
    model: str
    system: str | None
    sampling: Mapping[str, Any]
    options: Mapping[str, Any]
    prompts: Mapping[str, str]

    def differences(self, other: Judged) -> Iterator[str]:
        """The names of what is not the same, such as `options.judge_max_tokens`."""
        for name in type(self).model_fields:
            here, there = getattr(self, name), getattr(other, name)
            if isinstance(here, Mapping):
                keys = sorted(here.keys() | there.keys())
                yield from (f"{name}.{key}" for key in keys if here.get(key) != there.get(key))
            elif here != there:
                yield name


class ErrorRate(Entry):
    """How often right answers fail by a score in a turn, with its 95 % interval over n verdicts."""

    score: str
    turn: int
    control: str
    value: float
    low: float
    high: float
    variance: float
    n: int


class JudgeCard(Entry):
    """An audit's rates, and the scores by which the judge is kinder after right turns."""

    audit: str
    judge: str
    judged: Judged
    fails_right: tuple[ErrorRate, ...]
    kinder: tuple[str, ...] = ()

    def rate(self, score: str, turn: int) -> Rate | None:
        """The rate at which right answers fail; None if it was not measured."""
        for each in self.fails_right:
            if (each.score, each.turn) == (score, turn):
                return Rate(value=each.value, variance=each.variance)
        return None


def describe_judging(benchmark: Benchmark[Any, Any], **judge: Any) -> Judged:
    """How a run's verdicts are made; `judge` are the fields of its model."""
    audited = benchmark.inner if isinstance(benchmark, Audit) else benchmark
    options = audited.options.model_dump(mode="json")
    names = type(audited).judging or options.keys() - file_options(audited.options_type)
    return Judged(
        benchmark=audited.spec.benchmark,
        options={name: options[name] for name in sorted(names) if name in options},
        prompts=audited.prompt_set.digests(),
        **judge,
    )


def make_card(audit: Audit, frame: ScoreFrame, judged: Judged, *, run: str) -> JudgeCard:
    """The card of an audit with these scores."""
    measured = [each for each in audit.measured(frame) if not each.is_comparison]
    return JudgeCard(
        audit=run,
        judge=audit.spec.models["candidate"].label,
        judged=judged,
        fails_right=tuple(rate for each in measured for rate in _rates(each, frame)),
        kinder=tuple(each.score for each in measured if _is_kinder(each, frame)),
    )


def _rates(measured: Measured, frame: ScoreFrame) -> Iterator[ErrorRate]:
    """The rate of each turn: of paraphrases if there are any, as runs meet other words."""
    control = PARAPHRASE if PARAPHRASE in frame.distinct("condition") else RIGHT
    for turn in frame.turns():
        verdicts = measured.verdicts(measured.fails, condition=control)
        summary = summarise_share(verdicts(frame.only(turn=turn)))
        if summary.mean is None or summary.low is None or summary.high is None:
            continue
        # errors that did not occur are not impossible: with one answer of each kind added
        share = (summary.n * summary.mean + 1) / (summary.n + 2)
        added = share * (1 - share) / (summary.n + 2)
        yield ErrorRate(
            score=measured.score,
            turn=turn,
            control=control,
            value=summary.mean,
            low=summary.low,
            high=summary.high,
            variance=max(added, math.pow(summary.stderr or 0.0, 2)),
            n=summary.n,
        )


def _is_kinder(measured: Measured, frame: ScoreFrame) -> bool:
    halos = [
        each for each in measure_judge(measured) if each.name in (KINDER_TO_RIGHT, KINDER_TO_WRONG)
    ]
    cells = filter(None, (each.measure(frame) for each in halos))
    return any(map(excludes_zero, cells))
