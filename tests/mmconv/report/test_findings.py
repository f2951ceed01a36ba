"""Findings: what short sentences say, and what they do not claim."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mmconv.benchmarks.options import display_of
from mmconv.core.types import Cell, Table
from mmconv.report.comparison.differences import compare
from mmconv.report.findings import MOST, comparison_findings, run_findings
from tests.mmconv.report.page_runs import simulated_run

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


async def test_a_comparison_says_which_differences_are_significant(tmp_path: Path) -> None:
    runs = [
        await simulated_run(tmp_path, name, rate)
        for name, rate in (("sharp", 0.1), ("fair", 0.4), ("blurred", 0.9))
    ]
    display = display_of("convbench")
    compared = compare(runs)
    findings = comparison_findings(compared, display)
    assert 0 < len(findings) == min(MOST, len(compared.significant))
    minus = "\N{MINUS SIGN}"
    assert findings[0] == (
        "blurred is worse than sharp in perception, direct (1-10): "
        f"{minus}3.3 [{minus}4.7, {minus}1.8]."
    )
    [none] = comparison_findings(compare(runs[:2]), display)
    assert none.startswith("No difference is significant. fair minus sharp in R1, direct (1-10): ")
