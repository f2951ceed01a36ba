"""What the reference document changes in a model's dialogues: con - uncon, paired.

Both conditions go on from the same seeds and are judged by the same prompts against the same human
dialogues, so that a dialogue's two scores make a pair. PairEval has no such difference: there the
opponent's dialogue is another too.
"""

from __future__ import annotations

from collections.abc import Iterator

from mmconv.benchmarks.botchat.dialogue_files import HUMAN
from mmconv.benchmarks.botchat.options import CON, UNCON
from mmconv.benchmarks.botchat.players import GTEVAL
from mmconv.benchmarks.botchat.quantities import PERCENT, RATES, indicator
from mmconv.benchmarks.botchat.scoring import DUP, JUDGE, OURS
from mmconv.benchmarks.botchat.table_rows import Entrant, Match, TableContext
from mmconv.core.types import Cell, Table
from mmconv.stats import Column, ScoreFrame, as_cell, bounded, pair, summarise_share_change

COMPARED_RATE = "win+tie"
"""The authors' main rate of comparisons."""


def condition_changes(frame: ScoreFrame, model: str) -> Iterator[tuple[str, Column]]:
    """The model's shares by name, each with con - uncon of every dialogue that has both.

    GTEval has a row for each comparison, of which the two orders of a dialogue are a cluster.
    """
    before, after = _shares(frame, model, UNCON), _shares(frame, model, CON)
    for name, column in before.items():
        if len(column) and len(after[name]):
            yield name, pair(column, after[name], (UNCON, CON))


def changes_table(frame: ScoreFrame, context: TableContext) -> Table:
    """What the document changes for every model that talks in the run; a row per model."""
    rows: dict[str, dict[str, Cell]] = {}
    columns: dict[str, None] = {}
    for model in frame.distinct("model"):
        # what was stored before is the same under both conditions
        if len(Entrant(model=model, condition=CON).column(frame, "dropped")):
            cells = {
                name: as_cell(bounded(summarise_share_change(column), -1.0, 1.0), PERCENT)
                for name, column in condition_changes(frame, model)
            }
            columns |= dict.fromkeys(cells)
            rows |= {model: cells} if cells else {}
    return Table(
        name="conditions",
        title=f"What the document changes, {CON} - {UNCON} (percentage points), {context.judge}",
        columns=tuple(columns),
        rows=rows,
        digits=1,
        signed=True,
        notes=(
            "Differences are paired by dialogue, those of GTEval by comparison. PairEval is left "
            "out: the opponent's dialogue changes with the condition too.",
            context.loops,
            context.compared_note,
            *context.notes,
        ),
    )


def _shares(frame: ScoreFrame, model: str, condition: str) -> dict[str, Column]:
    """The columns of zeros and ones of a model under one condition, perhaps empty, by name."""
    entrant = Entrant(model=model, condition=condition)
    match = Match(model=model, opponent=HUMAN, condition=condition)
    found = {
        f"UniEval, N={length}": entrant.column(frame, "pass", turn=length, reading=OURS)
        for length in frame.turns()
    }
    found["UniEval, human length"] = entrant.column(frame, "pass_at_human_length")
    for dup, told in ((JUDGE, ""), (DUP, ", DupDetect first")):
        points = match.by_order(frame, GTEVAL, dup)
        found[f"{GTEVAL} {COMPARED_RATE}{told}"] = indicator(points, RATES[COMPARED_RATE])
    found["non-loop dialogues"] = entrant.column(frame, "non_loop")
    return found
