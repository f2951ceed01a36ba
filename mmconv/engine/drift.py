"""Whether a judge still judges as it did: some of a run's verdicts, requested again.

Each is requested twice, so that the judge's own variation is known. Nothing of the run changes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from heapq import nsmallest
from statistics import fmean
from typing import Any

from judges import read_reply
from mmconv.core.errors import ConfigError, Unparsed
from mmconv.core.keys import hash_json
from mmconv.core.plans import Finished, Plan, ResolvedCall
from mmconv.core.types import Call, Reply, Summary, Verdict
from mmconv.engine.run import Evaluation
from mmconv.stats import Column, summarise

SENTINELS = 30

TWICE = ("now_1", "now_2")

_FIRST_TRIAL = 10**9
"""The `trial` of requests on the day 0, which no run reaches: each day gets new replies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentinel:
    """A verdict of the run: its call as it was sent, and the reply."""

    name: str
    call: Call
    sent: ResolvedCall
    reply: Reply

    def plan(self, order: int) -> Plan:
        """Requests the verdict twice."""
        trial = _FIRST_TRIAL + 10 * datetime.now(UTC).date().toordinal()
        calls = (
            replace(
                self.call,
                id=name,
                messages=self.sent.messages,
                sampling=replace(self.call.sampling, trial=trial + number),
                fallbacks=(),
                compares=None,
            )
            for number, name in enumerate(TWICE)
        )
        return Plan(order=order, sample=self.name, condition="", calls=tuple(calls))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How verdicts changed: the mean `shift`, and `more` than repeated verdicts differ.

    `more` is the mean square of the change less that between two new verdicts, halved: without a
    change its mean is 0. `then` and `now` are the models that the server named.
    """

    shift: Summary
    more: Summary
    changed: int
    then: Counter[str]
    now: Counter[str]

    @property
    def has_changed(self) -> bool:
        """Whether the judge is another one: by its verdicts, or as its server says."""
        is_other = bool(self.then and self.now) and self.then.keys().isdisjoint(self.now)
        return is_other or _excludes_zero(self.shift) or (self.more.low or 0.0) > 0


def _excludes_zero(change: Summary) -> bool:
    """Whether the interval is on one side of 0; of changes that are all equal, whether they are."""
    if change.low is None or change.high is None:
        return bool(change.mean) and change.stderr == 0
    return not change.low <= 0 <= change.high


async def check_drift(evaluation: Evaluation) -> Drift:
    """Request `SENTINELS` verdicts of a run again; raises `ConfigError` if it has none."""
    chosen = await _choose(evaluation)
    if not chosen:
        raise ConfigError(f"{evaluation.folder} has no verdicts; name a finished run with a judge")
    finished: dict[int, Finished] = {}
    runner = evaluation.runner()
    plans = (sentinel.plan(order) for order, sentinel in enumerate(chosen))
    await runner.run(plans, lambda each: finished.update({each.plan.order: each}))
    rows = [
        (sentinel, verdicts)
        for order, sentinel in enumerate(chosen)
        if order in finished and (verdicts := _verdicts(sentinel, finished[order]))
    ]
    labels = sorted({each.label or "" for _, verdicts in rows for each in verdicts})
    numbers = [[_number(each, labels) for each in verdicts] for _, verdicts in rows]
    shifts = [fmean(now) - then for then, *now in numbers]
    more = [
        ((then - one) ** 2 + (then - two) ** 2 - 2 * (one - two) ** 2) / 2
        for then, one, two in numbers
    ]
    samples = [sentinel.name for sentinel, _ in rows]
    return Drift(
        shift=summarise(Column.of(shifts, samples=samples)),
        more=summarise(Column.of(more, samples=samples)),
        changed=sum(then != one for then, one, _ in numbers),
        then=Counter(each.reply.answered_by for each in chosen if each.reply.answered_by),
        now=Counter(
            outcome.answered_by
            for each in finished.values()
            for outcome in each.outcomes.values()
            if isinstance(outcome, Reply) and outcome.answered_by
        ),
    )


async def _choose(evaluation: Evaluation) -> list[Sentinel]:
    found: list[Sentinel] = []

    def take(finished: Finished, sample: Any) -> None:
        for exchange in finished.exchanges():
            if isinstance(exchange.outcome, Reply) and exchange.resolved and exchange.call.parser:
                name = f"{finished.plan.sample} {finished.plan.condition} {exchange.call.id}"
                if "~" not in exchange.call.id:
                    found.append(
                        Sentinel(
                            name=name,
                            call=exchange.call,
                            sent=exchange.resolved,
                            reply=exchange.outcome,
                        )
                    )

    await evaluation.carry_out(evaluation.runner(offline=True), take)
    return nsmallest(SENTINELS, found, key=lambda each: hash_json(each.name))


def _verdicts(sentinel: Sentinel, finished: Finished) -> list[Verdict]:
    verdicts = []
    for reply in (sentinel.reply, *(finished.outcomes.get(name) for name in TWICE)):
        if not isinstance(reply, Reply):
            return []
        try:
            verdicts.append(read_reply(sentinel.call, reply))
        except Unparsed:
            return []
    return verdicts


def _number(verdict: Verdict, labels: list[str]) -> float:
    return fmean(verdict.scores.values()) if verdict.scores else labels.index(verdict.label or "")
