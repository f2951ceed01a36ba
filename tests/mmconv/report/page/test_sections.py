"""Behind the overview: how ratings are distributed, heat maps, tables and notes of cells."""

from dataclasses import replace
from pathlib import Path

import pytest

from mmconv.benchmarks.base.endings import METRICS as ENDINGS
from mmconv.benchmarks.options import Display, Ratings, display_of
from mmconv.core.types import Cell, Table
from mmconv.report.page.content import (
    Content,
    cost_table,
    detail_sections,
    rating_sections,
    run_content,
)
from mmconv.report.page.grids import grid, heat_map
from mmconv.run_folder.layout import ModelSummary
from mmconv.run_folder.saved_run import read_finished
from mmconv.stats import ScoreFrame
from tests.mmconv.report.page_runs import simulated_run
from tests.mmconv.report.runs import make_run


@pytest.mark.parametrize(
    ("benchmark", "plots"),
    [("convbench", 4), ("mtbench101", 1), ("cmteval", 2), ("fbbench", 0), ("botchat", 0)],
)
async def test_metrics_have_labels_and_counts(benchmark: str, plots: int, tmp_path: Path) -> None:
    folder = await make_run(benchmark, tmp_path)
    frame = ScoreFrame(read_finished(folder).scores())
    labels = display_of(benchmark).labels
    assert {*frame.distinct("metric")} - {*ENDINGS, *labels} == set()
    sections = [*rating_sections(run_content(folder, {}))]
    assert [len(section.plots) for section in sections] == ([plots] if plots else [])


@pytest.fixture
async def content(tmp_path: Path) -> Content:
    return run_content(await simulated_run(tmp_path), {})


def with_scale(content: Content, **fields: int) -> Content:
    scale = Ratings(metric="rating", lowest=1, highest=10, **fields)  # type: ignore[arg-type]
    return replace(content, display=replace(content.display, ratings=(scale,)))


async def test_shares_are_of_the_ratings_that_there_are(content: Content) -> None:
    frame = ScoreFrame(content.runs[0].scores())
    [section] = rating_sections(with_scale(content, by_turn=1))
    first, second, *_ = section.plots
    given = [
        each for each in frame.select(metric="rating", condition="free", turn=1).values if each
    ]
    sevens = 100 * sum(7 <= each < 8 for each in given) / len(given)
    # a plot of one series has no legend
    assert first.title == f"Share of each rating (%), perception: free, n = {len(given)}"
    assert f", 7: {sevens:.3g}, " in first.words
    # a condition keeps its colour in all plots
    assert second.legend[0] == first.legend[0]
    [sentence] = section.sentences
    assert sentence.startswith("Most frequent rating: ")
    assert first.words.startswith(f"free, n = {len(given)}: rating 1: ")
    [section] = rating_sections(with_scale(content, by_turn=0))
    assert section.plots[0].legend


def test_a_heat_map_shows_sizes_and_marks_small_ones() -> None:
    cells = {
        "direct, free": Cell(value=5.5, n=5),
        "direct, perception": Cell(value=8.0, n=2, missing={"unparsed": 1}),
        "pairwise, free": Cell(value=None, n=0, missing={"unparsed": 3}),
    }
    table = Table(name="groups", title="", columns=(*cells,), rows={"Count": cells})
    display = Display(turns={1: "look"}, labels={"perception": "perfect"})
    grid = heat_map(table, "category", 1, display)
    assert (grid.title, grid.columns) == ("Turn 1, look", ("free", "perfect", "free"))
    assert grid.groups == (("", 1), ("direct", 2), ("pairwise", 1))
    assert (grid.link, [*grid.lines]) == ("category=1:", ["Count"])
    shown = [(c.value, c.size, c.few, c.shade) for c in grid.lines["Count"] if c]
    assert shown == [
        ("5.50", "5", False, 0.0),
        ("8.00", "2/3", True, 1.0),
        ("–", "0/3", False, None),
    ]


async def test_all_tables_are_there_and_shared_notes_once(content: Content) -> None:
    sections = {section.id: section for section in detail_sections(content, {})}
    assert [*sections] == ["ratings", "maps", "losses", "cost", "tables"]
    tables = sections["tables"]
    assert {grid.id for grid in tables.folded} == {table.name for table in content.tables}
    notes = [note for grid in tables.folded for note in grid.notes]
    assert not {*tables.notes} & {*notes}
    assert any(note.startswith("Brackets hold 95 % intervals") for note in tables.notes)


def test_cells_are_rounded_as_elsewhere_and_tell_what_is_missing() -> None:
    table = Table(
        name="t",
        title="",
        columns=("a", "b"),
        rows={
            "x": {"a": Cell(value=0.125, low=-0.5, high=0.5, n=3), "b": Cell(value="word")},
            "y": {"a": Cell(value=None, n=0, missing={"unparsed": 2})},
        },
        signed=True,
    )
    made = grid(table)
    first, words = made.lines["x"]
    assert first is not None
    assert words is not None
    assert (first.value, first.interval, first.counts) == ("+0.13", "−0.50 to +0.50", "n = 3")
    assert words.words
    missing, nothing = made.lines["y"]
    assert missing is not None
    assert (missing.value, missing.why) == ("–", "2 with an unreadable verdict")
    assert made.notes[-1].endswith(": 2 with an unreadable verdict")
    assert nothing is None


def test_numbers_of_tokens_have_separators_and_a_price_is_not_made_up() -> None:
    role = ModelSummary.model_validate(
        dict.fromkeys(ModelSummary.model_fields, 0)
        | {"model": "m", "failures": {}, "cost_usd": None, "total_cost_usd": None}
        | {"total_input_tokens": 5723795}
    )
    cells = grid(cost_table({"judge": role})).lines["judge"]
    assert "5,723,795" in [cell.value for cell in cells if cell]
    untold = role.model_copy(update={"requested": 3, "cached": 2, "total_unmetered": 4})
    for each, message in (
        (role, "price not set"),
        (untold, "price unknown: 4 of 5 calls without token counts"),
    ):
        cells = grid(cost_table({"judge": each})).lines["judge"]
        assert message in [cell.value for cell in cells if cell]
