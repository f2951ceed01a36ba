"""ConvBench's tables: scores, deltas, the paper's layout, categories, attribution, order, answers.

Every cell carries n, what is missing by reason, and a 95 % interval where there is one. The
authors' convention stands beside ours, labelled. How a table looks on paper is `mmconv.report`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial

from mmconv.benchmarks.convbench.attribution_tables import attribution_tables
from mmconv.benchmarks.convbench.chains import own_turns
from mmconv.benchmarks.convbench.official import OfficialRates
from mmconv.benchmarks.convbench.options import ALONE, CONDITIONS
from mmconv.benchmarks.convbench.position_bias import position_table
from mmconv.benchmarks.convbench.quantities import (
    DELTAS,
    GRADINGS,
    LEVELS,
    MEANINGS,
    MEANS,
    PAIRWISE,
    QUANTITIES,
    Grading,
    column,
    delta,
    difference,
    estimate,
    mean,
    quantity_column,
)
from mmconv.benchmarks.convbench.table_context import TableContext
from mmconv.benchmarks.shared.endings import endings_table
from mmconv.benchmarks.shared.scoring import Scores
from mmconv.stats import ScoreFrame, as_cell
from mmconv.values import Cell, Table

LOST_TURNS = (
    "An overall verdict, and R1 with it, is missing where a turn's is: its judge reads those on "
    "the turns. Running it again asks for those that failed; with the option turn_judgements=false "
    "the whole is judged without them, by another prompt."
)
"""Why S0 and R1 lack more than S1 to S3, as tables tell it."""

PARTS = (
    "R1 and R2 are over the samples that have every part. They can differ from the means of S1 to "
    "S0, each of which is over all samples that have it."
)
"""What R1 and R2 are over, as tables tell it."""

_LOST_TURN = re.compile(r"skipped: \w+/turn_\d")


def build_tables(scores: Scores, context: TableContext) -> list[Table]:
    """All tables that the scores have something for."""
    frame = ScoreFrame.of(scores)
    metrics = set(frame.distinct("metric"))
    gradings = [grading for grading in GRADINGS if grading.metric in metrics]
    made: list[Table] = []
    if gradings:
        made += [_scores(frame, gradings, context), _deltas(frame, gradings, context)]
        made += [_paper(frame, grading, context) for grading in gradings]
        made += attribution_tables(frame, gradings, context)
        made += [_categories(frame, gradings, turn, context) for turn in LEVELS]
        made += [_alone(frame, gradings, context)]
    if PAIRWISE in gradings:
        made.append(position_table(frame, context.notes))
    made.append(_answers(frame, context))
    return [table for table in made if table.rows]


def _scores(frame: ScoreFrame, gradings: list[Grading], context: TableContext) -> Table:
    official = OfficialRates(frame=frame, convention=context.official)
    names = [name for name in (*MEANS, *QUANTITIES) if _is_there(frame, gradings, name)]
    rows = {}
    for name in names:
        cells = {"meaning": Cell(value=MEANINGS[name])}
        for grading in gradings:
            cells[grading.title] = as_cell(estimate(frame, grading, name), grading.scale)
        rows[name] = cells | official.score(name)
    means = [cell for name in MEANS for cell in rows.get(name, {}).values()]
    return Table(
        name="scores",
        title=f"ConvBench scores of {context.candidate}, judged by {context.judge}",
        columns=("meaning", *(grading.title for grading in gradings), *official.columns),
        rows=rows,
        notes=(*official.notes, *_parts(means), *_lost_turns(rows), *context.notes),
    )


def _deltas(frame: ScoreFrame, gradings: list[Grading], context: TableContext) -> Table:
    official = OfficialRates(frame=frame, convention=context.official)
    rows = {}
    for name, (start, goal) in DELTAS.items():
        if not (_is_there(frame, gradings, start) and _is_there(frame, gradings, goal)):
            continue
        cells = {
            grading.title: as_cell(delta(frame, grading, name), grading.scale)
            for grading in gradings
        }
        rows[name] = cells | official.delta(name)
    return Table(
        name="deltas",
        title="What perfect earlier turns change",
        columns=(*(grading.title for grading in gradings), *official.columns),
        rows=rows,
        notes=(
            "Deltas are paired per sample. In S0_hat and S0_tilde the judged conversation contains "
            "the given reference turns, which by themselves raise it.",
            *context.notes,
        ),
        signed=True,
    )


def _paper(frame: ScoreFrame, grading: Grading, context: TableContext) -> Table:
    """One row in the layout of the paper's Table 1 (pairwise) or 2 (direct), deltas with signs."""
    cells: dict[str, Cell] = {}
    for name in (*MEANS, *QUANTITIES):
        cells[name] = as_cell(estimate(frame, grading, name), grading.scale)
        for label, (_, goal) in DELTAS.items():
            if goal == name:
                change = delta(frame, grading, label)
                cells[label] = as_cell(change, grading.scale, signed=True)
    there = {name: cell for name, cell in cells.items() if cell.value is not None}
    return Table(
        name=f"paper_{grading.name}",
        title=f"The paper's layout, {grading.title}",
        columns=tuple(there),
        rows={context.candidate: there} if there else {},
        notes=(*_parts(cells[name] for name in MEANS), *context.notes),
        detail=True,
    )


