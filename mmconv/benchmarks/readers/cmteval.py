"""The authors' published judgements of CMT-Eval: `eval_<subset>_<model>.json`.

A published dialogue holds replies and scores by turn, merged judgements already spread over their
turns. Here the judge's reply is put together again, and replayed. Two more tables have what is
wrong with the files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import orjson

from judges.parsers.cmteval import is_on_scale
from mmconv.benchmarks.base.replay import Rescoring, published_tables, replay
from mmconv.benchmarks.cmteval.benchmark import FREE, JUDGEMENT, CMTEval
from mmconv.benchmarks.cmteval.data import (
    ACT,
    IDS,
    NUMBER,
    PATTERN,
    PERSONA,
    QUERY,
    STRATEGIES,
    STRATEGY,
    TURNS,
    Dialogue,
    Reference,
    Subset,
    UserTurn,
    add_subset,
    foreign_fields,
    model_of,
    read_dialogue,
    subset_of,
    turns_of,
)
from mmconv.benchmarks.data_files.records import Record, scan_records
from mmconv.core.config import CANDIDATE, ModelSpec, RunSpec
from mmconv.core.errors import DataError
from mmconv.core.types import Cell, Score, Table
from mmconv.stats import ScoreFrame

SIZES: Mapping[Subset, tuple[int, int]] = {
    "standard": (271, 2058),
    "hard": (262, 1941),
    "long-text": (63, 432),
}
"""Dialogues and turns of each subset as published (Table 2)."""

REPLY = "模型回复"
REASONS = "评分理由"
TURN_SCORE = "本轮评分"
DIALOGUE_SCORE = "整体评分"
_SCORES = ("统筹能力", "适应能力")
_JUDGED = (*_SCORES, REASONS)
_DIALOGUE_FIELDS = {*IDS, PATTERN, PERSONA, TURNS, DIALOGUE_SCORE}
# 预设回复 is a draft by the authors' generator, which no model and no judge reads
_TURN_FIELDS = {NUMBER, QUERY, ACT, "预设回复", STRATEGY, REPLY, *_JUDGED, TURN_SCORE}

Kind: TypeAlias = Literal[
    "missing replies",
    "missing scores",
    "scores off the scale",
    "unknown or renamed fields",
    "stored averages that differ",
    "other faults of dialogues",
]
"""What can be wrong with a published file, each with a column of its own."""

_ROUNDING = 0.005 + 1e-9
_ADVICE = "Give the authors' files as they are: eval_<subset>_<model>.json."


class Fault(NamedTuple):
    """What is wrong somewhere in a file."""

    kind: Kind
    where: str
    problem: str


@dataclass(frozen=True, slots=True)
class Published:
    """One file: its model and subset, each dialogue with the judge's reply, and all faults."""

    path: Path
    model: str
    subset: Subset
    judged: list[tuple[Dialogue, str]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """How much is missing, and how many faults of each kind there are."""
        dialogues, turns = SIZES[self.subset]
        kinds = Counter(fault.kind for fault in self.faults)
        return {
            "missing dialogues": dialogues - len(self.judged),
            "missing turns": turns - sum(len(dialogue.turns) for dialogue, _ in self.judged),
            **{kind: kinds[kind] for kind in get_args(Kind)},
        }


def rescore(files: Sequence[Path], *, skip_bad: bool = False) -> tuple[Table, ...]:
    """The tables of one or more files, of any models and subsets, and what is wrong with them.

    Raises `DataError` for a file that cannot be read, for two with one model's same subset, and for
    records that are not dialogues of the subset, unless `skip_bad` leaves those out.
    """
    rescoring = Rescoring(skip_bad=skip_bad)
    published: dict[tuple[str, str], Published] = {}
    scores: list[Score] = []
    for path in files:
        file = read_published(path, rescoring)
        first = published.setdefault((file.model, file.subset), file)
        if first is not file:
            raise DataError(
                str(path),
                [f"{first.path} holds {file.model}, {file.subset} already"],
                "Give each file once; the name eval_<subset>_<model>.json says which one it is.",
            )
        model = ModelSpec(provider="replay", model=file.model, name=file.model)
        spec = RunSpec(benchmark="cmteval", models={CANDIDATE: model}, options={"data": str(path)})
        benchmark = CMTEval(spec)
        for dialogue, reply in file.judged:
            scores += replay(benchmark, dialogue, FREE, {JUDGEMENT: reply})
    benchmark.models = tuple(dict.fromkeys(model for model, _ in published))
    # one frame for all: the paper's means and deviations are over several models
    tables = published_tables(benchmark, {"": ScoreFrame(scores)})
    return rescoring.rescored((*tables, *_fault_tables([*published.values()])))


def read_published(path: Path, rescoring: Rescoring) -> Published:
    """Read one file; raises `DataError` for one without any score.

    Bad records: without a dialogue, with an earlier identifier, or of another subset.
    """
    published = Published(path, model_of(path), subset_of(path))
    places: dict[str, str] = {}

    def read(raw: Record) -> None:
        record, problems = add_subset(raw, published.subset), list[str]()
        key = record.fields["id"]
        try:
            read_dialogue(record)
        except DataError as error:
            problems += error.problems
        if key == record.where or not turns_of(record):
            raise DataError(record.where, problems)
        if foreign := foreign_fields(record):
            raise DataError(record.where, foreign)
        if key in places:
            raise DataError(record.where, [f"{places[key]} has the same identifier"])
        places[key] = record.where
        published.judged.append((_dialogue(record), _judge_reply(record)))
        others = (Fault("other faults of dialogues", record.where, each) for each in problems)
        published.faults.extend((*others, *_faults(raw)))

    rescoring.take(path, scan_records(path), read, _ADVICE)
    turns = sum(len(dialogue.turns) for dialogue, _ in published.judged)
    if published.counts()["missing scores"] == turns * len(_SCORES):
        raise DataError(str(path), [f"no turn has a score: {' or '.join(_SCORES)}"], _ADVICE)
    return published


def _dialogue(record: Record) -> Dialogue:
    """The dialogue as far as scores and tables need it, whatever is wrong with it."""
    turns = [
        UserTurn.model_construct(
            number=number,
            query="",
            label=str(turn.get(ACT) or ""),
            strategy=turn[STRATEGY] if turn.get(STRATEGY) in (*STRATEGIES,) else None,
        )
        for number, turn in enumerate(turns_of(record), start=1)
    ]
    return Dialogue.model_construct(
        id=record.fields["id"],
        subset=record.fields["subset"],
        pattern=str(record.fields.get(PATTERN) or ""),
        persona=str(record.fields.get(PERSONA) or ""),
        turns=tuple(turns),
        reference=Reference.model_construct(summary="", qa_pairs=""),
    )


def _judge_reply(record: Record) -> str:
    """JSON as the judge is asked for; neighbours with the same scores and reasons are one entry.

    Turns go by their position, as in the authors' scripts.
    """
    entries = []
    for _, group in groupby(enumerate(turns_of(record), start=1), key=_judgement):
        (first, turn), *others = group
        last = others[-1][0] if others else first
        scores = {name: turn[name] for name in _JUDGED if name in turn}
        entries.append({NUMBER: str(first) if first == last else f"{first}-{last}", **scores})
    return orjson.dumps({"评估结果": entries}).decode()


def _judgement(numbered: tuple[int, Mapping[str, Any]]) -> tuple[str, ...]:
    """What merged turns share; a turn without reasons shares it with no other."""
    number, turn = numbered
    return str(turn.get(REASONS) or f"turn {number}"), *(str(turn.get(name)) for name in _SCORES)


def _faults(record: Record) -> Iterator[Fault]:
    yield from _unknown_fields(record.fields, _DIALOGUE_FIELDS, record.where)
    means = []
    for number, turn in enumerate(turns_of(record), start=1):
        where = f"{record.where}, turn {number}"
        yield from _unknown_fields(turn, _TURN_FIELDS, where)
        if not turn.get(REPLY):
            yield Fault("missing replies", where, f"no {REPLY}")
        scores = [_number(turn.get(name)) for name in _SCORES]
        for name, score in zip(_SCORES, scores, strict=True):
            if score is None:
                yield Fault("missing scores", where, f"no number in {name}")
            elif not is_on_scale(score):
                yield Fault("scores off the scale", where, f"{name} is {score:g}")
        numbers = [score for score in scores if score is not None]
        if len(numbers) == len(_SCORES):
            means.append(sum(numbers) / len(numbers))
            yield from _difference(turn, TURN_SCORE, means[-1], where)
    if means:
        yield from _difference(record.fields, DIALOGUE_SCORE, sum(means) / len(means), record.where)


def _unknown_fields(fields: Mapping[str, Any], known: set[str], where: str) -> Iterator[Fault]:
    for name in fields:
        if name not in known:
            yield Fault("unknown or renamed fields", where, f"unknown field {name!r}")


def _difference(fields: Mapping[str, Any], name: str, mean: float, where: str) -> Iterator[Fault]:
    """A stored average that is missing, or is not the mean of the scores to two decimals."""
    stored = _number(fields.get(name))
    if stored is None:
        yield Fault("stored averages that differ", where, f"no number in {name}")
    elif abs(stored - mean) > _ROUNDING:
        problem = f"{name} is {stored:g}, but the scores give {mean:.4g}"
        yield Fault("stored averages that differ", where, problem)


def _number(value: Any) -> float | None:
    """A score as the authors' files write one: a number, or its digits."""
    try:
        return None if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None


def _fault_tables(published: Sequence[Published]) -> Iterator[Table]:
    """How many faults of each kind every file has, what it lacks, and the list of all faults."""
    rows = {
        f"{file.model}, {file.subset}": {
            name: Cell(value=float(count)) for name, count in file.counts().items()
        }
        for file in published
    }
    yield Table(
        name="faults",
        title="What the files hide",
        columns=tuple(next(iter(rows.values()))),
        rows=rows,
        notes=(
            "Missing dialogues and turns: against the subset as published (Table 2). The table of "
            "judgements counts merged turns: neighbours with equal scores and reasons.",
            "Only a file's name says which model it is, and nothing says who judged. Subsets are "
            "checked by the fields of records.",
        ),
        digits=0,
    )
    listed = {
        f"{file.path.name} #{number}": {
            "where": Cell(value=fault.where),
            "what": Cell(value=fault.problem),
        }
        for file in published
        for number, fault in enumerate(file.faults, start=1)
    }
    columns = ("where", "what")
    if listed:
        yield Table(name="fault_list", title="Where the faults are", columns=columns, rows=listed)
