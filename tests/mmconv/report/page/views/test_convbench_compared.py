"""Several runs of ConvBench on one page: their scores side by side, as a table and as plots."""

from __future__ import annotations

from pathlib import Path

from mmconv.benchmarks.convbench.quantities import DIRECT, PAIRWISE
from mmconv.core.types import Cell, Table
from mmconv.report.comparison.differences import compare
from mmconv.report.page import write_comparison
from mmconv.report.page.views.by_benchmark import comparison_content
from mmconv.report.page.views.convbench import run_plots
from mmconv.report.tables.convbench_names import MARK, RAISED
from tests.mmconv.report.runs import ALPHA, BETA, make_run

HIGHEST = Cell(value=9.0, low=8.0, high=10.0, n=12)


def scores(*names: str, grading: str = DIRECT.title) -> Table:
    rows = {name: {grading: HIGHEST} for name in names}
    return Table(name="scores", title="", columns=(grading,), rows=rows)


async def test_scores_of_several_runs_have_a_line_each_and_plots(tmp_path: Path) -> None:
    third = ALPHA.model_copy(update={"name": "third"})
    comparison = compare(
        [await make_run("convbench", tmp_path, each) for each in (ALPHA, BETA, third)]
    )
    sections = {each.id: each for each in comparison_content(comparison, {}).view.sections}
    section = sections["scores"]
    [direct, *_] = section.grids
    assert [line.name for line in direct.lines] == ["alpha", "beta", "third"]
    assert {"R1", "S0", "S\u03022", f"S\u03020 \u2212 S0 {MARK}"} <= {*direct.columns}
    assert RAISED in direct.notes
    assert [each.id for each in section.folded] == ["scores"]
    [first, *_] = section.plots
    assert (first.title, [name for name, _ in first.legend]) == (
        "direct (1-10), free",
        ["alpha", "beta", "third"],
    )
    page = write_comparison(tmp_path / "comparison.html", comparison).read_text(encoding="utf-8")
    assert page.count('id="scores"') == 1
    assert page.index("direct (1-10), free") < page.index('id="differences"')


async def test_of_two_runs_the_differences_stand_first(tmp_path: Path) -> None:
    runs = [await make_run("convbench", tmp_path, each) for each in (ALPHA, BETA)]
    sections = comparison_content(compare(runs), {}).view.sections
    ids = [each.id for each in sections]
    assert ids.index("differences") < ids.index("scores")
    [scores] = [each for each in sections if each.id == "scores"]
    assert [name for name, _ in scores.plots[0].legend] == ["alpha", "beta"]


def test_a_plot_has_the_runs_that_have_its_condition() -> None:
    free, both = scores("S1", "S0"), scores("S1", "S0", "S2_hat")
    plots = list(
        run_plots({"one": free, "two": both, "three": scores("S1", grading=PAIRWISE.title)})
    )
    assert [(each.title, [name for name, _ in each.legend]) for each in plots] == [
        ("direct (1-10), free", ["one", "two"]),
        ("direct (1-10), perfect perception", ["two"]),
        ("pairwise win rate (%), free", ["three"]),
    ]
    # a run keeps its colour in all of them
    assert plots[0].legend[1] == plots[1].legend[0]
    assert "two, perception: 9.00 (8.00 to 10.00)" in plots[0].told


def test_more_runs_than_colours_are_not_plotted() -> None:
    runs = {str(number): scores("S1") for number in range(6)}
    assert not [*run_plots(runs)]
    del runs["5"]
    [plot] = run_plots(runs)
    assert len({colour for _, colour in plot.legend}) == 5
