"""Counts that columns share are told once, and none is lost."""

from __future__ import annotations

from mmconv.core.types import Cell, Table
from mmconv.report.tables.cells import show_counts_once


def table(other: Cell) -> Table:
    rows = {
        "a": {
            "rank": Cell(value="1"),
            "R1": Cell(value=5.0, n=9, missing={"unparsed": 1}),
            "S1": Cell(value=6.0, n=9, missing={"unparsed": 1}),
        },
        "b": {"rank": Cell(value="2"), "R1": Cell(value=4.0, n=10), "S1": other},
    }
    return Table(name="board", title="Board", columns=("rank", "R1", "S1"), rows=rows)


def test_equal_counts_stand_in_the_first_column_that_counts() -> None:
    told = show_counts_once(table(Cell(value=3.0, n=10, low=2.0, high=4.0)))
    assert told.rows["a"]["R1"] == Cell(value=5.0, n=9, missing={"unparsed": 1})
    assert told.rows["a"]["S1"] == Cell(value=6.0)
    assert told.rows["b"]["S1"] == Cell(value=3.0, low=2.0, high=4.0)
    assert told.notes == ("Columns without n have the n and the missing values of R1.",)


def test_a_column_that_differs_anywhere_keeps_all_its_counts() -> None:
    for other in (Cell(value=3.0, n=8), Cell(value=3.0, n=10, missing={"unparsed": 1})):
        assert show_counts_once(table(other)) == table(other)


def test_counts_of_a_row_that_the_first_column_lacks_are_kept() -> None:
    full = table(Cell(value=3.0, n=10))
    rows = {name: dict(row) for name, row in full.rows.items()}
    del rows["b"]["R1"]
    lacking = Table(name="board", title="Board", columns=full.columns, rows=rows)
    assert show_counts_once(lacking) == lacking
