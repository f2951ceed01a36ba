"""The tables of published judgements: rounded as the authors' code rounds, with what they hold."""

from __future__ import annotations

import pytest

from mmconv.benchmarks.shared.rescore import Rescoring, as_published
from mmconv.core.types import Cell, Table
from mmconv.stats import INTERVALS


@pytest.mark.parametrize(
    ("number", "digits", "printed"),
    [
        (3.125, 2, 3.12),
        (3.375, 2, 3.38),
        # a sum that missed the tie by its last bit
        (3.1250000000000004, 2, 3.12),
        (49.77, 2, 49.77),
        (2.5, 0, 2.0),
        (66.65, 1, 66.7),
    ],
)
def test_ties_go_to_the_even_digit(number: float, digits: int, printed: float) -> None:
    cell = Cell(value=number, n=3, low=1.234567, high=None)
    made = Table(name="a", title="A", columns=("b",), rows={"r": {"b": cell}}, digits=digits)
    [table] = as_published([made])
    assert table.rows["r"]["b"] == Cell(value=printed, n=3, low=1.234567, high=None)


def test_texts_and_gaps_stay() -> None:
    cells = {"b": Cell(value="gpt"), "c": Cell(value=None, n=0, missing={"unparsed": 2})}
    made = Table(name="a", title="A", columns=("b", "c"), rows={"r": cells})
    assert as_published([made])[0].rows["r"] == cells


@pytest.mark.parametrize(
    ("cell", "own", "told"),
    [
        (Cell(value=1.0, n=9, low=0.5, high=1.5), (), (INTERVALS,)),
        (Cell(value=1.0, n=9), (), ()),
        (Cell(value=1.0, n=9, low=0.5, high=1.5), ("Brackets hold draws.",), ()),
    ],
)
def test_what_the_brackets_hold_is_told_where_there_are_any(
    cell: Cell, own: tuple[str, ...], told: tuple[str, ...]
) -> None:
    made = Table(name="a", title="A", columns=("b",), rows={"r": {"b": cell}}, notes=own)
    [table] = Rescoring().rescored([made])
    assert table.notes == (*own, *told)
