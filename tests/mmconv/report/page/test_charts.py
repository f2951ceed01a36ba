"""Charts: which numbers a page opens with, of one run and of several."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmconv.benchmarks.shared.options import Display, display_of
from mmconv.core.types import Cell, Table
from mmconv.report.comparison.differences import compare
from mmconv.report.page.charts import MOST_LINES, STAR, run_charts
from mmconv.report.page.content import comparison_content, run_content
from tests.mmconv.report.page_runs import simulated_run
from tests.mmconv.report.runs import ALPHA, BETA, make_run

SCORE = Cell(value=7.0, low=6.0, high=8.0, n=12)
PLAIN = Display()


def table(rows: dict[str, dict[str, Cell]], **fields: object) -> Table:
    columns = dict.fromkeys(column for row in rows.values() for column in row)
    return Table(name="scores", title="Scores", columns=(*columns,), rows=rows, **fields)  # type: ignore[arg-type]


async def test_a_run_has_places_for_turns_and_colours_for_conditions(tmp_path: Path) -> None:
    content = run_content(await simulated_run(tmp_path), {})
    direct, pairwise, gains, _ = content.charts
    assert [direct.title, pairwise.title] == ["direct (1-10)", "pairwise win rate (%)"]
    assert direct.places == ["R1", "R2", "perception", "reasoning", "creation", "overall"]
    assert direct.series == ["free", "perfect perception", "perfect reasoning"]
    assert (
        direct.cells["creation", "perfect reasoning"]
        == (content.tables[0].rows["S3_tilde"]["direct (1-10)"])
    )
    assert gains.places == ["reasoning", "creation", "overall"]
    # a condition has one colour in all pictures
    assert set(gains.plot().legend) < set(direct.plot().legend)
    assert 'class="zero"' in gains.plot().svg
    assert 'class="zero"' not in direct.plot().svg
    assert all(plot.svg for plot in content.overview.plots)
    assert len(content.findings) <= 3


def test_a_single_row_is_drawn_by_its_columns_and_conventions_without_intervals_are_not() -> None:
    row = {"correction": SCORE, "overall": SCORE, "authors: overall": Cell(value=70.0)}
    [chart] = run_charts([table({"alpha": row})], PLAIN, "alpha")
    assert (chart.places, chart.series) == (["correction", "overall"], ["alpha"])


def test_columns_of_one_unit_share_a_picture() -> None:
    row = {"IS": SCORE, "Adp": SCORE, "won (%)": SCORE}
    rows = {"alpha, hard": row, "alpha, easy": row}
    first, second = run_charts([table(rows)], PLAIN, "alpha")
    assert (first.places, first.series) == (["hard", "easy"], ["IS", "Adp"])
    assert second.series == ["won (%)"]


def test_numbers_without_any_interval_are_drawn_hollow() -> None:
    [chart] = run_charts([table({"a": {"x": Cell(value=5.0, n=3)}})], PLAIN, "alpha")
    assert chart.is_drawn
    assert run_charts([table({"a": {"x": Cell(value="word")}})], PLAIN, "alpha") == []


def test_a_long_table_has_no_picture_and_says_how_much_it_leaves_out() -> None:
    [chart] = run_charts([table({str(n): {"x": SCORE} for n in range(40)})], PLAIN, "alpha")
    assert not chart.is_drawn
    grid = chart.grid()
    assert (len(grid.lines), grid.more) == (MOST_LINES, 40 - MOST_LINES)


def test_a_compact_table_has_the_digits_that_its_intervals_support() -> None:
    wide = {"a": {"x": Cell(value=80.0, low=27.05, high=100.0, n=12)}}
    narrow = {"a": {"x": Cell(value=9.05, low=8.65, high=9.45, n=12)}}
    shown = []
    for rows in (wide, narrow):
        [chart] = run_charts([table(rows)], PLAIN, "alpha")
        [cell] = chart.grid().lines[0].cells
        assert cell is not None
        shown.append((cell.value, cell.interval))
    assert shown == [("80", "27 to 100"), ("9.05", "8.65 to 9.45")]


async def test_several_runs_have_a_colour_each_and_significant_differences_a_star(
    tmp_path: Path,
) -> None:
    runs = [await simulated_run(tmp_path, *each) for each in (("sharp", 0.1), ("blurred", 0.9))]
    comparison = compare(runs)
    content = comparison_content(comparison, {})
    direct, _, differences, _ = content.charts
    assert direct.series == ["sharp", "blurred"]
    assert "creation, perfect reasoning" in direct.places
    assert differences.series == ["blurred"]
    starred = {line.name for line in differences.grid().lines if STAR in str(line.cells)}
    assert starred == {
        content.display.name_row(row)
        for row, column in comparison.significant
        if column == "direct (1-10)" and row in comparison.tables[1].rows
    }
    assert [grid.title for grid in content.overview.folded] == [
        "pairwise win rate (%)",
        "pairwise win rate (%): difference from sharp",
    ]


@pytest.mark.parametrize("benchmark", ["fbbench", "cmteval", "mtbench101", "botchat"])
async def test_every_benchmark_s_pages_open_with_a_picture(benchmark: str, tmp_path: Path) -> None:
    runs = [await make_run(benchmark, tmp_path, each) for each in (ALPHA, BETA)]
    alone, both = run_content(runs[0], {}), comparison_content(compare(runs), {})
    for content in (alone, both):
        assert content.overview.plots
        assert content.overview.grids
        assert len(content.findings) <= 3
    assert display_of(benchmark) is both.display


async def test_many_runs_are_places_instead_of_colours(tmp_path: Path) -> None:
    models = [ALPHA.model_copy(update={"name": f"m{number}"}) for number in range(6)]
    runs = [await make_run("fbbench", tmp_path, model, limit=2) for model in models]
    first, *_ = comparison_content(compare(runs), {}).charts
    assert first.places == [model.name for model in models]
    assert first.is_drawn
