"""The authors' published judgements (`model_judgment/<judge>/<model>.jsonl`), rescored.

A record is a sample, a model's answer, the judge's JSON object and the score that the authors' code
computed. It goes through the parser, scores and tables of a run. What is odd in a file is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from judges.parsers.fbbench import OFFICIAL, ChecklistParser
from mmconv.benchmarks.data_files.records import Record, scan_records
from mmconv.benchmarks.fbbench.benchmark import (
    ANSWER,
    CONDITION,
    JUDGEMENT,
    REFUSAL,
    Maintenance,
    Sample,
    off_balance,
    read_sample,
    repeated,
    score_judgement,
)
from mmconv.benchmarks.fbbench.metrics import build_tables
from mmconv.benchmarks.layouts import Context
from mmconv.benchmarks.shared.rescore import Rescoring
from mmconv.benchmarks.shared.scoring import Outcomes
from mmconv.core.errors import DataError
from mmconv.core.score_rows import ScoreRows
from mmconv.core.types import Call, Failure, Outcome, Reply, Score, Table
from mmconv.stats import ScoreFrame

RELEASES = {"v1": 734, "v3": 591}
"""How many samples each release has; all of v1's have a reference answer."""

ERROR_TEXTS = ("$ERROR$", "$Since max_tokens is less than 1")
"""How stored answers begin that the authors' code writes for a failure."""

_ADVICE = "Pass the authors' judgement files as they are."
# stored scores are sums in another order or of another machine: their last places may differ
_SAME = 1e-9


def rescore(
    files: Sequence[Path], maintenance: Maintenance = "any", *, skip_bad: bool = False
) -> tuple[Table, ...]:
    """The tables of published judgements, one model per file.

    Raises `DataError` with the line and field of all bad records of a file: malformed ones, those
    of another model than the records before, and a second judgement of a sample. `skip_bad` leaves
    them out.
    """
    rescoring = Rescoring(skip_bad=skip_bad)
    published = [_Published(path=path, maintenance=maintenance) for path in files]
    for file in published:
        rescoring.take(file.path, scan_records(file.path), file.add, _ADVICE)
    models = [file.model for file in published]
    frames = {
        file.model if models.count(file.model) == 1 else f"{file.model} ({file.path})": (
            ScoreFrame(file.scores)
        )
        for file in published
    }
    judges = dict.fromkeys(judge for file in published for judge in file.judges)
    notes = tuple(note for file in published for note in file.notes())
    context = Context(candidate=", ".join(frames), judge=", ".join(judges), notes=notes)
    return rescoring.rescored(build_tables(frames, context))


@dataclass(slots=True, kw_only=True)
class _Published:
    """What one file holds: a model's scores, the judges, and the place of each sample."""

    path: Path
    maintenance: Maintenance
    scores: ScoreRows = field(default_factory=ScoreRows)
    model: str = ""
    judges: dict[str, None] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    references: int = 0
    counted_twice: list[str] = field(default_factory=list)

    def add(self, record: Record) -> None:
        """Add a record, or nothing of a bad one, for which `DataError` is raised."""
        sample = read_sample(record)
        if sample.id in self.places:
            raise DataError(record.where, [f"user_query is that of {self.places[sample.id]}"])
        model, judge = _read_name(record, "infer_model"), _read_name(record, "judge_model")
        if model != (self.model or model):
            fault = f"infer_model is {model!r}, and {self.model!r} before: give each model a file"
            raise DataError(record.where, [fault], _ADVICE)
        outcomes = _read_outcomes(record)
        scores = [*_score(sample, outcomes, record.fields.get("score"), self.maintenance)]
        self.places[sample.id] = record.where
        self.model = model
        self.judges[judge] = None
        self.references += sample.reference is not None
        for score in scores:
            self.scores.append(score)
        values = {score.metric: score.value for score in scores}
        if values["repeated"] and not _agree(values["score"], values[OFFICIAL]):
            self.counted_twice.append(sample.id)

    def notes(self) -> Iterator[str]:
        """How many samples of its release the file has, and whose scores need an explanation."""
        samples = len(self.places)
        release = "v1" if self.references == samples else "v3"
        total = RELEASES[release]
        missing = f", {total - samples} left out" if samples < total else ""
        yield f"{self.model}: {samples} of the {total} samples of release {release}{missing}."
        if self.counted_twice:
            yield (
                f"{self.model}: the checklist of {', '.join(self.counted_twice)} lists a criterion "
                "twice. Our score counts both its weights, the authors' score one."
            )


def _read_name(record: Record, field_name: str) -> str:
    name = record.fields.get(field_name)
    if not isinstance(name, str) or not name:
        raise DataError(record.where, [f"{field_name} is missing"], _ADVICE)
    return name


def _read_outcomes(record: Record) -> Outcomes:
    """The answer and the judgement as the outcomes of a run, in which a failure has no text."""
    answer, judgement = record.fields.get("second_response"), record.fields.get("judgement")
    if not isinstance(answer, str):
        raise DataError(record.where, ["second_response must be text"], _ADVICE)
    if not isinstance(judgement, dict):
        raise DataError(record.where, ["judgement must be an object"], _ADVICE)
    answered: Outcome = Reply(text=answer)
    if answer.startswith(ERROR_TEXTS):
        answered = Failure(kind="server", message=answer, attempts=1)
    judged: Outcome = Reply(text=orjson.dumps(judgement).decode())
    for value in judgement.values():
        if isinstance(value, str) and REFUSAL in value.lower():
            judged = Failure(kind="rejected", message=value, attempts=1)
    return {ANSWER: answered, JUDGEMENT: judged}


def _score(
    sample: Sample, outcomes: Outcomes, stored: Any, maintenance: Maintenance
) -> Iterator[Score]:
    """The scores of a run, and what is odd about the record."""
    parser = ChecklistParser(checklist=sample.checklist)
    call = Call(id=JUDGEMENT, seat="judge", messages=(), parser=parser)
    official = None
    for score in score_judgement(sample, {JUDGEMENT: call}, outcomes, maintenance):
        if score.metric == OFFICIAL:
            official = score.value
        yield score
    oddities = {
        "error_text": isinstance(outcomes[ANSWER], Failure),
        "off_balance": off_balance(sample) is not None,
        "repeated": len(repeated(sample)),
        "misstored": not _agree(official, stored),
    }
    for metric, value in oddities.items():
        yield Score(sample=sample.id, condition=CONDITION, metric=metric, value=float(value))


def _agree(own: float | None, other: Any) -> bool:
    if own is None or not isinstance(other, int | float):
        return own is other
    return abs(own - other) < _SAME
