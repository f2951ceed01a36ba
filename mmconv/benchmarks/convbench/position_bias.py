"""Position bias of the pairwise judge: what the candidate's side does to the verdicts.

Where every pair is judged in both orders the same answers stand on either side, so that what the
sides differ by is the judge's own doing.
"""

from __future__ import annotations

from mmconv.benchmarks.convbench.quantities import LEVELS, PAIRWISE
from mmconv.stats import Column, ScoreFrame, as_cell, paired_share_difference, summarise_share
from mmconv.values import Table

TIE = 0.5
"""A win in one order and a loss in the other."""

_WINS = {"A": "win rate as A (%)", "B": "win rate as B (%)"}
_GAP = "A less B"
_DECIDED = "decided by the side (%)"
_NOTE = (
    f"{_GAP}: the win rates' paired difference in percentage points. {_DECIDED}: pairs in which "
    "the same side wins in both orders."
)


def is_in_both_orders(frame: ScoreFrame) -> bool:
    """Whether any pair was judged with the candidate on either side."""
    first, second = (frame.select(metric=PAIRWISE.metric, side=side).samples for side in _WINS)
    return not {*first}.isdisjoint(second)


def position_table(frame: ScoreFrame, notes: tuple[str, ...]) -> Table:
    """Win rates on either side, freely; and how far they lie apart, where both were judged."""
    both = is_in_both_orders(frame)
    rows = {}
    for turn, name in {**LEVELS, 0: "overall"}.items():
        found = frame.select(metric=PAIRWISE.metric, condition="free", turn=turn)
        by_side = {
            side: frame.select(metric=PAIRWISE.metric, condition="free", turn=turn, side=side)
            for side in _WINS
        }
        cells = {
            _WINS[side]: as_cell(summarise_share(wins), 100.0)
            for side, wins in by_side.items()
            if len(wins)
        }
        if both and len(found):
            cells[_GAP] = as_cell(paired_share_difference(by_side["B"], by_side["A"]), 100.0)
            cells[_DECIDED] = as_cell(summarise_share(_ties(found)), 100.0)
        if cells:
            rows[name] = cells
    return Table(
        name="position",
        title="Position bias of the pairwise judge (free setting)",
        columns=(*_WINS.values(), *((_GAP, _DECIDED) if both else ())),
        rows=rows,
        notes=(_NOTE, *notes) if both else notes,
    )


def _ties(found: Column) -> Column:
    """1 for each sample that one side won in both orders, 0 for one that the same answer won."""
    pairs = found.per_sample("mean")
    return Column.of(
        [None if value is None else float(value == TIE) for value in pairs.values],
        samples=pairs.samples,
        clusters=pairs.clusters,
        reasons=pairs.reasons,
    )
