"""CMT-Eval rescored: published judgements through the parser, scores and tables of a live run.

What the files hide is in two more tables. Files are read in `mmconv.benchmarks.cmteval.published`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from judges.parsers.cmteval import turn_scores
from mmconv.benchmarks.cmteval.fields import SIZES
from mmconv.benchmarks.cmteval.grading import JUDGEMENT
from mmconv.benchmarks.cmteval.published import KINDS, Published, read_published
from mmconv.benchmarks.cmteval.scoring import score_judgement
from mmconv.benchmarks.cmteval.tables import build_tables
from mmconv.benchmarks.shared.rescore import Rescoring
from mmconv.core.errors import DataError
from mmconv.core.types import Call, Cell, Reply, Score, Table

_CALL = Call(id=JUDGEMENT, seat="judge", messages=(), parser=turn_scores)


def rescore(files: Sequence[Path], *, skip_bad: bool = False) -> tuple[Table, ...]:
    """The tables of one or more files, of any models and subsets, and what the files hide.

    Raises `DataError` for a file that cannot be read, for two with one model's same subset, and for
    records that are no dialogues of the subset, unless `skip_bad` leaves those out.
    """
    rescoring = Rescoring(skip_bad=skip_bad)
    published = [read_published(path, rescoring) for path in files]
    _check_distinct(published)
    scores = [score for each in published for score in _scores(each)]
    tables = build_tables(scores, judge="the judge of the files")
    return rescoring.rescored((*tables, _faults(published), *_fault_list(published)))


def _check_distinct(published: Sequence[Published]) -> None:
    seen: dict[tuple[str, str], Path] = {}
    for each in published:
        key = (each.model, each.subset)
        if key in seen:
            raise DataError(
                str(each.path),
                [f"{seen[key]} holds {each.model}, {each.subset} already"],
                "Give each file once; the name eval_<subset>_<model>.json tells them apart.",
            )
        seen[key] = each.path


def _scores(published: Published) -> Iterator[Score]:
    for each in published.judged:
        outcomes = {JUDGEMENT: Reply(text=each.reply)}
        yield from score_judgement(each.dialogue, _CALL, outcomes, published.model)


def _faults(published: Sequence[Published]) -> Table:
    """How many faults of each kind every file has, and what it lacks of the published subset."""
    rows = {}
    for each in published:
        dialogues, turns = SIZES[each.subset]
        counts = each.counts()
        rows[f"{each.model}, {each.subset}"] = {
            "missing dialogues": Cell(value=float(dialogues - len(each.judged))),
            "missing turns": Cell(value=float(turns - each.turns)),
            **{kind: Cell(value=float(counts[kind])) for kind in KINDS},
        }
    return Table(
        name="faults",
        title="What the files hide",
        columns=("missing dialogues", "missing turns", *KINDS),
        rows=rows,
        notes=(
            "Missing dialogues and turns: against the subset as published (Table 2). Merged turns "
            "are counted in the table of judgements: neighbours with equal scores and reasons.",
            "Which model it is, only a file's name tells; who judged, nothing. Subsets are checked "
            "by the fields of records.",
        ),
        digits=0,
    )


def _fault_list(published: Sequence[Published]) -> Iterator[Table]:
    rows = {
        f"{each.path.name} #{number}": {
            "where": Cell(value=fault.where),
            "what": Cell(value=fault.what),
        }
        for each in published
        for number, fault in enumerate(each.faults, start=1)
    }
    if rows:
        yield Table(
            name="fault_list",
            title="Where the faults are",
            columns=("where", "what"),
            rows=rows,
        )
