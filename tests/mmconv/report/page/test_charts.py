"""Charts: the first numbers of a page, of one run and of several, and how they are drawn."""

import re
from pathlib import Path

import pytest

from mmconv.benchmarks.options import Display, display_of
from mmconv.core.types import Cell, Table
from mmconv.report.comparison.differences import compare
from mmconv.report.page.charts import HOLLOW, MOST_LINES, Chart, Plot, run_charts
from mmconv.report.page.content import comparison_content, run_content
from mmconv.report.page.grids import STAR
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
    assert set(gains.dots().legend) < set(direct.dots().legend)
    assert 'class="zero"' in gains.dots().svg
    assert 'class="zero"' not in direct.dots().svg
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
        [[cell]] = chart.grid().lines.values()
        assert cell is not None
        shown.append((cell.value, cell.interval))
    assert shown == [("80", "27 to 100"), ("9.05", "8.65 to 9.45")]


async def test_runs_have_a_colour_each_and_significant_differences_a_star(
    tmp_path: Path,
) -> None:
    runs = [await simulated_run(tmp_path, *each) for each in (("sharp", 0.1), ("blurred", 0.9))]
    comparison = compare(runs)
    content = comparison_content(comparison, {})
    direct, _, differences, _ = content.charts
    assert direct.series == ["sharp", "blurred"]
    assert "creation, perfect reasoning" in direct.places
    assert differences.series == ["blurred"]
    starred = {name for name, cells in differences.grid().lines.items() if STAR in str(cells)}
    assert starred == {
        content.display.name_row(each.row)
        for each in comparison.differences
        if each.is_significant and each.column == "direct (1-10)" and each.quantity.kind == "score"
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


def drawn(*cells: Cell, places: tuple[str, ...] = ("a", "b", "c"), signed: bool = False) -> Chart:
    """A chart of one series."""
    at = zip(((place, "free") for place in places), cells, strict=False)
    return Chart("Title", table({}, signed=signed), {"free": "series-2"}, dict(at))


def interval(value: float, low: float, high: float) -> Cell:
    return Cell(value=value, low=low, high=high)


def texts(plot: Plot, anchor: str) -> list[str]:
    return re.findall(rf'text-anchor="{anchor}">([^<]*)<', plot.svg)


def test_a_number_without_an_interval_is_hollow_and_the_caption_says_so() -> None:
    both = drawn(interval(2.0, 1.0, 3.0), Cell(value=2.0)).dots()
    assert (both.note, drawn(interval(2.0, 1.0, 3.0)).dots().note) == (HOLLOW, "")
    fills = re.findall(r"<circle [^>]*style=\"fill:([^;\"]*)", both.svg)
    assert fills == ["var(--series-2)", "none"]
    assert both.words == "free, a: 2.00 (1.00 to 3.00); free, b: 2.00"


def test_a_dot_is_at_its_value_between_the_ticks() -> None:
    svg = drawn(interval(2.0, 1.0, 3.0)).dots().svg
    x = {text: float(at) for at, text in re.findall(r'<text x="([\d.]+)"[^>]*>([^<]*)<', svg)}
    [centre] = re.findall(r'cx="([\d.]+)"', svg)
    [ends] = re.findall(r'class="interval-line" x1="([\d.]+)" x2="([\d.]+)"', svg)
    assert [float(centre), *map(float, ends)] == [x["2.0"], x["1.0"], x["3.0"]]


def test_a_long_name_is_in_lines_and_never_markup() -> None:
    name = "Llama-3.2-11B-Vision-Instruct, " + "\N{CJK UNIFIED IDEOGRAPH-4E2D}" * 20
    assert texts(drawn(Cell(value=2.0), places=(name,)).dots(), "end") == [
        "Llama-3.2-11B-Vision-",
        "Instruct,",
        "\N{CJK UNIFIED IDEOGRAPH-4E2D}" * 13,
        "\N{CJK UNIFIED IDEOGRAPH-4E2D}" * 7,
    ]
    evil = drawn(Cell(value=2.0), places=("<script> & $x$",)).dots()
    assert texts(evil, "end") == ["&lt;script&gt; &amp; $x$"]