def _categories(
    frame: ScoreFrame, gradings: list[Grading], turn: int, context: TableContext
) -> Table:
    rows: dict[str, dict[str, Cell]] = {}
    conditions = [name for name in CONDITIONS if name not in ALONE and turn in own_turns(name)]
    for category in frame.distinct("category"):
        cells = {}
        for grading in gradings:
            for condition in conditions:
                found = frame.select(
                    metric=grading.metric, condition=condition, turn=turn, category=category
                )
                if len(found):
                    summary = mean(grading, found.per_sample("mean"))
                    cells[f"{grading.name}, {condition}"] = as_cell(summary, grading.scale)
        if cells:
            rows[category] = cells
    return Table(
        name=f"categories_{LEVELS[turn]}",
        title=f"Turn {turn} ({LEVELS[turn]}) by category",
        columns=tuple(f"{grading.name}, {name}" for grading in gradings for name in conditions),
        rows=dict(sorted(rows.items())),
        notes=context.notes,
        detail=True,
    )


def _alone(frame: ScoreFrame, gradings: list[Grading], context: TableContext) -> Table:
    """Single-turn against multi-turn (paper, Appendix C.1)."""
    rows: dict[str, dict[str, Cell]] = {}
    for condition, turn in ALONE.items():
        for grading in gradings:
            alone = column(frame, grading, condition, turn)
            if not len(alone):
                continue
            free = column(frame, grading, "free", turn)
            among = "third of three turns" if turn == 3 else "after perception"
            gain = difference(grading, alone, free)
            told = {
                "asked alone": as_cell(mean(grading, alone), grading.scale),
                among: as_cell(mean(grading, free), grading.scale),
                "gain by the turns before": as_cell(gain, grading.scale, signed=True),
            }
            for label, cell in told.items():
                rows.setdefault(f"{LEVELS[turn]}, {label}", {})[grading.title] = cell
    return Table(
        name="single_turn",
        title="One instruction alone against the conversation",
        columns=tuple(grading.title for grading in gradings),
        rows=rows,
        notes=context.notes,
    )


def _answers(frame: ScoreFrame, context: TableContext) -> Table:
    rows = (
        (f"{condition}, turn {turn}", partial(frame.select, condition=condition, turn=turn))
        for condition in CONDITIONS
        for turn in own_turns(condition)
    )
    title = f"How the answers of {context.candidate} ended"
    return endings_table("answers", title, rows, context.notes)


def _is_there(frame: ScoreFrame, gradings: list[Grading], name: str) -> bool:
    """Whether the run has anything for a quantity, scored or not."""
    return any(len(quantity_column(frame, grading, name)) for grading in gradings)


def _parts(means: Iterable[Cell]) -> tuple[str, ...]:
    """What R1 and R2 are over, where a sample lacks a part of them."""
    return (PARTS,) if any(cell.missing for cell in means) else ()


def _lost_turns(rows: Mapping[str, Mapping[str, Cell]]) -> tuple[str, ...]:
    """Why an overall score is missing, where it is for want of a turn's verdict."""
    reasons = {why for row in rows.values() for cell in row.values() for why in cell.missing}
    return (LOST_TURNS,) if any(_LOST_TURN.fullmatch(why) for why in reasons) else ()
