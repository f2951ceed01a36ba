"""MT-Bench-101's judgements as files hold them: OpenCompass's results, or one record a turn.

The authors publish no judgements. Their code writes OpenCompass's layout: the file
`results/<model>_judged-by--<judge>/mtbench101.json`, or its parts `mtbench101_0.json`, ..., an
object of entries `{"prediction": judgement, "gold": {"task", "multi_id", "turn_id"}}`, in newer
releases under `details`. A .jsonl or .json list may hold the same entries, or flat ones: `{"task",
"id", "turn", "judgement"}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import orjson
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from mmconv.benchmarks.base.replay import NOT_IN_FILE, Rescoring, published_tables, replay
from mmconv.benchmarks.data_files.records import Record, scan_records
from mmconv.benchmarks.mtbench101 import GOLDEN, TASKS, Dialogue, Exchange, MTBench101
from mmconv.core.config import RunSpec
from mmconv.core.errors import DataError
from mmconv.core.types import Score, Table
from mmconv.stats import ScoreFrame

SIZES = (1388, 3615)
"""How many dialogues, and judged turns, the authors' data have."""

JUDGED_BY = "_judged-by--"
ADVICE = "Give OpenCompass's results, or records of task, id, turn and judgement."

Judgements: TypeAlias = dict[tuple[str, str], dict[int, str]]
"""Task and dialogue -> what the judge wrote about each turn."""


class Judgement(BaseModel):
    """One judged turn: which one, and what the judge wrote."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    task: str
    dialogue: str = Field(validation_alias=AliasChoices("multi_id", "id"))
    turn: int = Field(validation_alias=AliasChoices("turn_id", "turn"), le=99)
    text: str | None = Field(
        validation_alias=AliasChoices("judgement", "judgment", "prediction"), strict=True
    )

    @model_validator(mode="before")
    @classmethod
    def _with_gold(cls, fields: Any) -> Any:
        gold = fields.get("gold")
        return {**fields, **gold} if isinstance(gold, dict) else fields

    @model_validator(mode="after")
    def _is_judged(self) -> Judgement:
        if self.task not in TASKS:
            raise ValueError(f"task {self.task!r} must be one of {', '.join(TASKS)}")
        if self.turn < TASKS[self.task].first:
            raise ValueError(f"turn {self.turn} of {self.task} is history only")
        return self


def rescore(files: Sequence[Path], *, skip_bad: bool = False) -> tuple[Table, ...]:
    """The tables of judgements in files, a model for each file or OpenCompass folder.

    Raises `DataError` for bad records; `skip_bad` leaves them out. A turn that is absent before a
    judged one is unscored.
    """
    rescoring = Rescoring(skip_bad=skip_bad)
    benchmark = MTBench101(
        RunSpec(benchmark="mtbench101", models={}, options={"data": str(files[0])})
    )
    models = _read_models(files, rescoring)
    frames = {name: ScoreFrame(_scores(benchmark, each)) for name, each in models.items()}
    notes = [
        f"{name}: {len(each)} of {SIZES[0]} dialogues, {sum(map(len, each.values()))} of "
        f"{SIZES[1]} judged turns."
        for name, each in models.items()
    ]
    return rescoring.rescored(published_tables(benchmark, frames, notes=notes))


def _read_models(files: Sequence[Path], rescoring: Rescoring) -> dict[str, Judgements]:
    """The judgements of each model; the parts of one OpenCompass result are one model."""
    groups: dict[Path, list[Path]] = {}
    for file in files:
        groups.setdefault(file.parent if JUDGED_BY in file.parent.name else file, []).append(file)
    names = [group.name if JUDGED_BY in group.name else group.stem for group in groups]
    models: dict[str, Judgements] = {}
    for (group, parts), name in zip(groups.items(), names, strict=True):
        judgements = models[str(group) if names.count(name) > 1 else name] = {}
        for part in parts:
            rescoring.take(part, _scan(part), partial(_add, judgements=judgements), ADVICE)
    return models


def _add(record: Record, judgements: Judgements) -> None:
    """Add a record's judgement; raises for a bad one, and for a turn judged before."""
    judged = Judgement.model_validate(record.fields)
    turns = judgements.setdefault((judged.task, judged.dialogue), {})
    if judged.turn in turns:
        place = f"turn {judged.turn} of {judged.task}, dialogue {judged.dialogue}"
        raise DataError(record.where, [f"{place} is judged before"])
    # a judge that wrote nothing is a judge that cannot be read
    turns[judged.turn] = judged.text or ""


def _scan(file: Path) -> Iterator[Record]:
    if file.suffix.lower() == ".json" and file.is_file():
        try:
            document = orjson.loads(file.read_bytes())
        except orjson.JSONDecodeError:
            document = None  # what is wrong is said by `scan_records`
        if isinstance(document, dict):
            return _entries(file, document.get("details", document))
    return scan_records(file)


def _entries(file: Path, entries: Any) -> Iterator[Record]:
    if not isinstance(entries, dict):
        raise DataError(str(file), ["details: not an object of entries"], ADVICE)
    for key, entry in entries.items():
        where = f"{file.name} entry {key!r}"
        if isinstance(entry, dict):
            yield Record(where=where, fields=entry)
        else:
            yield Record(where=where, fault=f"holds a {type(entry).__name__}, not an object")


def _scores(
    benchmark: MTBench101, judgements: Mapping[tuple[str, str], Mapping[int, str]]
) -> Iterator[Score]:
    blank = Exchange.model_construct(user="", bot="")
    for (task, dialogue), turns in judgements.items():
        sample = Dialogue.model_construct(
            id=f"{task}/{dialogue}",  # files may number the dialogues of each task from 1
            task=task,
            history=(blank,) * max(turns),
        )
        texts = {f"judge/turn_{turn}": text for turn, text in turns.items()}
        scores = replay(benchmark, sample, GOLDEN, texts)
        # to the authors' code a judgement that is not in the file does not exist
        yield from (each for each in scores if (each.metric, each.why) != ("authors", NOT_IN_FILE))
