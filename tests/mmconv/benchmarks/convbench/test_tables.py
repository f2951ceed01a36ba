"""The paper's quantities, the authors' convention and the attribution, on scores made by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from mmconv.benchmarks.convbench.attribution import Blame, blames
from mmconv.benchmarks.convbench.official import OFFICIAL, Convention
from mmconv.benchmarks.convbench.quantities import DIRECT, PAIRWISE, difference
from mmconv.benchmarks.convbench.tables import Layout, build_tables
from mmconv.stats import Column, ScoreFrame
from mmconv.values import Score, Table

LAYOUT = Layout(
    candidate="cand",
    judge="judge",
    official=Convention(denominator=577, rows=3),
    failure_rating=6.0,
)

RATINGS: dict[tuple[str, int], list[int | None]] = {
    ("free", 1): [4, 6, 8],
    ("free", 2): [2, 6, None],
    ("free", 3): [3, 9, 3],
    ("free", 0): [4, 8, 6],
    ("perception", 2): [7, 6, 5],
    ("perception", 3): [3, 9, 8],
    ("perception", 0): [5, 8, 8],
    ("reasoning", 3): [9, 9, 9],
    ("reasoning", 0): [6, 9, 9],
}
"""(condition, turn) -> ratings of samples 1 to 3."""


def scores() -> Iterator[Score]:
    for (condition, turn), values in RATINGS.items():
        for sample, value in enumerate(values, start=1):
            for metric in ("rating", "win"):
                number = None if value is None else float(value)
                if metric == "win" and number is not None:
                    number = float(number >= 6)
                yield Score(
                    sample=str(sample),
                    condition=condition,
                    metric=metric,
                    turn=turn,
                    tags={"cluster": "same" if sample > 1 else "own", "category": f"c{sample % 2}"}
                    | ({"side": "AB"[sample % 2]} if metric == "win" else {}),
                    value=number,
                    why="unparsed" if value is None else None,
                )


@pytest.fixture(scope="module")
def tables() -> dict[str, Table]:
    return {table.name: table for table in build_tables(scores(), LAYOUT)}


def value(table: Table, row: str, column: str) -> float:
    found = table.rows[row][column].value
    assert isinstance(found, float)
    return found


def test_scores_are_means_over_what_is_scored(tables: dict[str, Table]) -> None:
    table = tables["scores"]
    assert value(table, "S1", DIRECT.title) == 6.0
    assert value(table, "S2", DIRECT.title) == 4.0
    assert table.rows["S2"][DIRECT.title].n == 2
    assert table.rows["S2"][DIRECT.title].missing == {"unparsed": 1}
    assert value(table, "R2", DIRECT.title) == pytest.approx((6 + 4 + 5) / 3)
    assert value(table, "R1", DIRECT.title) == pytest.approx(((6 + 4 + 5) / 3 + 6) / 2)
    assert value(table, "S1", PAIRWISE.title) == pytest.approx(200 / 3)


def test_the_authors_count_what_is_unscored_as_lost(tables: dict[str, Table]) -> None:
    table = tables["scores"]
    assert value(table, "S1", OFFICIAL) == pytest.approx(100 * 2 / 577)
    assert value(table, "S2", OFFICIAL) == pytest.approx(100 * 1 / 577)
    assert value(table, "R2", OFFICIAL) == pytest.approx(100 * (2 + 1 + 1) / 3 / 577)
    assert value(tables["deltas"], "S2_hat - S2", OFFICIAL) == pytest.approx(100 * 1 / 577)


def test_several_trials_have_several_times_the_constant() -> None:
    again = [replace(score, sample=f"{score.sample}#2") for score in scores()]
    layout = replace(LAYOUT, official=replace(LAYOUT.official, trials=2))
    made = {table.name: table for table in build_tables([*scores(), *again], layout)}
    assert value(made["scores"], "S1", OFFICIAL) == pytest.approx(100 * 2 / 577)
    assert value(made["deltas"], "S2_hat - S2", OFFICIAL) == pytest.approx(100 * 1 / 577)
    note = "authors (%): wins over 577 in each of 2 trials; what is unscored counts as lost."
    assert made["scores"].notes[0] == note


def test_a_part_of_the_rows_has_no_rate_by_the_authors() -> None:
    layout = replace(LAYOUT, official=replace(LAYOUT.official, rows=578))
    made = {table.name: table for table in build_tables(scores(), layout)}
    for name in ("scores", "deltas"):
        assert OFFICIAL not in made[name].columns
        assert all(OFFICIAL not in row for row in made[name].rows.values())
    note = "authors (%) is left out: its constant counts all 578 rows, of which this run has 3."
    assert made["scores"].notes[0] == note


def test_intervals_of_deltas_end_where_the_scale_does() -> None:
    start, goal = Column.of([1.0, 1.0, 1.0, 10.0, 1.0]), Column.of([10.0, 10.0, 10.0, 1.0, 10.0])
    found = difference(DIRECT, start, goal)
    assert found.mean == pytest.approx(5.4)
    assert found.high == 9.0
    assert found.low is not None
    assert -9 < found.low < 0


def test_deltas_are_paired(tables: dict[str, Table]) -> None:
    cell = tables["deltas"].rows["S2_hat - S2"][DIRECT.title]
    assert cell.value == pytest.approx((5 + 0) / 2)
    assert cell.n == 2
    assert cell.missing == {"unpaired: unparsed": 1}
    assert value(tables["deltas"], "S3_tilde - S3_hat", DIRECT.title) == pytest.approx(7 / 3)


def test_failures_are_laid_to_the_first_level_that_mends_them() -> None:
    found = list(blames(ScoreFrame(scores()), DIRECT, 6.0))
    assert found == [
        Blame(sample="1", cluster="own", level="creation", laid_to="reasoning"),
        Blame(sample="3", cluster="same", level="creation", laid_to="perception"),
        Blame(sample="1", cluster="own", level="reasoning", laid_to="perception"),
    ]


def test_without_an_ablation_a_failure_is_laid_to_nobody() -> None:
    free = ScoreFrame(score for score in scores() if score.condition == "free")
    assert {blame.laid_to for blame in blames(free, DIRECT, 6.0)} == {None}
    assert {blame.why for blame in blames(free, DIRECT, 6.0)} == {
        "no score with perfect perception"
    }


def test_shares_and_the_samples_behind_them(tables: dict[str, Table]) -> None:
    row = tables["attribution"].rows["creation failed: laid to reasoning"]
    assert row["direct failures"].value == 50.0
    assert row["direct failures"].n == 2
    behind = tables["attribution_samples"].rows["direct/creation/3"]
    assert behind["laid to"].value == "perception"


def test_categories_are_those_of_the_turn(tables: dict[str, Table]) -> None:
    rows = tables["categories_perception"].rows
    assert rows["c1"]["direct, free"].value == 6.0
    assert rows["c1"]["direct, free"].n == 2
    assert rows["c0"]["direct, free"].value == 6.0
    assert "direct, perception" not in rows["c0"]
    assert value(tables["categories_reasoning"], "c1", "direct, perception") == 6.0


def test_position_bias_is_the_win_rate_on_either_side(tables: dict[str, Table]) -> None:
    rows = tables["position"].rows
    assert rows["perception"]["win rate as A (%)"].value == 100.0
    assert rows["perception"]["win rate as B (%)"].value == 50.0


def test_the_papers_layout_has_one_row(tables: dict[str, Table]) -> None:
    [row] = tables["paper_direct"].rows.values()
    assert list(row)[:4] == ["R1", "R2", "S1", "S2"]
    assert "S3_tilde - S3_hat" in row
