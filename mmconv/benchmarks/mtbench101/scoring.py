"""From judgements to scores, live and rescored alike.

Metrics: `rating`, a turn's number by our strict reading; `authors`, the same judgement by the
authors' reading (its tag `reading` compares the two); `dialogue`, the whole dialogue's score
(turn 0); and of each answer of a live run those of `mmconv.benchmarks.shared.endings`. A dialogue
with an unscored turn is unscored by our reading: the minimum of the others could only flatter it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from judges import Reading, read_verdict
from judges.parsers.mtbench101 import first_bracketed_integer, is_out_of_range
from mmconv.benchmarks.mtbench101.grading import judgement_call
from mmconv.benchmarks.mtbench101.taxonomy import Task
from mmconv.benchmarks.shared.endings import endings
from mmconv.benchmarks.shared.scoring import Calls, Outcomes
from mmconv.core.errors import Unparsed
from mmconv.core.types import Call, Reply, Score

RATING = "rating"
AUTHORS = "authors"
DIALOGUE = "dialogue"
OUT_OF_RANGE = "out of range"
NO_INTEGER = "no [n]"

SAME = "same as ours"
OTHER = "another number"
ONLY_AUTHORS = "read by the authors only"
NEITHER = "not read"
"""The tag `reading` of an `authors` score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A dialogue, as far as its scores need to know it."""

    sample: str
    task: Task
    condition: str

    def score(
        self, metric: str, turn: int, value: float | None, why: str | None, **tags: str
    ) -> Score:
        """A score of this dialogue; its tags name task, ability and group."""
        tiers = {"task": self.task.code, "ability": self.task.ability, "group": self.task.group}
        return Score(
            sample=self.sample,
            condition=self.condition,
            metric=metric,
            turn=turn,
            tags=tiers | tags,
            value=value,
            why=why,
        )


def score_answers(judged: Judged, turns: Sequence[int], outcomes: Outcomes) -> Iterator[Score]:
    """How the answers themselves ended."""
    for turn in turns:
        for metric, value, why in endings(outcomes[f"turn_{turn}"]):
            yield judged.score(metric, turn, value, why)


def score_dialogue(
    judged: Judged, turns: Sequence[int], calls: Calls, outcomes: Outcomes, *, minimum: bool
) -> Iterator[Score]:
    """What was judged of one dialogue: each turn by both readings, then the whole."""
    ratings = []
    for turn in turns:
        call = calls[judgement_call(turn)]
        rating = turn_rating(judged, turn, call, outcomes)
        ratings.append(rating)
        yield rating
        yield authors_rating(judged, turn, call, outcomes, ours=rating.value)
    yield dialogue_score(judged, ratings, minimum=minimum)


def turn_rating(judged: Judged, turn: int, call: Call, outcomes: Outcomes) -> Score:
    """A turn's rating by our reading, rescues included."""
    reading = read_verdict(call, outcomes)
    if reading.verdict is not None:
        return judged.score(RATING, turn, reading.verdict.scores["rating"], None)
    return judged.score(RATING, turn, None, _why(reading, outcomes))


def authors_rating(
    judged: Judged, turn: int, call: Call, outcomes: Outcomes, *, ours: float | None
) -> Score:
    """A turn's rating by the authors' reading of the first reply; they ask nothing again."""
    outcome = outcomes[call.id]
    if not isinstance(outcome, Reply):
        alone = read_verdict(replace(call, rescues=()), outcomes)
        return judged.score(AUTHORS, turn, None, alone.why, reading=NEITHER)
    try:
        value = first_bracketed_integer(outcome.text).scores["rating"]
    except Unparsed:
        return judged.score(AUTHORS, turn, None, NO_INTEGER, reading=NEITHER)
    reading = ONLY_AUTHORS if ours is None else SAME if value == ours else OTHER
    return judged.score(AUTHORS, turn, value, None, reading=reading)


def dialogue_score(judged: Judged, ratings: Sequence[Score], *, minimum: bool) -> Score:
    """The dialogue's score: the minimum of its turns' ratings (paper, section 3.4), or the mean."""
    values = [rating.value for rating in ratings if rating.value is not None]
    if len(values) < len(ratings):
        why = next(rating.why for rating in ratings if rating.why is not None)
        return judged.score(DIALOGUE, 0, None, why)
    value = min(values) if minimum else math.fsum(values) / len(values)
    return judged.score(DIALOGUE, 0, value, None)


def _why(reading: Reading, outcomes: Outcomes) -> str | None:
    outcome = outcomes[reading.call]
    if isinstance(outcome, Reply) and is_out_of_range(outcome.text):
        return OUT_OF_RANGE
    return reading.why
