"""MT-Bench-101's judgements as files hold them: OpenCompass's results, or one record a turn.

The authors publish no judgements. Their code writes OpenCompass's layout: the file
`results/<model>_judged-by--<judge>/mtbench101.json`, or its parts `mtbench101_0.json`, ..., an
object of entries `{"prediction": judgement, "gold": {"task", "multi_id", "turn_id"}}`, in newer
releases under `details`, next to the averages that OpenCompass took. A .jsonl or .json list may
hold the same entries, or flat ones: `{"task", "id", "turn", "judgement"}`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import orjson
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, model_validator

from mmconv.benchmarks.base.replay import NOT_IN_FILE, Rescoring, published_tables, replay
from mmconv.benchmarks.base.sample import problems_of
from mmconv.benchmarks.data_files.records import Record, Unreadable, scan_records
from mmconv.benchmarks.mtbench101 import (
    AVERAGE,
    GOLDEN,
    TASKS,
    Dialogue,
    Exchange,
    MTBench101,
    authors_rating,
    authors_score,
)
from mmconv.core.config import RunSpec
from mmconv.core.errors import DataError
from mmconv.core.types import Cell, Reply, Score, Table
from mmconv.stats import ScoreFrame

TURNS = {
    "GR": "34333333333333333333333333333333333434333333343433333433333333233243333",
    "IC": (
        "32333333332323222222222343334433333223222232233333323433333322243323222324333343"
        "3423333233333433443343333333333333322333333333333333333333323232333333"
    ),
    "AR": (
        "44444434443453344433344434445444434444343454333444333544534444444444444334343443"
        "3433444444445344334434533433343333335434333343534444444444333333343333433"
    ),
    "FR": "22333333333333333333333333222323222223222222223223333332323333233333333323",
    "MR": (
        "22232222222222222222222222222222222222222222222222323222222232232222222223222222"
        "2222222222222222232222222232"
    ),
    "CC": (
        "22222222222222222222222223222222223323342422324322232222323222332324444242233222"
        "2222222222322222322222222222223224222223322322222263332242323422624"
    ),
    "TS": "3" * 83,
    "CR": (
        "32332233332332333333323233332232333333223333333333323333332333333333323332333333"
        "33333333333333333332333333333333333333323333333333323333"
    ),
    "SA": "2" * 73,
    "SI": (
        "22553555555555555555555555555555552555555545545555555555555555553554533555554555"
        "555553354255353443554337232332433244422333222332222332444555244444443"
    ),
    "CM": "44444444444444444444424444444444455444444444444444444444444444434444444444444444",
    "PI": (
        "455534444444446434456444564433457744334454444454563333345433344543333344434444445445434"
    ),
    "SC": "2" * 77,
}
"""Task -> a digit per dialogue of mtbench101.jsonl, in its order: its turns, history included."""

FIRST_IDS = dict(zip(TURNS, accumulate(map(len, TURNS.values()), initial=1), strict=False))
"""Task -> the id of its first dialogue; ids run from 1 to 1388 through the tasks in this order."""

JUDGED_BY = "_judged-by--"
ADVICE = "Give OpenCompass's results, or records of task, id, turn and judgement."
EARLY = "turns that are history only"
COUNTS = (
    "dialogues",
    "dialogues missing",
    "dialogues unknown",
    "judgements",
    "judgements missing",
    "judgements unknown",
    "repeated",
    EARLY,
)
ROUNDING = 0.0005
"""Files state their averages rounded to three digits."""


class Judgement(BaseModel):
    """One judged turn: which one, and what the judge wrote."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    task: str
    dialogue: str = Field(validation_alias=AliasChoices("multi_id", "id"))
    turn: int = Field(validation_alias=AliasChoices("turn_id", "turn"), ge=1, le=99)
    text: str | None = Field(
        validation_alias=AliasChoices("judgement", "judgment", "prediction"), strict=True
    )

    @model_validator(mode="before")
    @classmethod
    def _with_gold(cls, fields: Any) -> Any:
        gold = fields.get("gold")
        return {**fields, **gold} if isinstance(gold, dict) else fields

    @model_validator(mode="after")
    def _has_a_known_task(self) -> Judgement:
        if self.task not in TASKS:
            raise ValueError(f"task {self.task!r} must be one of {', '.join(TASKS)}")
        return self


