"""What the page does not claim: what may be chance, and what tables do not tell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mmconv.benchmarks.convbench.layouts import LOST
from mmconv.benchmarks.convbench.quantities import DIRECT, PAIRWISE
from mmconv.core.types import Cell, Table
from mmconv.report.comparison.differences import DIFFERS, Comparison
from mmconv.report.page.views import generic
from mmconv.report.page.views.convbench import view
from mmconv.report.page.views.convbench_sentences import (
    attribution_sentences,
    comparison_sentences,
    delta_sentences,
)
from mmconv.report.page.views.significance import mark_significant
from mmconv.report.tables.convbench_names import typeset_table

SURE = Cell(value=86.0, low=75.0, high=97.0, n=49)
UNSURE = Cell(value=0.0, low=-79.0, high=44.0, n=11)


def net(*columns: str, notes: tuple[str, ...] = (), **cells: Cell) -> Table:
    rows = {f"creation failed: due to {name}": cells[name] for name in cells}
    return Table(
        name="attribution_net",
        title="",
        columns=columns,
        rows={name: dict.fromkeys(columns, cell) for name, cell in rows.items()},
        notes=notes,
    )


def deltas(cell: Cell) -> Table:
    return Table(
        name="deltas",
        title="",
        columns=(PAIRWISE.title,),
        rows={"S3_tilde - S3_hat": {PAIRWISE.title: cell}},
        signed=True,
    )


@pytest.mark.parametrize(
    ("gradings", "notes", "claims"),
    [
        (["pairwise"], (LOST,), False),
        (["pairwise"], (), True),
        (["direct", "pairwise"], (LOST,), True),
    ],
)
def test_comparisons_lost_in_one_order_are_no_failures_to_attribute(
    gradings: list[str], notes: tuple[str, ...], claims: bool
) -> None:
    table = net(*(f"{each} failures" for each in gradings), notes=notes, creation=SURE)
    gain = deltas(Cell(value=5.0, low=2.0, high=8.0, n=80))
    shown = view([gain, table])
    [section] = shown.sections
    claimed = attribution_sentences(table, table.columns[0])
    assert shown.lead == (claimed if claims else delta_sentences([gain]))
    assert section.sentences == (() if claims else (LOST,))
    assert section.notes.count(LOST) == (claims and LOST in notes)


def test_a_lost_comparison_is_not_marked_as_failed() -> None:
    rows = {
        f"{grading.name}/creation/7": {"attributed to": Cell(value="creation")}
        for grading in (DIRECT, PAIRWISE)
    }
    table = Table(name="attribution_samples", title="", columns=("attributed to",), rows=rows)
    assert view([table]).marks["7"] == (
        "creation failed, attributed to creation (direct)",
        "creation lost, attributed to creation (pairwise)",
    )


def test_no_level_is_called_the_largest_beside_one_that_is_not_told() -> None:
    untold = Cell(value=None, n=11)
    started = "Where failures in creation come from cannot be told from chance"
    table = net("direct failures", perception=UNSURE, creation=untold)
    assert attribution_sentences(table, "direct failures") == (f"{started} (11 failures).",)
    table = net("direct failures", perception=UNSURE, creation=replace(UNSURE, value=100.0))
    [all_told] = attribution_sentences(table, "direct failures")
    assert all_told.startswith(f"{started}; the largest share is that of creation itself: 100 %")


@pytest.mark.parametrize("change", [0.0, 0.004, -0.004])
def test_no_change_is_neither_a_gain_nor_a_loss(change: float) -> None:
    [told] = delta_sentences([deltas(Cell(value=change, low=-5.0, high=5.0, n=80))])
    minus = "\N{MINUS SIGN}"
    assert told == (
        "With perfect reasoning on top, creation stays as it is on average "
        f"(95 % interval {minus}5.00 to +5.00)."
    )


def test_a_comparison_tells_how_much_more_a_run_gains() -> None:
    gain = Cell(value=1.2, low=0.4, high=2.0, n=80)
    rows = {"S2_hat - S2": gain, "S3_hat - S3": replace(gain, low=-0.4)}
    table = Table(
        name="delta_differences",
        title="",
        columns=(DIRECT.title,),
        rows={name: {DIRECT.title: cell} for name, cell in rows.items()},
        signed=True,
    )
    sure = {("S2_hat - S2", DIRECT.title)}
    assert comparison_sentences(table, ("pocket", "blurred"), sure, ()) == (
        "blurred against pocket, by what perfect turns change: the gain of reasoning by perfect "
        "perception is 1.20 points of 10 higher (95 % interval +0.40 to +2.00); with n = 80, "
        "no difference in the gain of creation by perfect perception can be told from chance.",
    )


def test_a_comparison_tells_which_failures_are_fewer() -> None:
    rows = {
        "creation failed": Cell(value=-12.5, low=-20.0, high=-5.0, n=80),
        "creation failed: due to perception": Cell(value=-11.0, low=-19.0, high=-3.0, n=80),
        "creation failed: due to creation": Cell(value=1.0, low=-4.0, high=6.0, n=80),
    }
    table = Table(
        name="failure_differences",
        title="",
        columns=(DIRECT.failures,),
        rows={name: {DIRECT.failures: cell} for name, cell in rows.items()},
        signed=True,
    )
    sure = {("creation failed", DIRECT.failures)}
    minus = "\N{MINUS SIGN}"
    assert comparison_sentences(table, ("old", "new"), sure, ()) == (
        "new against old, by how many samples fail: the share of failed creations is 12.50 "
        f"percentage points of the samples lower (95 % interval {minus}20.00 to {minus}5.00); what "
        "comes from perception is 11.00 percentage points of the samples lower (95 % interval "
        f"{minus}19.00 to {minus}3.00), which may be chance among so many differences; with n "
        "= 80, no difference in what comes from creation itself can be told from chance.",
    )


def test_what_differs_is_marked_at_its_number() -> None:
    """A column for it would be out of sight on a telephone."""
    cells = {DIRECT.title: SURE, PAIRWISE.title: SURE}
    rows = {"S2_hat - S2": {**cells, DIFFERS: Cell(value=DIRECT.title)}, "S3_hat - S3": cells}
    table = Table(
        name="delta_differences",
        title="",
        columns=(DIRECT.title, PAIRWISE.title, DIFFERS),
        rows=rows,
        notes=("differs: the columns whose difference is apart from 0",),
    )
    comparison = Comparison(
        runs=(),
        warnings=(),
        tables=(table,),
        equal=frozenset(),
        significant=frozenset({("S2_hat - S2", DIRECT.title)}),
    )
    [section] = generic.sections([typeset_table(table)])
    [grid] = mark_significant(section, comparison).grids
    assert grid.columns == (DIRECT.title, PAIRWISE.title)
    values = [[cell and cell.value for cell in line.cells] for line in grid.lines]
    assert values == [["86.00 *", "86.00"], ["86.00", "86.00"]]
    assert "*: the difference is apart from 0" in grid.notes


def test_levels_in_which_nothing_failed_are_named() -> None:
    """A plot of lost comparisons alone would be taken for the answer."""
    columns = (DIRECT.failures, PAIRWISE.failures)
    lost = Cell(value=30.0, low=10.0, high=50.0, n=20)
    net = Table(
        name="attribution_net",
        title="",
        columns=columns,
        rows={
            "creation failed: due to creation": {columns[1]: lost},
            "reasoning failed: due to reasoning": {columns[0]: Cell(value=None, n=2)},
        },
    )
    none = Cell(value=0.0, low=0.0, high=9.0, n=38, missing={"no score": 2})
    untold = Table(
        name="failures",
        title="",
        columns=columns,
        rows={
            "creation failed": {columns[0]: none, columns[1]: lost},
            "creation failed: due to creation": {columns[0]: none},
            "reasoning failed": {columns[0]: none},
        },
    )
    first, *_ = view([net, untold]).sections[0].sentences
    assert first == "No creation failed (direct, n = 38 of 40)."
    without = replace(untold, rows={"creation failed": {columns[0]: Cell(value=None, n=0)}})
    assert "No creation" not in " ".join(view([net, without]).sections[0].sentences)


def test_a_category_s_cell_says_how_many_are_missing_to_those_without_a_pointer_too() -> None:
    cells = {
        "direct, free": Cell(value=5.5, n=2, missing={"unparsed": 1}),
        "pairwise, free": Cell(value=None, n=0, missing={"unparsed": 3}),
    }
    table = Table(
        name="categories_perception", title="", columns=tuple(cells), rows={"Count": cells}
    )
    [section] = view([table]).sections
    [line] = section.maps[0].lines
    assert [(cell.value, cell.size) for cell in line.cells if cell] == [
        ("5.50", "2/3"),
        ("–", "0/3"),
    ]
