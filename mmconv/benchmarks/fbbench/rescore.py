"""Published judgements of FB-Bench, read through the parser, scores and tables of a live run.

A file is the authors' `model_judgment/<judge>/<model>.jsonl`: a sample, the model's answer, the
judge's JSON object and the score that their code made of it. Nothing is asked here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from judges.parsers_fbbench import OFFICIAL, ChecklistParser
from mmconv.benchmarks.fbbench.data import Sample, off_balance, read_sample
from mmconv.benchmarks.fbbench.grading import ANSWER, JUDGEMENT
from mmconv.benchmarks.fbbench.options import CONDITION, Maintenance
from mmconv.benchmarks.fbbench.scoring import REFUSAL, score_judgement
from mmconv.benchmarks.fbbench.tables import Layout, build_tables
from mmconv.benchmarks.records import Record, scan_records
from mmconv.benchmarks.rescoring import Rescoring
from mmconv.errors import DataError
from mmconv.stats import ScoreFrame
from mmconv.values import Call, Failure, Outcome, Reply, Score, Table

RELEASES = {"v1": 734, "v3": 591}
"""How many samples each release has; all of v1's have a reference answer."""

ERROR_TEXTS = ("$ERROR$", "$Since max_tokens is less than 1")
"""How stored answers begin that are no answers: what the authors' code writes for a failure."""

_ADVICE = "Give the authors' judgement files as they are."
# Stored scores are sums in another order or on another machine: their last places may differ.
_SAME = 1e-9


def rescore(
    files: Sequence[Path], maintenance: Maintenance = "any", *, skip_bad: bool = False
) -> tuple[Table, ...]:
    """The tables of published judgements, one model per file.

    Raises `DataError` naming line and field of all records of a file that are no judgement, that
    are of another model than those before, or whose sample has one already; `skip_bad` leaves them
    out.
    """
    rescoring = Rescoring(skip_bad=skip_bad)
    read = [_read_file(path, maintenance, rescoring) for path in files]
    judges = dict.fromkeys(judge for each in read for judge in each.judges)
    layout = Layout(judge=", ".join(judges), notes=tuple(each.note for each in read))
    names = [each.name for each in read]
    frames = {
        each.name if names.count(each.name) == 1 else f"{each.name} ({each.path})": each.frame
        for each in read
    }
    return rescoring.rescored(build_tables(frames, layout))


@dataclass(slots=True, kw_only=True)
class _Judged:
    """What one file holds: its scores, and by which model and judges they were made."""

    path: Path
    frame: ScoreFrame = field(default_factory=ScoreFrame)
    name: str = ""
    judges: dict[str, None] = field(default_factory=dict)
    samples: int = 0
    references: int = 0

    @property
    def note(self) -> str:
        """How many samples of its release the file holds; the authors leave out what failed."""
        release = "v1" if self.references == self.samples else "v3"
        whole = RELEASES[release]
        lacking = f", {whole - self.samples} left out" if self.samples < whole else ""
        return f"{self.name}: {self.samples} of the {whole} samples of release {release}{lacking}."


def _read_file(path: Path, maintenance: Maintenance, rescoring: Rescoring) -> _Judged:
    judged = _Judged(path=path)
    seen: dict[str, str] = {}
    add = partial(_add, judged, seen, maintenance)
    rescoring.take(path, scan_records(path), add, _ADVICE)
    return judged


def _add(judged: _Judged, seen: dict[str, str], maintenance: Maintenance, record: Record) -> None:
    """Take in a record, or nothing of a bad one; `seen` has the places of samples read before."""
    sample = read_sample(record)
    if sample.id in seen:
        raise DataError(record.where, [f"user_query is that of {seen[sample.id]}"])
    model, judge = _name(record, "infer_model"), _name(record, "judge_model")
    if model != (judged.name or model):
        fault = f"infer_model is {model!r}, and {judged.name!r} before: give each model a file"
        raise DataError(record.where, [fault], _ADVICE)
    scores = tuple(_scores(sample, record, maintenance))
    seen[sample.id] = record.where
    judged.name = model
    judged.judges[judge] = None
    judged.samples += 1
    judged.references += sample.reference is not None
    for score in scores:
        judged.frame.append(score)


def _scores(sample: Sample, record: Record, maintenance: Maintenance) -> Iterator[Score]:
    call = Call(
        id=JUDGEMENT,
        seat="judge",
        messages=(),
        parser=ChecklistParser(checklist=sample.checklist),
    )
    outcomes = _outcomes(record)
    own: dict[str, float | None] = {}
    for score in score_judgement(sample, {JUDGEMENT: call}, outcomes, maintenance):
        own[score.metric] = score.value
        yield score
    stored = record.fields.get("score")
    odd = {
        "error_text": isinstance(outcomes[ANSWER], Failure),
        "off_balance": off_balance(sample) is not None,
        "misstored": not _agree(own[OFFICIAL], stored),
    }
    for metric, value in odd.items():
        yield Score(sample=sample.id, condition=CONDITION, metric=metric, value=float(value))


def _outcomes(record: Record) -> Mapping[str, Outcome]:
    """The file's answer and judgement as the outcomes of a run: failures are no texts."""
    answer = record.fields.get("second_response")
    judgement = record.fields.get("judgement")
    faults = []
    if not isinstance(answer, str):
        faults.append("second_response is no text")
    if not isinstance(judgement, dict):
        faults.append("judgement is no object")
    if not isinstance(answer, str) or not isinstance(judgement, dict):
        raise DataError(record.where, faults, _ADVICE)
    return {ANSWER: _answer(answer), JUDGEMENT: _judgement(judgement)}


def _answer(text: str) -> Outcome:
    if text.startswith(ERROR_TEXTS):
        return Failure(kind="server", message=text, attempts=1)
    return Reply(text=text)


def _judgement(judgement: Mapping[str, Any]) -> Outcome:
    for value in judgement.values():
        if isinstance(value, str) and REFUSAL in value.lower():
            return Failure(kind="rejected", message=value, attempts=1)
    return Reply(text=orjson.dumps(judgement).decode())


def _agree(own: float | None, stored: Any) -> bool:
    if own is None or not isinstance(stored, int | float):
        return own is stored
    return abs(own - stored) < _SAME


def _name(record: Record, name: str) -> str:
    value = record.fields.get(name)
    if not isinstance(value, str) or not value:
        raise DataError(record.where, [f"{name} is missing"], _ADVICE)
    return value