class JudgedDialogue(Dialogue):
    """A dialogue of which a file has, or should have, the judgements of these turns."""

    turns: tuple[int, ...]

    @property
    def judged(self) -> Sequence[int]:
        """The turns without those that are history only."""
        return [turn for turn in self.turns if turn >= TASKS[self.task].first]


@dataclass(frozen=True, slots=True)
class Model:
    """One model's judgements, in the order of its files, and the means that a file states."""

    name: str
    judgements: list[Judgement] = field(default_factory=list)
    means: dict[str, float] = field(default_factory=dict)


def rescore(files: Sequence[Path], *, skip_bad: bool = False) -> tuple[Table, ...]:
    """The tables of judgements in files, a model for each file or OpenCompass folder.

    Raises `DataError` for bad records; `skip_bad` leaves them out. A turn that is absent is
    unscored if the authors' dialogue has it, or if it comes before a judged one in a dialogue that
    is not theirs. Of a turn that is judged twice our reading takes the first judgement. By the
    authors' convention all count, and those of turns that are history only.
    """
    rescoring = Rescoring(skip_bad=skip_bad)
    models = _read_models(files, rescoring)
    options = {"data": str(files[0])}
    spec = RunSpec(benchmark="mtbench101", models={}, options=options)
    benchmark = MTBench101(spec)
    frames = {model.name: ScoreFrame(_scores(benchmark, model)) for model in models}
    tables = published_tables(benchmark, frames)
    return rescoring.rescored((*tables, _faults(models, frames)))


def _read_models(files: Sequence[Path], rescoring: Rescoring) -> list[Model]:
    """The parts of one OpenCompass result are one model."""
    groups: dict[Path, list[Path]] = {}
    for file in files:
        groups.setdefault(file.parent if JUDGED_BY in file.parent.name else file, []).append(file)
    names = [group.name if JUDGED_BY in group.name else group.stem for group in groups]
    models = []
    for (group, parts), name in zip(groups.items(), names, strict=True):
        model = Model(str(group) if names.count(name) > 1 else name)
        for part in parts:
            records = _open(part, model.means)

            def read(record: Record, judgements: list[Judgement] = model.judgements) -> None:
                try:
                    judgements.append(Judgement.model_validate(record.fields))
                except ValidationError as error:
                    raise DataError(record.where, problems_of(error)) from error

            rescoring.take(part, records, read, ADVICE)
        models.append(model)
    return models


def _open(file: Path, means: dict[str, float]) -> Iterator[Record | Unreadable]:
    """A file's entries; the means that it states are added to `means`."""
    if file.suffix.lower() == ".json":
        try:
            document = orjson.loads(file.read_bytes().removeprefix(b"\xef\xbb\xbf"))
        except (OSError, orjson.JSONDecodeError) as error:
            raise DataError(str(file), [f"not a readable JSON file: {error}"]) from error
        if isinstance(document, dict):
            entries = document.get("details", document)
            if not isinstance(entries, dict):
                raise DataError(str(file), ["details: not an object of entries"])
            numbers = {name: document.get(name) for name in ("avg", *TASKS)}
            means |= {name: float(n) for name, n in numbers.items() if isinstance(n, int | float)}
            return _entries(file, entries)
    return scan_records(file)


def _entries(file: Path, entries: Mapping[str, Any]) -> Iterator[Record | Unreadable]:
    for key, entry in entries.items():
        where = f"{file.name} entry {key!r}"
        if isinstance(entry, dict):
            yield Record(where=where, fields=entry)
        else:
            yield Unreadable(where=where, fault=f"holds a {type(entry).__name__}, not an object")


def known_dialogues(task: str, ids: Iterable[str]) -> dict[str, int]:
    """Those of the ids that the authors' file has in the task, each with its number of turns.

    A file may number the dialogues of each task from 1: the numbering that knows more ids counts.
    """
    ids = [*ids]
    numberings = [
        {str(number): int(turns) for number, turns in enumerate(TURNS[task], start=first)}
        for first in (FIRST_IDS[task], 1)
    ]
    known = [{each: turns[each] for each in ids if each in turns} for turns in numberings]
    return max(known, key=len)


