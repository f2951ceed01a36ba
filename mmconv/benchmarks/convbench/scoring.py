"""From outcomes to scores: ratings, wins, and how the answers themselves ended.

Metrics: `rating` (1-10), `win` (1 if the judge chose the candidate's side, else 0; the tag `side`
says where it stood), and for each own turn those of `mmconv.benchmarks.shared.endings`. The tag
`cluster` is the image, because four images of ConvBench are used by two rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from judges import Reading, read_verdict
from mmconv.benchmarks.convbench.chains import own_turns
from mmconv.benchmarks.convbench.data import Row
from mmconv.benchmarks.convbench.grading import Grader, PlannedJudgement
from mmconv.benchmarks.shared.endings import endings
from mmconv.benchmarks.shared.scoring import Calls, Outcomes
from mmconv.core.types import Score, Verdict


def score_row(
    row: Row, condition: str, calls: Calls, outcomes: Outcomes, grader: Grader | None
) -> Iterator[Score]:
    """All scores of one row under one condition; without a grader only those of the answers."""
    yield from _answers(row, condition, outcomes)
    if grader is not None:
        for judgement in grader.judgements(row, condition):
            reading = read_verdict(calls[judgement.call], outcomes)
            yield _judged(row, condition, judgement, reading)


def _answers(row: Row, condition: str, outcomes: Outcomes) -> Iterator[Score]:
    for turn in own_turns(condition):
        for metric, value, why in endings(outcomes[f"turn_{turn}"]):
            yield Score(
                sample=row.id,
                condition=condition,
                metric=metric,
                turn=turn,
                tags=_tags(row, turn),
                value=value,
                why=why,
            )


def _judged(row: Row, condition: str, judgement: PlannedJudgement, reading: Reading) -> Score:
    tags = _tags(row, judgement.turn)
    if judgement.side is not None:
        tags["side"] = judgement.side
    return Score(
        sample=row.id,
        condition=condition,
        metric="rating" if judgement.grading == "direct" else "win",
        turn=judgement.turn,
        tags=tags,
        value=None if reading.verdict is None else worth(judgement, reading.verdict),
        why=reading.why,
    )


def worth(judgement: PlannedJudgement, verdict: Verdict) -> float:
    """The rating; of a comparison 1 if the judge chose the candidate's side, else 0."""
    if judgement.grading == "direct":
        return verdict.scores["rating"]
    return float(verdict.label == judgement.side)


def _tags(row: Row, turn: int) -> dict[str, str]:
    tags = {"cluster": row.image.sha256}
    category = row.categories[turn - 1] if turn else None
    if category is not None:
        tags["category"] = category
    return tags
