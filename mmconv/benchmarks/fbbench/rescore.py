"""FB-Bench rescored: published judgements through the parser, scores and tables of a live run.

What the files hide is counted among the faults. What a record says is read in `published`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from judges.parsers.fbbench import OFFICIAL, ChecklistParser
from mmconv.benchmarks.data_files.records import Record, scan_records
from mmconv.benchmarks.fbbench.chains import ANSWER
from mmconv.benchmarks.fbbench.data import Sample, off_balance, read_sample, repeated
from mmconv.benchmarks.fbbench.grading import JUDGEMENT
from mmconv.benchmarks.fbbench.options import CONDITION, Maintenance
from mmconv.benchmarks.fbbench.published import ADVICE, RELEASES, read_name, read_outcomes
from mmconv.benchmarks.fbbench.scoring import score_judgement
from mmconv.benchmarks.fbbench.tables import build_tables
from mmconv.benchmarks.shared.rescore import Rescoring
from mmconv.core.errors import DataError
from mmconv.core.score_rows import ScoreRows
from mmconv.core.types import Call, Failure, Score, Table
from mmconv.stats import ScoreFrame

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
    names = [each.name for each in read]
    titles = [
        each.name if names.count(each.name) == 1 else f"{each.name} ({each.path})" for each in read
    ]
    frames = {title: ScoreFrame(each.rows) for title, each in zip(titles, read, strict=True)}
    notes = tuple(each.note for each in read)
    return rescoring.rescored(build_tables(frames, judge=", ".join(judges), notes=notes))


@dataclass(slots=True, kw_only=True)
class _Judged:
    """What one file holds: its scores, and by which model and judges they were made."""

    path: Path
    rows: ScoreRows = field(default_factory=ScoreRows)
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
    rescoring.take(path, scan_records(path), add, ADVICE)
    return judged


def _add(judged: _Judged, seen: dict[str, str], maintenance: Maintenance, record: Record) -> None:
    """Take in a record, or nothing of a bad one; `seen` has the places of samples read before."""
    sample = read_sample(record)
    if sample.id in seen:
        raise DataError(record.where, [f"user_query is that of {seen[sample.id]}"])
    model, judge = read_name(record, "infer_model"), read_name(record, "judge_model")
    if model != (judged.name or model):
        fault = f"infer_model is {model!r}, and {judged.name!r} before: give each model a file"
        raise DataError(record.where, [fault], ADVICE)
    scores = tuple(_scores(sample, record, maintenance))
    seen[sample.id] = record.where
    judged.name = model
    judged.judges[judge] = None
    judged.samples += 1
    judged.references += sample.reference is not None
    for score in scores:
        judged.rows.append(score)


def _scores(sample: Sample, record: Record, maintenance: Maintenance) -> Iterator[Score]:
    call = Call(
        id=JUDGEMENT,
        seat="judge",
        messages=(),
        parser=ChecklistParser(checklist=sample.checklist),
    )
    outcomes = read_outcomes(record)
    own: dict[str, float | None] = {}
    for score in score_judgement(sample, {JUDGEMENT: call}, outcomes, maintenance):
        own[score.metric] = score.value
        yield score
    stored = record.fields.get("score")
    odd = {
        "error_text": isinstance(outcomes[ANSWER], Failure),
        "off_balance": off_balance(sample) is not None,
        "repeated": len(repeated(sample)),
        "misstored": not _agree(own[OFFICIAL], stored),
    }
    for metric, value in odd.items():
        yield Score(sample=sample.id, condition=CONDITION, metric=metric, value=float(value))


def _agree(own: float | None, stored: Any) -> bool:
    if own is None or not isinstance(stored, int | float):
        return own is stored
    return abs(own - stored) < _SAME
