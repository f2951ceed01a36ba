"""The authors' published judgements of CMT-Eval: `eval_<subset>_<model>.json`.

A published dialogue holds replies and scores by turn, merged judgements already spread over their
turns. Here the judge's reply is put together again, and replayed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson

from mmconv.benchmarks.base.layouts import Context, make_tables
from mmconv.benchmarks.base.replay import UNNAMED_JUDGE, Rescoring, replay
from mmconv.benchmarks.cmteval.benchmark import FREE, JUDGEMENT, CMTEval
from mmconv.benchmarks.cmteval.data import (
    NUMBER,
    Dialogue,
    Subset,
    add_subset,
    read_dialogue,
    subset_of,
    turns_of,
)
from mmconv.benchmarks.cmteval.metrics import layouts, metrics
from mmconv.benchmarks.data_files.records import Record, scan_records
from mmconv.core.config import CANDIDATE, ModelSpec, RunSpec
from mmconv.core.errors import DataError
from mmconv.core.types import Score, Table
from mmconv.stats import ScoreFrame

SIZES: Mapping[Subset, tuple[int, int]] = {
    "standard": (271, 2058),
    "hard": (262, 1941),
    "long-text": (63, 432),
}
"""Dialogues and turns of each subset as published (Table 2)."""

SCORES = ("统筹能力", "适应能力")
REASONS = "评分理由"
_JUDGED = (*SCORES, REASONS)
_ADVICE = "Give the authors' files as they are: eval_<subset>_<model>.json."


def rescore(files: Sequence[Path], *, skip_bad: bool = False) -> tuple[Table, ...]:
    """The tables of one or more files, of any models and subsets.

    Raises `DataError` for a file that cannot be read, for two with one model's same subset, and for
    records that are not judged dialogues of the subset, unless `skip_bad` leaves those out.
    """
    rescoring = Rescoring(skip_bad=skip_bad)
    places: dict[tuple[str, Subset], Path] = {}
    scores: list[Score] = []
    notes: list[str] = []
    for path in files:
        subset = subset_of(path)
        name = path.stem.removeprefix("eval_").removeprefix(f"{subset}_")
        if (name, subset) in places:
            raise DataError(
                str(path),
                [f"{places[name, subset]} holds {name}, {subset} already"],
                "Give each file once; the name eval_<subset>_<model>.json says which one it is.",
            )
        places[name, subset] = path
        model = ModelSpec(provider="replay", model=name, name=name)
        spec = RunSpec(benchmark="cmteval", models={CANDIDATE: model}, options={"data": str(path)})
        benchmark = CMTEval(spec)
        judged = read_judged(path, subset, rescoring)
        for dialogue, reply in judged:
            scores += replay(benchmark, dialogue, FREE, {JUDGEMENT: reply})
        dialogues, turns = SIZES[subset]
        count = sum(len(dialogue.turns) for dialogue, _ in judged)
        notes.append(
            f"{name}, {subset}: {len(judged)} of {dialogues} dialogues, {count} of {turns} turns."
        )
    models = [*dict.fromkeys(model for model, _ in places)]
    context = Context(candidate="", judge=UNNAMED_JUDGE, notes=notes)
    # one frame for all: the paper's means and deviations are over several models
    frames = {"": ScoreFrame(scores)}
    return rescoring.rescored(make_tables(layouts(models), [*metrics(models)], frames, context))


def read_judged(path: Path, subset: Subset, rescoring: Rescoring) -> list[tuple[Dialogue, str]]:
    """Each dialogue of a file, with the judge's reply.

    Bad records: without a dialogue or a score, with an earlier identifier, or of another subset.
    """
    judged: dict[str, tuple[Dialogue, str]] = {}

    def read(raw: Record) -> None:
        record = add_subset(raw, subset)
        # the judge of a long text read its summary and QA pairs, which are in another file
        record.fields["reference"] = {"summary": "-", "qa_pairs": "-"}
        dialogue = read_dialogue(record)
        if dialogue.id in judged:
            raise DataError(raw.where, [f"{dialogue.id} is there twice"])
        if not any(name in turn for turn in turns_of(raw) for name in SCORES):
            raise DataError(raw.where, [f"no turn has a score: {' or '.join(SCORES)}"])
        judged[dialogue.id] = dialogue, judge_reply(raw)

    rescoring.take(path, scan_records(path), read, _ADVICE)
    return [*judged.values()]


def judge_reply(record: Record) -> str:
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
    return str(turn.get(REASONS) or f"turn {number}"), *(str(turn.get(name)) for name in SCORES)
