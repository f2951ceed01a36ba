"""The results of one sample's calls, which a benchmark's `score` reads, and the scores' scale."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from typing import Any, Literal, TypeAlias

from judges import Reading, read_verdict
from mmconv.core.errors import ConfigError, Unparsed
from mmconv.core.types import Call, Outcome, Parser, Reply, Score, Verdict

Calls: TypeAlias = Mapping[str, Call]
Outcomes: TypeAlias = Mapping[str, Outcome]
Scores: TypeAlias = Iterable[Score]

Ends: TypeAlias = tuple[float, float]
"""The lowest and the highest value that a score can have."""

Scale: TypeAlias = Ends | Mapping[str, Ends | None] | None
"""The ends of all scores, or those of each by name; None: there are none."""

NOT_JUDGED = "not judged"
"""The reason of scores that need a judge in a run without one; they are not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The results of a sample's calls under one condition, by call id.

    `tags` gives the tags that go on all scores of a turn.
    """

    sample: str
    condition: str
    calls: Mapping[str, Call]
    outcomes: Mapping[str, Outcome]
    tags: Callable[[int | None], Mapping[str, str]]

    def __getitem__(self, call_id: str) -> Result:
        """The result of a call; one that this run leaves out has no verdict and a reason."""
        return Result(results=self, call_id=call_id)

    def score(
        self,
        name: str,
        value: float | None,
        reason: str | None = None,
        *,
        turn: int | None = None,
        **tags: str,
    ) -> Score:
        """A score of this sample; without a value it needs the reason."""
        return Score(
            sample=self.sample,
            condition=self.condition,
            metric=name,
            turn=turn,
            tags={**self.tags(turn), **tags},
            value=None if value is None else float(value),
            why=reason,
        )


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of one call: its outcome, and its verdict if it is a judgement."""

    results: Results
    call_id: str

    @property
    def outcome(self) -> Outcome | None:
        """The reply or failure; None if the run leaves the call out."""
        return self.results.outcomes.get(self.call_id)

    @property
    def text(self) -> str | None:
        """The text of the first reply, None if there is none."""
        return self.outcome.text if isinstance(self.outcome, Reply) else None

    @cached_property
    def reading(self) -> Reading:
        """How the replies to a judgement were read, retries and fallbacks included."""
        call = self.results.calls.get(self.call_id)
        if call is None or self.outcome is None:
            return Reading(call=self.call_id, why=NOT_JUDGED)
        return read_verdict(call, self.results.outcomes)

    @property
    def verdict(self) -> Verdict | None:
        """The judge's verdict, None if there is none to read."""
        return self.reading.verdict

    @property
    def reason(self) -> str | None:
        """The reason for a missing verdict."""
        return self.reading.why

    @property
    def first_reason(self) -> str | None:
        """Why the first request of a judgement has no reply; None if it has one."""
        if self.outcome is None:
            return NOT_JUDGED
        return None if isinstance(self.outcome, Reply) else self.outcome.why

    def read_first(self, parser: Parser, unread: str) -> tuple[Verdict | None, str | None]:
        """The first reply as another parser reads it, or None and the reason: nothing is retried.

        `unread` is the reason if the parser cannot read it.
        """
        if self.text is None:
            return None, self.first_reason
        try:
            return parser(self.text), None
        except Unparsed:
            return None, unread

    def score(
        self, name: str, *, of: str | None = None, turn: int | None = None, **tags: str
    ) -> Score:
        """A number of the verdict as a score: the verdict's own number `of`, or `name`."""
        value = None if self.verdict is None else self.verdict.scores[of or name]
        return self.results.score(name, value, self.reason, turn=turn, **tags)


def reduce_scores(
    results: Results, name: str, scores: Iterable[Score], how: Literal["min", "mean"], turn: int = 0
) -> Score:
    """One score of several, by default of turn 0; it is missing if any of them is."""
    scores = list(scores)
    values = [score.value for score in scores if score.value is not None]
    if len(values) < len(scores):
        reason = next(score.why for score in scores if score.value is None)
        return results.score(name, None, reason, turn=turn)
    value = min(values) if how == "min" else fsum(values) / len(values)
    return results.score(name, value, turn=turn)


def ends_of(scale: Scale, name: str) -> Ends | None:
    """The ends of the scores of this name, if they have any."""
    return scale.get(name) if isinstance(scale, Mapping) else scale


def check_scores(scores: Sequence[Score], scale: Scale) -> None:
    """Raise `ConfigError` for scores that are off the scale, given twice, or not there at all."""
    if not scores:
        raise ConfigError("missing score; return one without a value and with a reason")
    seen = set()
    for score in scores:
        this = score.metric, score.turn, frozenset(score.tags.items())
        if this in seen:
            raise ConfigError(
                f"{score.metric!r} is scored twice; give the scores different turns or tags"
            )
        seen.add(this)
        ends = ends_of(scale, score.metric)
        if score.value is not None and ends is not None and not ends[0] <= score.value <= ends[1]:
            raise ConfigError(
                f"{score.metric!r} is {score.value:g}, but its scale is {ends[0]:g} to "
                f"{ends[1]:g}; correct the score or `scale`"
            )


def contents_of(calls: Iterable[Call]) -> list[tuple[Any, ...]]:
    """What each call and fallback requests."""
    return [
        (each.id, each.model, each.messages, each.sampling)
        for call in calls
        for each in call.attempts
    ]


def roles_of(calls: Iterable[Call]) -> dict[str, str]:
    """The model roles that the calls use, in their order, each with the id of a call."""
    return {each.model: each.id for call in calls for each in call.attempts}
