"""The mark on deltas of the whole conversation, in tables and on pages."""

from __future__ import annotations

from mmconv.benchmarks.convbench.quantities import DIRECT
from mmconv.core.types import Cell, Table
from mmconv.report.page.views.convbench import view
from mmconv.report.tables.convbench_names import (
    MARK,
    RAISED,
    mark_name,
    mark_raised,
    typeset_table,
)

GAIN = Cell(value=1.0, low=0.5, high=1.5, n=12)


def deltas(*names: str) -> Table:
    rows = {name: {DIRECT.title: GAIN} for name in names}
    return Table(name="deltas", title="deltas", columns=(DIRECT.title,), rows=rows, signed=True)


def test_only_deltas_of_the_whole_conversation_are_marked() -> None:
    for name, marked in (
        ("S0_hat - S0", "S0_hat - S0 †"),
        ("S0_tilde - S0_hat, beta", "S0_tilde - S0_hat †, beta"),
        ("S2_hat - S2", "S2_hat - S2"),
        ("S0_hat", "S0_hat"),
        ("S0", "S0"),
        ("all tasks", "all tasks"),
    ):
        assert mark_name(name) == marked


def test_a_table_with_marks_says_what_they_mean() -> None:
    table = mark_raised(deltas("S2_hat - S2", "S0_hat - S0"))
    assert [*table.rows] == ["S2_hat - S2", f"S0_hat - S0 {MARK}"]
    assert table.notes == (RAISED,)
    plain = deltas("S2_hat - S2")
    assert mark_raised(plain) == plain


def test_rows_and_columns_are_marked_once_and_typeset() -> None:
    names = ("S3_tilde", "S0_hat - S0")
    upright = Table(
        name="paper", title="", columns=names, rows={"model": dict.fromkeys(names, GAIN)}
    )
    shown = typeset_table(upright)
    assert shown.columns == ("S\u03033", f"S\u03020 \u2212 S0 {MARK}")
    assert [*shown.rows["model"]] == [*shown.columns]
    assert shown.notes == mark_raised(upright).notes == (RAISED,)
    assert [*typeset_table(deltas(*names)).rows] == [*shown.columns]


def test_a_page_marks_them_in_its_table_its_plot_and_its_notes() -> None:
    names = ("S1", "S2", "S2_hat", "S0", "S0_hat")
    scores = Table(
        name="scores",
        title="scores",
        columns=(DIRECT.title,),
        rows={name: {DIRECT.title: GAIN} for name in names},
    )
    [section] = view([scores, deltas("S2_hat - S2", "S0_hat - S0")]).sections
    [headline] = section.grids
    gains = {line.name: line.cells[-1] for line in headline.lines}
    shown = {name: cell and cell.value for name, cell in gains.items()}
    assert shown == {"Perception": None, "Reasoning": "+1.00", "Overall": f"+1.00 {MARK}"}
    [_, gained] = section.plots
    assert f"overall, S\u03020 \u2212 S0 {MARK}" in gained.told
    assert [line.name for line in section.folded[1].lines][1].endswith(MARK)
    assert section.notes.count(RAISED) == 1
