"""BotChat's tables of the dialogues themselves: loops, lengths, and how utterances ended.

No judgement is read here.
"""

from __future__ import annotations

from mmconv.benchmarks.botchat.quantities import share
from mmconv.benchmarks.botchat.table_rows import TableContext, entrants, rows_notes
from mmconv.benchmarks.shared.endings import SHARES
from mmconv.core.types import Cell, Table
from mmconv.stats import Column, ScoreFrame, as_cell, bounded, summarise

_LENGTHS = ("tokens", "words", "characters")


def dialogue_tables(frame: ScoreFrame, context: TableContext) -> list[Table]:
    """The tables, each of them perhaps without a row."""
    make = (_loops, _lengths, _lengths_by_utterance, _replies)
    return [each(frame, context) for each in make]


def _loops(frame: ScoreFrame, context: TableContext) -> Table:
    rows = {}
    for label, entrant in entrants(frame, "non_loop"):
        utterances = entrant.column(frame, "non_loop_utterances")
        rows[label] = {
            "non-loop (%)": share(entrant.column(frame, "non_loop")),
            "non-loop utterances": _count(utterances),
        }
    return Table(
        name="loops",
        title="Dialogues that do not begin to repeat themselves",
        columns=("non-loop (%)", "non-loop utterances"),
        rows=rows,
        digits=1,
        notes=(
            "Non-loop utterances: the mean number up to the first that repeats another, that one "
            "included; all of them where none does.",
            *rows_notes(frame, "non_loop", context),
            context.loops,
            *context.notes,
        ),
    )


def _lengths(frame: ScoreFrame, context: TableContext) -> Table:
    rows = {}
    for label, entrant in entrants(frame, "words"):
        row = {}
        for metric in _LENGTHS:
            column = entrant.column(frame, metric)
            if len(column):
                row[metric] = _count(column)
                values = [value for value in column.values if value is not None]
                row[f"longest ({metric})"] = Cell(value=max(values, default=None))
        rows[label] = row
    return Table(
        name="lengths",
        title="Length of generated utterances: mean, and longest",
        columns=(*_LENGTHS, *(f"longest ({metric})" for metric in _LENGTHS)),
        rows=rows,
        digits=1,
        notes=(
            "Tokens are those of the model's own server; the paper counts tokens of cl100k. "
            "Words are separated by blanks. The human's utterances are those after the seed.",
            *rows_notes(frame, "words", context),
            *context.notes,
        ),
    )


def _lengths_by_utterance(frame: ScoreFrame, context: TableContext) -> Table:
    rows = {
        label: {
            f"utterance {turn}": _count(column)
            for turn in frame.turns()
            if len(column := entrant.column(frame, "words", turn=turn))
        }
        for label, entrant in entrants(frame, "words")
    }
    numbers = sorted({int(name.split()[1]) for row in rows.values() for name in row})
    return Table(
        name="lengths_by_utterance",
        title="Words by utterance",
        columns=tuple(f"utterance {number}" for number in numbers),
        rows=rows,
        digits=1,
        notes=(*rows_notes(frame, "words", context), *context.notes),
        detail=True,
    )


def _replies(frame: ScoreFrame, context: TableContext) -> Table:
    rows = {}
    for label, entrant in entrants(frame, "dropped"):
        dropped = entrant.column(frame, "dropped")
        total = sum((value for value in dropped.values if value is not None), start=0.0)
        shares = {name: share(entrant.column(frame, metric)) for metric, name in SHARES.items()}
        rows[label] = shares | {
            "prompts that overflowed": Cell(
                value=float(sum(bool(value) for value in dropped.values)),
                n=int(dropped.present.sum()),
                missing=dict(dropped.missing),
            ),
            "utterances dropped": Cell(value=total),
        }
    return Table(
        name="replies",
        title="How the generated utterances ended, and what was dropped from full contexts",
        columns=(*SHARES.values(), "prompts that overflowed", "utterances dropped"),
        rows=rows,
        digits=1,
        notes=context.notes,
    )


def _count(column: Column) -> Cell:
    """The mean of numbers that are never below 0."""
    return as_cell(bounded(summarise(column), lowest=0.0))
