"""How often each rating was given, and in which words conditions and metrics are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmconv.benchmarks.shared.endings import METRICS as ENDINGS
from mmconv.core.types import Score
from mmconv.report.page.views.by_benchmark import run_content, view_of
from mmconv.report.page.views.ratings import Scale, rating_sections
from mmconv.run_folder.saved_run import read_finished
from mmconv.stats import ScoreFrame
from tests.mmconv.report.runs import make_run


def rated(*values: float | None, condition: str = "free", turn: int = 1) -> list[Score]:
    return [
        Score(
            sample=str(number),
            condition=condition,
            metric="rating",
            turn=turn,
            value=value,
            why=None if value is not None else "unparsed",
        )
        for number, value in enumerate(values)
    ]


SCALE = Scale(metric="rating", lowest=1, highest=3, turns={1: "first", 2: "second"})


def test_shares_are_of_the_ratings_that_there_are() -> None:
    scores = [
        *rated(3, 3, 3, 1, None),
        *rated(2, 2, condition="other"),
        *rated(1, condition="other", turn=2),
    ]
    [section] = rating_sections(ScoreFrame(scores), SCALE)
    first, second = section.plots
    assert first.title == "Share of each rating (%), first"
    assert first.told == (
        "free, n = 4 (1 missing), 1: 25.0; free, n = 4 (1 missing), 2: 0.0; "
        "free, n = 4 (1 missing), 3: 75.0; "
        "other, n = 2, 1: 0.0; other, n = 2, 2: 100.0; other, n = 2, 3: 0.0"
    )
    assert second.told == "other, n = 1, 1: 100.0; other, n = 1, 2: 0.0; other, n = 1, 3: 0.0"
    assert section.sentences == ("The rating given most often is 3: 42.9 % of 7.",)
    # a plot of one series has no legend
    assert second.title == "Share of each rating (%), second: other, n = 1"
    # a condition keeps its colour where another is not there
    assert second.legend[0][1] == first.legend[1][1]


def test_a_rating_between_two_counts_for_the_lower_one_and_the_page_says_so() -> None:
    [section] = rating_sections(ScoreFrame(rated(2.5)), SCALE)
    assert "free, n = 1, 2: 100.0" in section.plots[0].told
    assert "counts for the lower one" in section.sentences[0]


def test_without_ratings_there_is_no_section() -> None:
    assert list(rating_sections(ScoreFrame(rated(None)), SCALE)) == []


@pytest.mark.parametrize(
    ("benchmark", "plots"),
    [("convbench", 4), ("mtbench101", 1), ("cmteval", 2), ("fbbench", 0), ("botchat", 0)],
)
async def test_every_metric_is_told_in_words_and_ratings_are_counted(
    benchmark: str, plots: int, tmp_path: Path
) -> None:
    folder = await make_run(benchmark, tmp_path)
    frame = ScoreFrame(read_finished(folder).scores())
    view = view_of(benchmark)
    assert {*frame.distinct("metric")} - {*ENDINGS, *view.labels} == set()
    sections = {section.id: section for section in run_content(folder, {}).view.sections}
    assert len(sections["ratings"].plots if plots else ()) == plots
    assert ("ratings" in sections) == bool(plots)
