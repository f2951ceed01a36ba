"""From a judgement to scores: ours, the authors', and the counts of what is odd."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from judges.parsers.fbbench import ChecklistParser
from mmconv.benchmarks.fbbench.benchmark import Maintenance, Sample, score_judgement
from mmconv.core.types import Call, Failure, Outcome, Reply, Score, Skipped
from tests.mmconv.benchmarks.fbbench.samples import (
    benchmark,
    correction,
    maintenance,
    sample,
    write,
)

ANSWERED = Reply(text="对不起，是2。", output_tokens=5)


def judged(
    each: Sample, judgement: Outcome, answer: Outcome = ANSWERED, rule: Maintenance = "any"
) -> dict[str, Score]:
    call = Call(
        id="judgement",
        seat="judge",
        messages=(),
        parser=ChecklistParser(checklist=each.checklist),
    )
    outcomes = {"turn_2": answer, "judgement": judgement}
    scores = list(score_judgement(each, {"judgement": call}, outcomes, rule))
    return {score.metric: score for score in scores}


def reply(results: dict[str, str], weights: dict[str, float] | None = None) -> Reply:
    form = {
        name: {"评判理由": "有", "评判结果": result, "weight": (weights or {}).get(name)}
        for name, result in results.items()
    }
    return Reply(text=orjson.dumps(form).decode())


EC = sample(correction())
SORRY, RIGHT = (criterion.text for criterion in EC.checklist)
RM = sample(maintenance())
FIRM, STILL = (criterion.text for criterion in RM.checklist)


def test_error_correction_is_the_sum_of_the_weights_met() -> None:
    scores = judged(EC, reply({SORRY: "否", RIGHT: "是"}, {SORRY: 0.3, RIGHT: 0.7}))
    assert (scores["score"].value, scores["authors"].value) == (0.7, 0.7)
    assert scores["score"].tags == {
        "scenario": "Error Correction",
        "task": "Mathematics",
        "subtask": "Arithmetic",
        "deficiency": "Logical Error",
        "feedback": "Pointing Out Errors",
    }


def test_weights_come_from_the_checklist_and_the_authors_from_the_reply() -> None:
    scores = judged(EC, reply({SORRY: "否", RIGHT: "是"}, {SORRY: 0.3, RIGHT: 0.5}))
    assert (scores["score"].value, scores["authors"].value) == (0.7, 0.5)
    assert scores["reweighted"].value == 1.0


def test_a_lost_weight_is_a_full_score_to_the_authors_only() -> None:
    scores = judged(EC, reply({SORRY: "是", RIGHT: "否"}, {RIGHT: 0.7}))
    assert (scores["score"].value, scores["authors"].value) == (0.3, 1.0)


def test_a_missing_criterion_leaves_error_correction_unscored() -> None:
    scores = judged(EC, reply({RIGHT: "是"}, {RIGHT: 0.7}))
    assert scores["score"].value is None
    assert scores["score"].why == "with criteria missing in the judgement"
    assert (scores["authors"].value, scores["missing"].value) == (0.7, 1.0)


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
def test_response_maintenance(
    results: dict[str, str], rule: Maintenance, expected: float | None
) -> None:
    scores = judged(RM, reply(results), rule=rule)
    assert scores["score"].value == expected
    assert scores["authors"].value == float("是" in results.values())


def test_a_judgement_that_cannot_be_read_scores_nothing() -> None:
    scores = judged(EC, Reply(text="都满足。"))
    names = ("score", "authors", "renamed", "missing", "added", "reweighted")
    assert {scores[name].value for name in names} == {None}
    assert {scores[name].why for name in names} == {"unparsed"}


def test_a_refused_prompt_is_0_to_the_authors_only() -> None:
    refusal = Failure(kind="rejected", message="issue with Repetitive Patterns", attempts=1)
    scores = judged(EC, refusal)
    assert (scores["score"].value, scores["score"].why) == (None, "failed: rejected")
    assert (scores["authors"].value, scores["refused"].value) == (0.0, 1.0)


def test_another_failure_is_left_out_by_the_authors_too() -> None:
    scores = judged(EC, Failure(kind="timeout", message="too late", attempts=8))
    assert (scores["authors"].value, scores["authors"].why) == (None, "failed: timeout")
    assert scores["refused"].value == 0.0


def test_an_answer_that_failed_is_no_answer() -> None:
    failed = Failure(kind="server", message="500", attempts=8)
    scores = judged(EC, Skipped(because="turn_2"), answer=failed)
    assert scores["score"].why == "no answer: server"
    assert scores["authors"].why == "skipped: turn_2"


def test_without_a_judge_only_the_end_of_the_answer_is_scored(tmp_path: Path) -> None:
    data = write(tmp_path / "data.json", [correction()])
    planned = benchmark(data, generate_only=True, reference=True)
    [each] = planned.load()
    assert [call.id for call in planned.plan(each, "preset")] == ["turn_2"]
    scores = planned.score(each, "preset", {}, {"turn_2": Reply(text="好", finish="length")})
    assert {score.metric: (score.value, score.why) for score in scores} == {
        "truncated": (1.0, None),
        "filtered": (0.0, None),
        "empty": (0.0, None),
        "tokens": (None, "not told by the server"),
    }
