"""Numbers as they are printed of published judgements: rounded as the authors' code rounds."""

from __future__ import annotations

import pytest

from mmconv.benchmarks.rescoring import as_published
from mmconv.values import Cell, Table


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
