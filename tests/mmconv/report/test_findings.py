"""Findings: what short sentences say, and what they do not claim."""

from dataclasses import replace

from mmconv.core.types import Cell, Table
from mmconv.report.findings import run_findings

SCORE = Cell(value=7.333, low=6.9, high=7.8, n=80)
SURE = Cell(value=1.2, low=0.5, high=1.9, n=80, signed=True)
UNSURE = Cell(value=-3.0, low=-7.0, high=1.0, n=80, signed=True)


def table(name: str, *cells: Cell, findings: tuple[str, ...] = ()) -> Table:
    rows = {f"S{number}": {"direct": cell} for number, cell in enumerate(cells, start=1)}
    return Table(name=name, title="", columns=("direct",), rows=rows, findings=findings)


def test_a_benchmark_s_own_findings_are_taken_in_order_and_at_most_three() -> None:
    tables = [table("a", SCORE, findings=("one", "two")), table("b", findings=("three", "four"))]
    assert run_findings(tables) == ("one", "two", "three")
    assert run_findings([replace(tables[0], detail=True), tables[1]]) == ("three", "four")


def test_otherwise_they_are_the_headline_number_and_the_largest_sure_change() -> None:
    scores, deltas = table("scores", SCORE, SCORE), table("deltas", UNSURE, SURE)
    assert run_findings([scores, deltas]) == (
        "S1, direct: 7.33 [6.90, 7.80] (n = 80).",
        "Largest change: S2, direct: +1.20 [0.50, 1.90].",
    )
    assert run_findings([scores, table("deltas", UNSURE)]) == run_findings([scores])
    assert run_findings([table("scores", Cell(value=5.5, n=3))]) == ("S1, direct: 5.50 (n = 3).",)
    assert run_findings([]) == ()