def _scores(benchmark: MTBench101, model: Model) -> Iterator[Score]:
    dialogues: dict[tuple[str, str], dict[int, list[str]]] = {}
    for each in model.judgements:
        turns = dialogues.setdefault((each.task, each.dialogue), {})
        # a judge that wrote nothing is a judge that cannot be read
        turns.setdefault(each.turn, []).append(each.text or "")
    known = {
        task: known_dialogues(task, [dialogue for code, dialogue in dialogues if code == task])
        for task in TASKS
    }
    blank = Exchange.model_construct(user="", bot="")
    for (task, dialogue), turns in dialogues.items():
        # how many turns a dialogue has that is not one of the authors' is not known
        last = known[task].get(dialogue, max(turns))
        expected = sorted({*range(1, last + 1), *turns})
        sample = JudgedDialogue.model_construct(
            id=f"{task}/{dialogue}",  # files may number the dialogues of each task from 1
            task=task,
            history=(blank,) * expected[-1],
            turns=tuple(expected),
        )
        texts = {f"judge/turn_{turn}": judged[0] for turn, judged in turns.items()}
        scores = replay(benchmark, sample, GOLDEN, texts) if sample.judged else []
        ours = {score.turn: score.value for score in scores if score.metric == "rating"}
        # to the authors' code a judgement that is not in the file does not exist
        yield from (s for s in scores if (s.metric, s.why) != ("authors", NOT_IN_FILE))
        for turn, judged in turns.items():
            for text in judged[1:] if turn in sample.judged else judged:
                call = f"judge/turn_{turn}"
                results = benchmark.results(sample, GOLDEN, {}, {call: Reply(text=text)})
                yield authors_rating(results[call], turn, ours=ours.get(turn))


def _faults(models: Sequence[Model], frames: Mapping[str, ScoreFrame]) -> Table:
    """What is missing, repeated, unknown, or not in the paper's protocol, by task."""
    rows: dict[str, Mapping[str, int]] = {}
    notes = []
    for model in models:
        before = f"{model.name}: " if len(models) > 1 else ""
        counts = {task: _count_faults(model, task) for task in TASKS}
        rows |= {f"{before}{task}": row for task, row in counts.items()}
        rows[f"{before}all"] = sum(map(Counter, counts.values()), Counter(dict.fromkeys(COUNTS, 0)))
        notes += [*_unknown_note(model), *_other_means(model, frames[model.name])]
    return Table(
        name="faults",
        title="What the files do not show at once",
        columns=COUNTS,
        rows={
            name: {what: Cell(value=float(row.get(what, 0))) for what in COUNTS}
            for name, row in rows.items()
        },
        notes=(
            "Missing: in the authors' dialogues but not in the files. Unknown: in the files only; "
            "the scores count it.",
            *notes,
        ),
        digits=0,
    )


def _count_faults(model: Model, task: str) -> dict[str, int]:
    judgements = [each for each in model.judgements if each.task == task]
    dialogues = {each.dialogue for each in judgements}
    turns = {(each.dialogue, each.turn) for each in judgements}
    unknown = _unknown(judgements, task)
    early = {(dialogue, turn) for dialogue, turn in turns if turn < TASKS[task].first}
    known = known_dialogues(task, dialogues).keys()
    expected = sum(int(count) - TASKS[task].first + 1 for count in TURNS[task])
    counts = (
        len(dialogues),
        len(TURNS[task]) - len(known),
        len(dialogues - known),
        len(judgements),
        expected - len(turns - unknown - early),
        len(unknown),
        len(judgements) - len(turns),
        len(early),
    )
    return dict(zip(COUNTS, counts, strict=True))


def _unknown(judgements: Sequence[Judgement], task: str) -> set[tuple[str, int]]:
    """The dialogues and turns of a task's judgements that the authors' file does not have."""
    known = known_dialogues(task, {each.dialogue for each in judgements})
    return {
        (each.dialogue, each.turn) for each in judgements if each.turn > known.get(each.dialogue, 0)
    }


def _unknown_note(model: Model) -> Iterator[str]:
    unknown = [
        f"{task} {dialogue} turn {turn}"
        for task in TASKS
        for dialogue, turn in sorted(
            _unknown([each for each in model.judgements if each.task == task], task)
        )
    ]
    if unknown:
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        yield f"{model.name}: unknown are {', '.join(unknown[:5])}{more}."


def _other_means(model: Model, frame: ScoreFrame) -> Iterator[str]:
    """The means that a file states and that its judgements do not give."""
    for name, stated in model.means.items():
        cell = authors_score(frame, AVERAGE if name == "avg" else name, GOLDEN)
        value = None if cell is None else cell.value
        if not isinstance(value, float) or abs(value - stated) > ROUNDING:
            given = "none" if value is None else f"{value:.4f}"
            yield f"{model.name} states {name} {stated:.4f}; its judgements give {given}."
