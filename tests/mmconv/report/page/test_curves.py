"""Curves over an axis: of one run by condition, of several runs by row, and their marks."""

from dataclasses import replace

from mmconv.benchmarks.options import Display
from mmconv.core.types import Axis, Cell, Table
from mmconv.report.page.charts import COLOURS, HOLLOW
from mmconv.report.page.curves import MARK, run_curves

AXIS = Axis(title="level", line=50.0, mark="breaks")
DISPLAY = Display(
    turns={1: "seeing", 2: "thinking"},
    labels={"given": "perfect seeing"},
    rows={"S1": ("free", 1), "S2": ("free", 2), "S2_hat": ("given", 2)},
)


def row(*values: float, breaks: Cell | None = None) -> dict[str, Cell]:
    cells = {
        f"level {level}": Cell(value=float(value), low=value - 5, high=value + 5, n=20)
        for level, value in enumerate(values, 1)
    }
    return cells | ({"breaks": breaks} if breaks else {})


def table(**rows: dict[str, Cell]) -> Table:
    columns = dict.fromkeys(column for cells in rows.values() for column in cells)
    return Table(name="levels", title="Right", columns=(*columns,), rows=rows, axis=AXIS)


def at(level: float) -> Cell:
    return Cell(value=level, low=level - 0.5, high=level + 0.5, n=60, ends=(1.0, 3.0))


def test_a_run_has_a_picture_for_each_turn_and_a_curve_for_each_condition() -> None:
    rows = {
        "S1": row(90, 60, 20, breaks=at(2.25)),
        "S2": row(80, 40, 10, breaks=at(1.75)),
        "S2_hat": row(95, 80, 70, breaks=replace(at(4.0), low=None, high=None)),
    }
    first, second = run_curves([table(**rows)], DISPLAY)
    assert [first.title, second.title] == ["Right: seeing", "Right: thinking"]
    assert [*second.rows] == ["free", "perfect seeing"]
    assert first.reach == second.reach == (5.0, 100.0)
    plot = second.plot()
    assert [text for text, _ in plot.legend] == ["free: 1.8 [1.3, 2.3]", "perfect seeing: >3"]
    # a mark outside the axis is a text; the other one is drawn
    assert plot.svg.count("<path") == 1
    assert ">&gt;3</text>" in plot.svg
    assert plot.svg.count('class="zero"') == 1
    assert plot.words.startswith("free: breaks 1.8 [1.3, 2.3]; level 1: 80, 2: 40, 3: 10; perfect")
    # a picture of one curve has no legend
    assert first.plot().note == f"{MARK}\N{NO-BREAK SPACE}breaks: 2.3 [1.8, 2.8]"


def test_other_rows_have_a_picture_each_and_need_two_places() -> None:
    tables = [table(task=row(7, 6), short=row(7)), replace(table(other=row(1, 2)), axis=None)]
    [picture] = run_curves(tables, DISPLAY)
    assert picture.title == "Right: task"
    assert picture.plot().note == ""


def test_a_band_has_a_gap_where_there_is_no_interval() -> None:
    cells = row(90, 60, 50, 40, 20) | {"level 3": Cell(value=50.0, n=3)}
    [picture] = run_curves([table(S1=cells)], DISPLAY)
    plot = picture.plot()
    assert plot.svg.count('class="band"') == 2
    assert plot.svg.count("fill:var(--paper)") == 1
    assert plot.note == HOLLOW


def test_more_curves_than_colours_are_not_drawn() -> None:
    many = {f"S{n}": (f"condition {n}", 1) for n in range(len(COLOURS) + 1)}
    rows = {name: row(90, 20) for name in many}
    assert run_curves([table(**rows)], replace(DISPLAY, rows=many)) == []
