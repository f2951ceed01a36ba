"""The macro means over tasks, by hand."""

from collections.abc import Iterator

import pytest

from mmconv.benchmarks.base.layouts import Context, make_tables
from mmconv.core.types import Score, Table
from mmconv.stats import ScoreFrame
from tests.mmconv.benchmarks.fbbench.samples import without_data

EC, RM = "Error Correction", "Response Maintenance"
Z, T_4 = 1.959963984540054, 2.7764451051977987
"""The 97.5 % quantiles: the normal one, and that of Student's t with 4 degrees of freedom."""


def scores(
    scenario: str, task: str, *values: float | None, feedback: str = "Misinformation"
) -> Iterator[Score]:
    for number, value in enumerate(values):
        for metric in ("score", "authors"):
            yield Score(
                sample=f"{scenario}/{task}/{feedback}/{number}",
                condition="preset",
                metric=metric,
                tags={
                    "scenario": scenario,
                    "task": task,
                    "subtask": f"{task} 1",
                    "feedback": feedback,
                },
                value=value,
                why="unparsed" if value is None else None,
            )


def made(*columns: Iterator[Score]) -> dict[str, Table]:
    return tables_of(ScoreFrame(score for column in columns for score in column))


def tables_of(frame: ScoreFrame) -> dict[str, Table]:
    context = Context(candidate="m", judge="j")
    benchmark = without_data()
    tables = make_tables(benchmark.layouts(), [*benchmark.metrics()], {"m": frame}, context)
    return {table.name: table for table in tables}


def test_scores_are_means_of_task_means_and_overall_of_all_cells() -> None:
    tables = made(
        scores(EC, "Coding", 1.0, 0.0, 0.5, 0.5),
        scores(EC, "Reasoning", 0.2),
        scores(RM, "Coding", 1.0, 1.0, 0.0),
    )
    row = tables["scores"].rows["m"]
    assert row["authors: error correction"].value == 35.0
    assert row["authors: response maintenance"].value == 66.67
    assert row["authors: overall"].value == 45.56
    assert row["error correction"].value == pytest.approx(35.0)
    assert row["overall"].value == pytest.approx(100 * (0.5 + 0.2 + 2 / 3) / 3)
    assert (row["overall"].n, row["authors: overall"].n) == (8, 8)


def test_tasks_stand_in_the_papers_order_with_blank_cells_where_there_are_no_samples() -> None:
    tables = made(scores(RM, "Coding", 1.0, 0.0), scores(EC, "Mathematics", 0.5, 0.1))
    assert list(tables["tasks"].rows) == ["Mathematics", "Coding"]
    row = tables["tasks"].rows["Coding"]
    assert "error correction" not in row
    assert row["response maintenance"].value == row["overall"].value == 50.0
    assert list(tables["subtasks"].rows) == ["Mathematics / Mathematics 1", "Coding / Coding 1"]


def test_a_sample_counts_for_each_of_its_types() -> None:
    tables = made(
        scores(EC, "Coding", 1.0, 0.0, feedback="Clarifying Intent; Simple Questioning"),
        scores(EC, "Reasoning", 0.4, feedback="Simple Questioning"),
        scores(RM, "Reasoning", 1.0, feedback="Simple Questioning"),
        scores(RM, "Reasoning", 0.0, feedback="Questioning"),
    )
    rows = tables["feedback"].rows
    assert rows["Questioning"]["authors: response maintenance"].value == 0.0
    assert rows["Clarifying Intent"]["authors: error correction"].value == 50.0
    assert rows["Simple Questioning"]["authors: error correction"].value == 45.0
    assert rows["Simple Questioning"]["authors: response maintenance"].value == 100.0
    halves = ("error correction", "authors: error correction")
    assert tuple(rows["Clarifying Intent"]) == halves


def test_what_is_missing_is_counted_and_a_mean_of_nothing_is_none() -> None:
    tables = made(scores(EC, "Coding", 1.0, None), scores(EC, "Reasoning", None))
    row = tables["scores"].rows["m"]
    assert row["error correction"].value is None
    assert row["error correction"].missing == {"unparsed": 2}
    # The authors leave out what has no judgement, and then the empty cell.
    assert row["authors: error correction"].value == 100.0
    assert row["authors: error correction"].missing == {"unparsed": 2}


HALFWAY = (0.3, 0.05, 1.0, 0.45, 0.45, 0.2, 0.5, 0.2)
"""Their mean is 0.39375; added one by one, or in exact arithmetic, they end on either side."""


def test_the_authors_sums_are_exact_and_rounded_and_ours_is_in_full() -> None:
    running = 0.0
    for value in HALFWAY:
        running += value
    assert round(running / len(HALFWAY), 4) == 0.3938
    row = made(scores(EC, "Coding", *HALFWAY))["scores"].rows["m"]
    assert row["authors: error correction"].value == 39.37
    assert row["error correction"].value == pytest.approx(39.375, rel=1e-12)
