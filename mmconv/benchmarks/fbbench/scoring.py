"""From outcomes to scores: what the answer is worth, by us and by the authors, and what is odd.

Metrics: `score` (0 to 1; criteria matched to the checklist, weights taken from it), `authors` (as
their code computes it from the reply alone), the judge's departures from the checklist as counts
(`renamed`, `missing`, `added`, `reweighted`), `refused` (0 or 1), and of the answer itself
those of `mmconv.benchmarks.shared.endings`. Tags: scenario, task, subtask, deficiency, feedback.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from judges import Reading, read_verdict
from judges.parsers.fbbench import FAULTS, OFFICIAL, criterion_score
from mmconv.benchmarks.fbbench.chains import ANSWER
from mmconv.benchmarks.fbbench.data import Sample
from mmconv.benchmarks.fbbench.grading import JUDGEMENT
from mmconv.benchmarks.fbbench.options import CONDITION, CORRECTION, Maintenance
from mmconv.benchmarks.shared.endings import endings
from mmconv.benchmarks.shared.scoring import Calls, Outcomes
from mmconv.core.types import Failure, Outcome, Score, Verdict

LABEL_SEPARATOR = "; "
"""Stands between the labels of a tag that holds several."""

REFUSAL = "repetitive patterns"
"""A server's words for refusing a prompt, which the authors' code scores as 0."""

_INCOMPLETE = "with criteria missing in the judgement"


def score_answer(sample: Sample, outcomes: Outcomes) -> Iterator[Score]:
    """How the answer itself ended."""
    for metric, value, why in endings(outcomes[ANSWER]):
        yield _score(sample, metric, value, why)


def score_judgement(
    sample: Sample, calls: Calls, outcomes: Outcomes, maintenance: Maintenance
) -> Iterator[Score]:
    """What the judgement says of the answer, and how it departs from the checklist."""
    reading = read_verdict(calls[JUDGEMENT], outcomes)
    answer, judgement = outcomes[ANSWER], outcomes[JUDGEMENT]
    refused = isinstance(judgement, Failure) and REFUSAL in judgement.message.lower()
    yield _score(sample, "score", *_value(sample, reading, answer, maintenance))
    if refused:
        yield _score(sample, OFFICIAL, 0.0)
    else:
        yield _read(sample, OFFICIAL, reading)
    for fault in FAULTS:
        yield _read(sample, fault, reading)
    yield _score(sample, "refused", float(refused))


def _value(
    sample: Sample, reading: Reading, answer: Outcome, maintenance: Maintenance
) -> tuple[float | None, str | None]:
    """The sample's score, or None and why: a failed call whose error was judged has none."""
    if isinstance(answer, Failure):
        return None, f"no answer: {answer.kind}"
    if reading.verdict is None:
        return None, reading.why
    met = _met(sample, reading.verdict)
    if sample.scenario == CORRECTION:
        if None in met:
            return None, _INCOMPLETE
        weights = [criterion.weight or 0.0 for criterion in sample.checklist]
        return math.fsum(w * each for w, each in zip(weights, met, strict=True) if each), None
    # One criterion can decide the sample, whatever became of the others.
    decisive = 1.0 if maintenance == "any" else 0.0
    if decisive in met:
        return decisive, None
    return (None, _INCOMPLETE) if None in met else (1.0 - decisive, None)


def _met(sample: Sample, verdict: Verdict) -> list[float | None]:
    """1 or 0 for each criterion, None for one that the judgement lacks."""
    return [verdict.scores.get(criterion_score(number)) for number in range(len(sample.checklist))]


def _read(sample: Sample, metric: str, reading: Reading) -> Score:
    value = None if reading.verdict is None else reading.verdict.scores[metric]
    return _score(sample, metric, value, reading.why)


def _score(sample: Sample, metric: str, value: float | None, why: str | None = None) -> Score:
    return Score(
        sample=sample.id,
        condition=CONDITION,
        metric=metric,
        tags=_tags(sample),
        value=value,
        why=why,
    )


def _tags(sample: Sample) -> dict[str, str]:
    tags = {
        "scenario": sample.scenario,
        "task": sample.task,
        "subtask": sample.subtask,
        "deficiency": LABEL_SEPARATOR.join(sample.deficiencies),
        "feedback": LABEL_SEPARATOR.join(sample.feedback_types),
    }
    return {name: text for name, text in tags.items() if text}
