"""What plots show truly: axes that compare, points without intervals, names to the letter."""

from __future__ import annotations

import re

from mmconv.core.types import Cell, Table
from mmconv.report.page.plots import HOLLOW, Plot, Point, Series, sideways, span, upright
from mmconv.report.page.views import generic
from mmconv.report.page.views.convbench import view

SPAN = (1.0, 3.0)


def table(**columns: tuple[float, float]) -> Table:
    """Two rows, whose values lie in the middle of the columns' ends."""
    cells = {
        name: Cell(value=(low + high) / 2, low=low, high=high)
        for name, (low, high) in columns.items()
    }
    return Table(name="scores", title="", columns=(*cells,), rows={"x": cells, "y": cells})


def ticks(plot: Plot) -> list[tuple[str, str]]:
    """The numbers below a plot, after where they stand."""
    return re.findall(r'<text style="[^"]*middle[^"]*" x="([\d.]+)"[^>]*>([^<]*)<', plot.svg)


def plotted(shown: Table) -> tuple[Plot, ...]:
    [section] = generic.sections([shown])
    return section.plots


def test_plots_of_one_unit_have_one_axis_and_of_another_their_own() -> None:
    first, second, rate = plotted(
        table(**{"IS (1-5)": (1.0, 2.0), "Adp (1-5)": (4.0, 5.0), "won (%)": (0.0, 90.0)})
    )
    assert ticks(first) == ticks(second) != ticks(rate)
    assert ticks(first)
    bare, other = plotted(table(corrected=(20.0, 80.0), overall=(0.0, 100.0)))
    assert ticks(bare) == ticks(other)


def test_sources_of_failures_have_one_axis_for_all_gradings() -> None:
    columns = ("direct failures", "pairwise failures")
    cells = {
        columns[0]: Cell(value=50.0, low=40.0, high=60.0, n=20),
        columns[1]: Cell(value=50.0, low=-90.0, high=160.0, n=20),
    }
    net = Table(
        name="attribution_net",
        title="",
        columns=columns,
        rows={"creation failed: due to perception": cells},
    )
    [section] = view([net]).sections
    direct, pairwise = section.plots
    assert ticks(direct) == ticks(pairwise)


def test_a_point_without_an_interval_is_hollow_and_the_caption_says_so() -> None:
    sure, bare = Point(value=2.0, low=1.0, high=3.0), Point(value=2.0)
    series = Series(name="free", colour="series-2", points=(sure, bare))
    both = sideways("both", ["a", "b"], series, SPAN)
    alone = sideways("alone", ["a"], Series(name="free", colour="series-2", points=(sure,)), SPAN)
    assert (both.note, alone.note) == (HOLLOW, "")
    fills = re.findall(r'<use [^>]*style="(fill[^;]*);', both.svg)
    assert fills == ["fill: var(--series-2)", "fill-opacity: 0"]
    assert "free, b: 2.00 (no interval)" in both.told


def test_a_long_name_stands_in_lines_beside_the_plot_and_not_in_it() -> None:
    name = "Llama-3.2-11B-Vision-Instruct, " + "\N{CJK UNIFIED IDEOGRAPH-4E2D}" * 20
    series = Series(name="free", colour="series-2", points=(Point(value=2.0),))
    plot = sideways("long", [name], series, SPAN)
    lines = re.findall(r"<text[^>]*>([^<]*)</text>", plot.svg)
    ends = re.findall(r'text-anchor: end[^>]* x="([^"]*)"', plot.svg)
    assert len(ends) == 4
    assert len({*ends}) == 1
    [first] = [place for place, line in enumerate(lines) if line.startswith("Llama")]
    assert lines[first : first + 4] == [
        "Llama-3.2-11B-Vision-",
        "Instruct,",
        "\N{CJK UNIFIED IDEOGRAPH-4E2D}" * 13,
        "\N{CJK UNIFIED IDEOGRAPH-4E2D}" * 7,
    ]


def test_dollar_signs_in_names_are_no_formulas() -> None:
    names = ["bad $\\foo$ name", "cost 5$ to 9$", "a $x$", "one $", r"\$"]
    series = Series(
        name="free", colour="series-2", points=tuple(Point(value=1.0 + n) for n in range(5))
    )
    plot = sideways("dollars", names, series, span(series.points))
    assert [
        each for each in re.findall(r"<text[^>]*>([^<]*)</text>", plot.svg) if each in names
    ] == (names)


def test_plots_take_their_colours_from_the_page_and_nothing_from_elsewhere() -> None:
    series = Series(name="free", colour="series-2", points=(Point(value=2, low=1, high=3), None))
    plots = [
        upright("one", ["a", "b"], [series], (1, 10)),
        sideways("two", ["a", "b"], series, (1, 3), zero=True),
    ]
    for plot in plots:
        assert "var(--series-2)" in plot.svg
        assert not re.search(r"#[0-9a-f]{6}\b|https?:|<style|<metadata", plot.svg)
        assert "free, a: 2.00 (1.00 to 3.00)" in plot.told
    ids = [name for plot in plots for name in re.findall(r' id="([^"]+)"', plot.svg)]
    assert len(ids) == len(set(ids))
