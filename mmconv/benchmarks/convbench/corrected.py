"""Attribution without the judge's errors, for a judge whose error rates are known.

Let the judge fail right answers at a rate a. Of the F failures freely, perfect perception then
explains (F - H) / (F - a), and (T - a) / (F - a) are the level's own: `mmconv.stats.corrections`.
The threshold of a failure is that at which a was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from mmconv.benchmarks.ablations.metrics import Failed
from mmconv.benchmarks.ablations.quantities import DUE, LADDERS, Grading
from mmconv.benchmarks.base.layouts import Rows
from mmconv.core.types import Cell, Summary, Table
from mmconv.stats import ScoreFrame, as_cell
from mmconv.stats.corrections import Rate, attribute

COLUMN = "{}: of true failures"
COUNTED = "n counts all samples, failed or not. Below 0, perfect turns add failures."
NOT_SHOWN = (
    "Not shown are parts of too few failures: hardly more than the judge fails right answers."
)


def corrected_attribution(
    gradings: Sequence[Grading], frame: ScoreFrame, rate: Callable[[str, int], Rate | None]
) -> Iterator[Table]:
    """The part of each level in the true failures; `rate` is that of a score in a turn."""
    rows: Rows = {}
    for grading in gradings:
        for level, (turn, conditions) in LADDERS.items():
            known = rate(grading.metric, turn)
            columns = [
                Failed(grading=grading, level=level, step=step)(frame)
                for step in range(len(conditions))
            ]
            if known is None or not all(map(len, columns)):
                continue
            parts = attribute(columns, [known] * len(columns))
            for cause, part in zip((*conditions[1:], level), parts, strict=True):
                cells = rows.setdefault(f"{level}{DUE}{cause}", {})
                cells[COLUMN.format(grading.name)] = _cell(part, len(columns[0]))
    if rows:
        yield Table(
            name="attribution_corrected",
            title="Where true failures come from, by the judge's error rates",
            columns=tuple(dict.fromkeys(name for cells in rows.values() for name in cells)),
            rows=rows,
            notes=(COUNTED, *([NOT_SHOWN] if _is_any_hidden(rows) else [])),
            digits=0,
        )


def _is_any_hidden(rows: Rows) -> bool:
    """Whether a cell has no number."""
    return any(cell.value is None for cells in rows.values() for cell in cells.values())


def _cell(part: Summary, samples: int) -> Cell:
    """The part in percent over all samples; no number without an interval."""
    if part.low is None:
        return Cell(value=None, n=samples)
    cell = as_cell(part, 100.0)
    return Cell(value=cell.value, n=samples, low=cell.low, high=cell.high)
