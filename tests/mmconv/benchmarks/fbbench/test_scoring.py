"""From a judgement to scores: ours, the authors', and the counts of what is odd."""

import orjson
import pytest

from mmconv.benchmarks.base.replay import replay
from mmconv.benchmarks.fbbench import Dialogue, Maintenance
from mmconv.core.types import Failure, Outcome, Score, Skipped
from tests.mmconv.benchmarks.fbbench.samples import correction, maintenance, sample, without_data

EC = sample(correction())
SORRY, RIGHT = (criterion.text for criterion in EC.checklist)
RM = sample(maintenance())
FIRM, STILL = (criterion.text for criterion in RM.checklist)


def judged(
    each: Dialogue, judgement: str | Outcome, answer: str | Outcome = "2", rule: Maintenance = "any"
) -> dict[str, Score]:
    replies = {"turn_2": answer, "judgement": judgement}
    scores = replay(without_data(maintenance=rule), each, "preset", replies)
    return {score.metric: score for score in scores}


def reply(results: dict[str, str], weights: dict[str, float] | None = None) -> str:
    form = {
        name: {"评判理由": "有", "评判结果": result, "weight": (weights or {}).get(name)}
        for name, result in results.items()
    }
    return orjson.dumps(form).decode()


def test_scores_have_the_tags_that_tables_are_split_by() -> None:
    scores = judged(EC, reply({SORRY: "否", RIGHT: "是"}, {SORRY: 0.3, RIGHT: 0.7}))
    tags = {
        "scenario": "Error Correction",
        "task": "Mathematics",
        "subtask": "Arithmetic",
        "deficiency": "Logical Error",
        "feedback": "Pointing Out Errors",
    }
    assert all(score.tags == tags and score.turn is None for score in scores.values())
    several = judged(sample(maintenance(feedback_type=["B", "A", "B"])), "none")["score"]
    assert (several.tags["feedback"], "deficiency" in several.tags) == ("B; A", False)


@pytest.mark.parametrize(
    ("results", "weights", "ours", "authors", "odd"),
    [
        # the sum of the weights met
        ({SORRY: "否", RIGHT: "是"}, {SORRY: 0.3, RIGHT: 0.7}, 0.7, 0.7, {}),
        # our weights come from the checklist, the authors' from the reply
        ({SORRY: "否", RIGHT: "是"}, {SORRY: 0.3, RIGHT: 0.5}, 0.7, 0.5, {"reweighted": 1}),
        # a lost weight is a full score to the authors only
        ({SORRY: "是", RIGHT: "否"}, {RIGHT: 0.7}, 0.3, 1.0, {"reweighted": 1}),
        # a missing criterion leaves the sample unscored
        ({RIGHT: "是"}, {RIGHT: 0.7}, None, 0.7, {"missing": 1}),
    ],
)
def test_error_correction(
    results: dict[str, str],
    weights: dict[str, float],
    ours: float | None,
    authors: float,
    odd: dict[str, float],
) -> None:
    scores = judged(EC, reply(results, weights))
    assert (scores["score"].value, scores["authors"].value) == (ours, authors)
    names = ("renamed", "missing", "added", "reweighted", "refused")
    assert {name: scores[name].value for name in names} == dict.fromkeys(names, 0.0) | odd
    assert scores["score"].why == (
        "with criteria missing in the judgement" if ours is None else None
    )


@pytest.mark.parametrize(
    ("results", "rule", "expected"),
    [
        ({FIRM: "是", STILL: "否"}, "any", 1.0),
        ({FIRM: "否", STILL: "否"}, "any", 0.0),
        ({FIRM: "是"}, "any", 1.0),
        ({FIRM: "否"}, "any", None),
        ({FIRM: "是", STILL: "否"}, "all", 0.0),
        ({FIRM: "是", STILL: "是"}, "all", 1.0),
        ({FIRM: "否"}, "all", 0.0),
        ({FIRM: "是"}, "all", None),
    ],
)
def test_maintenance(results: dict[str, str], rule: Maintenance, expected: float | None) -> None:
    scores = judged(RM, reply(results), rule=rule)
    assert scores["score"].value == expected
    assert scores["authors"].value == float("是" in results.values())


REFUSED = Failure(kind="rejected", message="issue with Repetitive Patterns", attempts=1)
LATE = Failure(kind="timeout", message="too late", attempts=8)
BROKEN = Failure(kind="server", message="500", attempts=8)


@pytest.mark.parametrize(
    ("judgement", "answer", "reason", "authors"),
    [
        ("都满足。", "2", "unparsed", (None, "unparsed")),
        (REFUSED, "2", "failed: rejected", (0.0, None)),
        (LATE, "2", "failed: timeout", (None, "failed: timeout")),
        (Skipped(because="turn_2"), BROKEN, "no answer: server", (None, "skipped: turn_2")),
        (reply({SORRY: "是"}), BROKEN, "no answer: server", (1.0, None)),
    ],
)
def test_what_cannot_be_scored_has_a_reason(
    judgement: str | Outcome,
    answer: str | Outcome,
    reason: str,
    authors: tuple[float | None, str | None],
) -> None:
    """A refused prompt is 0 to the authors only, who judge even error texts as answers."""
    scores = judged(EC, judgement, answer)
    assert (scores["score"].value, scores["score"].why) == (None, reason)
    assert (scores["authors"].value, scores["authors"].why) == authors
    assert scores["refused"].value == float(judgement is REFUSED)
    if not isinstance(judgement, str):
        assert scores["renamed"].value is None
