"""The authors' judgements of FB-Bench (`model_judgment/<judge>/<model>.jsonl`), read as replies.

A record is a sample, a model's answer, the judge's JSON object and the score that the authors' code
computed. What is odd in a file is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
from pydantic import field_validator, model_validator

from judges.parsers.fbbench import OFFICIAL
from mmconv.benchmarks.base.replay import Rescoring, published_tables, replay
from mmconv.benchmarks.data_files.records import Record, scan_records
from mmconv.benchmarks.fbbench import (
    ANSWER,
    JUDGEMENT,
    PRESET,
    REFUSAL,
    Dialogue,
    FBBench,
    Maintenance,
)
from mmconv.core.config import RunSpec
from mmconv.core.errors import DataError
from mmconv.core.types import Failure, Outcome, Reply, Score, Table
from mmconv.stats import ScoreFrame

ERROR_TEXTS = ("$ERROR$", "$Since max_tokens is less than 1")
"""How stored answers begin that the authors' code writes for a failure."""

ADVICE = "Pass the authors' judgement files as they are."
# stored scores are sums in another order or of another machine: their last places may differ
TOLERANCE = 1e-9


class Judged(Dialogue):
    """A record of a judgement file."""

    second_response: Any
    infer_model: str
    judge_model: str
    judgement: dict[str, Any]
    score: Any = None

    @field_validator("second_response")
    @classmethod
    def _is_text(cls, answer: object) -> object:
        if not isinstance(answer, str):
            raise ValueError("must be text")
        return answer

    @model_validator(mode="after")
    def check_checklist(self) -> Judged:
        """Accept any checklist; what is wrong with it is counted."""
        return self

    @property
    def replies(self) -> dict[str, Outcome]:
        """The answer and the judgement as a run has them, in which a failure has no text."""
        answer: Outcome = Reply(text=self.second_response)
        if self.second_response.startswith(ERROR_TEXTS):
            answer = Failure(kind="server", message=self.second_response, attempts=1)
        judgement: Outcome = Reply(text=orjson.dumps(self.judgement).decode())
        for value in self.judgement.values():
            if isinstance(value, str) and REFUSAL in value.lower():
                judgement = Failure(kind="rejected", message=value, attempts=1)
        return {ANSWER: answer, JUDGEMENT: judgement}


def rescore(
    files: Sequence[Path], maintenance: Maintenance = "any", *, skip_bad: bool = False
) -> tuple[Table, ...]:
    """The tables of published judgements, one model per file.

    Raises `DataError` with the line and field of all bad records of a file: malformed ones, those
    of another model than the records before, and a second judgement of a sample. `skip_bad` leaves
    them out.
    """
    rescoring = Rescoring(skip_bad=skip_bad)
    options = {"data": str(files[0]), "maintenance": maintenance}
    benchmark = FBBench(RunSpec(benchmark="fbbench", models={}, options=options))
    models = [_read(file, rescoring) for file in files]
    names = [model[0].infer_model for model in models]
    frames = {
        name if names.count(name) == 1 else f"{name} ({file})": ScoreFrame(
            _scores(benchmark, model)
        )
        for name, model, file in zip(names, models, files, strict=True)
    }
    judges = dict.fromkeys(judged.judge_model for model in models for judged in model)
    notes = [
        f"{name}: {len(model)} samples (release v1 has 734, release v3 has 591)."
        for name, model in zip(names, models, strict=True)
    ]
    tables = published_tables(benchmark, frames, judge=", ".join(judges), notes=notes)
    return rescoring.rescored(tables)


def _read(file: Path, rescoring: Rescoring) -> list[Judged]:
    """The records of one model."""
    model: list[Judged] = []
    places: dict[str, str] = {}

    def read(record: Record) -> None:
        judged = Judged.model_validate(record.fields)
        if judged.id in places:
            raise DataError(record.where, [f"user_query is that of {places[judged.id]}"])
        if model and judged.infer_model != model[0].infer_model:
            problem = f"infer_model is {judged.infer_model!r}, and {model[0].infer_model!r} before"
            raise DataError(record.where, [f"{problem}: give each model a file"])
        places[judged.id] = record.where
        model.append(judged)

    rescoring.take(file, scan_records(file), read, ADVICE)
    return model


def _scores(benchmark: FBBench, model: Iterable[Judged]) -> Iterator[Score]:
    for judged in model:
        replies = judged.replies
        scores = replay(benchmark, judged, PRESET, replies)
        values = {score.metric: score.value for score in scores}
        oddities = {
            "error_text": isinstance(replies[ANSWER], Failure),
            "off_balance": judged.wrong_sum is not None,
            "repeated": len(judged.repeated),
            "misstored": not _agree(values[OFFICIAL], judged.score),
        }
        yield from scores
        for name, value in oddities.items():
            yield Score(sample=judged.id, condition=PRESET, metric=name, value=float(value))


def _agree(own: float | None, other: Any) -> bool:
    if own is None or not isinstance(other, int | float):
        return own is other
    return abs(own - other) < TOLERANCE
