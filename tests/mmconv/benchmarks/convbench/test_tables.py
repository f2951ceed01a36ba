"""The paper's quantities, the authors' convention and the attribution, on scores made by hand."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from mmconv.benchmarks.ablations.metrics import Courses
from mmconv.benchmarks.base.layouts import Context, make_tables
from mmconv.benchmarks.base.metrics import (
    LARGEST_WIDTH,
    Delta,
    Mean,
    Ratio,
    Select,
    Together,
    quantities,
)
from mmconv.benchmarks.convbench.layouts import LOST_TURNS, SCORED, UNSHOWN, layouts
from mmconv.benchmarks.convbench.metrics import DIRECT, OFFICIAL, PAIRWISE, Convention, metrics
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.types import Score, Table
from mmconv.report.tables.formats import to_markdown
from mmconv.stats import Column, Quantity, ScoreFrame, contrast, summarise
from tests.mmconv.benchmarks.convbench.rows import options

SPEC = RunSpec(
    benchmark="convbench",
    models={"candidate": ModelSpec(provider="fake", model="echo", name="cand")},
)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What tables depend on besides the scores."""

    official: Convention
    options: Mapping[str, Any] = field(default_factory=dict)


CONTEXT = Setting(official=Convention(denominator=577, rows=3, samples=3))


def build_tables(scores: Iterable[Score], setting: Setting) -> dict[str, Table]:
    context = Context(candidate="cand", judge="judge")
    chosen = options(**setting.options)
    arranged = layouts(chosen, setting.official)
    measured = [*metrics(chosen, setting.official)]
    made = make_tables(arranged, measured, {"cand": ScoreFrame(scores)}, context)
    return {table.name: table for table in made}


def compared_quantities(frame: ScoreFrame, spec: RunSpec) -> Iterator[Quantity]:
    return quantities(metrics(options(**spec.options)), frame)


ALL_FAILURES = DIRECT.bounds.title

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
    return build_tables(scores(), CONTEXT)


def value(table: Table, row: str, column: str) -> float:
    found = table.rows[row][column].value
    assert isinstance(found, float)
    return found


def test_scores_are_means_over_what_is_scored(tables: dict[str, Table]) -> None:
    table = tables["scores"]
    assert value(table, "S1", DIRECT.group.title) == 6.0
    assert value(table, "S2", DIRECT.group.title) == 4.0
    assert table.rows["S2"][DIRECT.group.title].n == 2
    assert table.rows["S2"][DIRECT.group.title].missing == {"unparsed": 1}
    assert value(table, "R2", DIRECT.group.title) == pytest.approx((6 + 4 + 5) / 3)
    assert value(table, "R1", DIRECT.group.title) == pytest.approx(((6 + 4 + 5) / 3 + 6) / 2)
    assert value(table, "S1", PAIRWISE.group.title) == pytest.approx(200 / 3)


def won(sample: str, condition: str, turn: int, side: str, value: float | None) -> Score:
    why = "unparsed" if value is None else None
    score = Score(sample=sample, condition=condition, metric="win", turn=turn, value=value, why=why)
    return replace(score, tags={"side": side})


def rated(ratings: dict[tuple[str, int, str], float]) -> list[Score]:
    """The scores with other ratings in these conditions, turns and samples."""
    return [
        replace(score, value=ratings[key], why=None) if key in ratings else score
        for score in scores()
        if score.metric == "rating"
        for key in [(score.condition, score.turn or 0, score.sample)]
    ]


def test_r1_and_r2_are_over_the_samples_that_they_count() -> None:
    """S2 is missing in sample 3; whatever its other scores are, it is not part of R1 and R2."""
    given = rated({("free", 1, "3"): 10, ("free", 0, "3"): 1})
    table = build_tables(given, CONTEXT)["scores"]
    found = {name: table.rows[name][DIRECT.group.title] for name in ("R1", "R2", "S1")}
    # samples 1 and 2: R2 is 3 and 7, S0 4 and 8
    assert {name: cell.n for name, cell in found.items()} == {"R1": 2, "R2": 2, "S1": 3}
    assert found["R2"].value == pytest.approx((3 + 7) / 2)
    assert found["R1"].value == pytest.approx(((3 + 4) / 2 + (7 + 8) / 2) / 2)
    for quantity in compared_quantities(ScoreFrame(given), SPEC):
        if quantity.name in found:
            [column] = quantity.columns.values()
            assert summarise(column).mean == pytest.approx(found[quantity.name].value)
            assert summarise(column).n == found[quantity.name].n


def test_a_sample_without_any_row_in_a_part_is_missing() -> None:
    given = [score for score in scores() if (score.sample, score.turn) != ("1", 3)]
    column = Together((Select("rating", turn=1), Select("rating", turn=3)))(ScoreFrame(given))
    assert dict(zip(column.samples, column.reasons, strict=True))["1"] == "not scored"
    assert column.present.tolist() == [False, True, True]


def test_runs_are_compared_in_r1_and_r2_over_the_samples_that_are_counted() -> None:
    left = rated({("free", 0, "1"): 5})
    right = rated(
        {("free", 1, "1"): 7, ("free", 3, "2"): 3, ("free", 0, "2"): 6, ("free", 1, "3"): 1}
    )
    quantities = [
        {each.name: each for each in compared_quantities(ScoreFrame(run), SPEC)}
        for run in (left, right)
    ]
    # sample 1: R2 from 3 to 4, S0 from 5 to 4; sample 2: R2 from 7 to 5, S0 from 8 to 6
    for name, changes in {"R2": (1, -2), "R1": (0, -2)}.items():
        before, after = (each[name] for each in quantities)
        summary = contrast(before, after, ("left", "right")).summary
        assert summary.mean == pytest.approx(sum(changes) / 2)
        assert summary.n == 2
        assert summary.missing == {"unpaired: left: unparsed": 1}


def test_the_authors_count_what_is_unscored_as_lost(tables: dict[str, Table]) -> None:
    table = tables["scores"]
    assert value(table, "S1", OFFICIAL) == pytest.approx(100 * 2 / 577)
    assert value(table, "S2", OFFICIAL) == pytest.approx(100 * 1 / 577)
    assert value(table, "R2", OFFICIAL) == pytest.approx(100 * (2 + 1 + 1) / 3 / 577)
    assert value(tables["deltas"], "S2_hat - S2", OFFICIAL) == pytest.approx(100 * 1 / 577)


def test_several_trials_have_several_times_the_constant() -> None:
    again = [replace(score, sample=f"{score.sample}#2") for score in scores()]
    context = replace(CONTEXT, official=replace(CONTEXT.official, trials=2))
    made = build_tables([*scores(), *again], context)
    assert value(made["scores"], "S1", OFFICIAL) == pytest.approx(100 * 2 / 577)
    assert value(made["deltas"], "S2_hat - S2", OFFICIAL) == pytest.approx(100 * 1 / 577)
    note = "authors (%): wins over 577 in each of 2 trials; what is unscored counts as lost."
    assert made["scores"].notes[0] == note


def _given(column: Column, _: ScoreFrame) -> Column:
    return column


def test_intervals_of_deltas_end_where_the_scale_does() -> None:
    start, goal = Column.of([1.0, 1.0, 1.0, 10.0, 1.0]), Column.of([10.0, 10.0, 10.0, 1.0, 10.0])
    ends = [Mean("end", of=partial(_given, each), group=DIRECT.group) for each in (start, goal)]
    found = Delta("delta", start=ends[0], goal=ends[1], group=DIRECT.group).measure(ScoreFrame([]))
    assert found is not None
    assert found.value == pytest.approx(5.4)
    assert found.high == 9.0
    assert found.low is not None
    assert -9 < found.low < 0


def test_deltas_are_paired(tables: dict[str, Table]) -> None:
    cell = tables["deltas"].rows["S2_hat - S2"][DIRECT.group.title]
    assert cell.value == pytest.approx((5 + 0) / 2)
    assert cell.n == 2
    assert cell.missing == {"unpaired: unparsed": 1}
    assert value(tables["deltas"], "S3_tilde - S3_hat", DIRECT.group.title) == pytest.approx(7 / 3)


def test_failures_are_attributed_to_the_first_level_that_mends_them() -> None:
    found = [
        (each.sample, each.cluster, level, each.cause, each.reason)
        for level in ("creation", "reasoning")
        for each in Courses(grading=DIRECT, level=level)(ScoreFrame(scores()))
        if each.passed[0] is False
    ]
    assert found == [
        ("1", "own", "creation", "reasoning", None),
        ("3", "same", "creation", "perception", None),
        ("1", "own", "reasoning", "perception", None),
    ]


@pytest.mark.parametrize(
    ("conditions", "levels"),
    [
        (("free",), set()),
        (("free", "perception"), {"reasoning"}),
        (("free", "reasoning"), set()),
        (("perception", "reasoning"), set()),
        (("free", "perception", "reasoning"), {"creation", "reasoning"}),
    ],
)
def test_failures_are_laid_by_conditions(conditions: tuple[str, ...], levels: set[str]) -> None:
    asked = [score for score in scores() if score.condition in conditions]
    made = build_tables(asked, CONTEXT)
    rows = made["attribution_net"].rows if "attribution_net" in made else {}
    assert {row.split()[0] for row in rows} == levels
    behind = made["attribution_samples"].rows if levels else {}
    assert {row.split("/")[1] for row in behind} == levels
    assert ("attribution_samples" in made) == bool(levels)


def test_the_failures_that_can_be_followed_are_counted() -> None:
    """Sample 3 fails; perfect perception mends it, but what perfect reasoning does is lost."""
    lost = [
        replace(score, value=None, why="unparsed")
        if (score.sample, score.condition, score.turn) == ("3", "reasoning", 3)
        else score
        for score in scores()
    ]
    made = build_tables(lost, CONTEXT)
    table = made["attribution_net"]
    assert SCORED in table.notes
    cells = [row[ALL_FAILURES] for row in table.rows.values()]
    assert [cell.n for cell in cells] == [1, 1, 1, 1, 1]
    missing = {"no score with perfect reasoning": 1}
    assert [cell.missing for cell in cells] == [missing, missing, missing, {}, {}]
    assert {cell.value for cell in cells} == {None}
    behind = made["attribution_samples"].rows
    assert {name: cell.value for name, cell in behind["direct/creation/3"].items()} == {
        "attributed to": "perception",
        "in the shares": "no: no score with perfect reasoning",
    }
    assert behind["direct/creation/1"]["in the shares"].value == "yes"
    shares = [
        row["in the shares"].value for name, row in behind.items() if "direct/creation" in name
    ]
    assert shares.count("yes") == table.rows["creation failed: due to creation"][ALL_FAILURES].n


@pytest.mark.parametrize(
    ("failed", "mended", "spoiled", "shown"),
    [
        (4, 4, 0, False),  # too few
        (5, 3, 0, False),  # no interval
        (10, 6, 9, False),  # an interval of more than 150 points
        (10, 6, 1, True),
    ],
)
def test_net_shares_need_an_interval(failed: int, mended: int, spoiled: int, shown: bool) -> None:
    """Of 60 samples some fail reasoning, and perfect perception mends some and spoils others."""
    ratings = [
        Score(
            sample=str(place),
            condition=condition,
            metric="rating",
            turn=2,
            value=9.0 if passed else 1.0,
            tags={"cluster": str(place)},
        )
        for place in range(60)
        for condition, passed in (
            ("free", place >= failed),
            ("perception", place < mended or failed <= place < 60 - spoiled),
        )
    ]
    made = build_tables(ratings, CONTEXT)["attribution_net"]
    cells = [row[ALL_FAILURES] for row in made.rows.values()]
    assert [cell.n for cell in cells] == [failed, failed]
    for cell in cells:
        assert (cell.value is not None, cell.low is not None, cell.high is not None) == (shown,) * 3
    assert UNSHOWN in made.notes
    frame = ScoreFrame(ratings)
    shares = [each.summarise(frame) for each in metrics(options()) if isinstance(each, Ratio)]
    widths = [
        None if each.low is None else (each.high or 0) - each.low for each in filter(None, shares)
    ]
    assert all(width is not None and width <= LARGEST_WIDTH for width in widths) == shown


@pytest.mark.parametrize("why", ["skipped: direct/turn_2", "unparsed", "skipped: turn_3"])
def test_an_overall_verdict_lost_with_a_turn_s_is_told_with_what_helps(why: str) -> None:
    lost = [
        replace(score, value=None, why=why) if (score.sample, score.turn) == ("1", 0) else score
        for score in scores()
    ]
    made = build_tables(lost, CONTEXT)
    assert (LOST_TURNS in made["scores"].notes) == (why == "skipped: direct/turn_2")
    assert "option turn_judgements=false" in LOST_TURNS


@pytest.mark.parametrize(("failure_win", "failed"), [(0.5, {"lost"}), (1.0, {"lost", "tie"})])
def test_one_win_in_both_orders_is_no_failure_alone(failure_win: float, failed: set[str]) -> None:
    wins = {"won": (1.0, 1.0), "tie": (1.0, 0.0), "lost": (0.0, 0.0)}
    both = [
        won(sample, condition, 2, side, value)
        for condition in ("free", "perception")
        for sample, pair in wins.items()
        for side, value in zip("AB", pair, strict=True)
    ]
    context = replace(CONTEXT, options={"failure_win": failure_win, "order": "both"})
    made = build_tables(both, context)
    behind = made["attribution_samples"]
    assert {row.split("/")[2] for row in behind.rows} == failed
    counts = {row[PAIRWISE.bounds.title].n for row in made["attribution_net"].rows.values()}
    assert counts == {len(failed)}
    words = "is not a failure." if failure_win == 0.5 else "is one too."
    assert any(words in note for note in made["attribution_net"].notes)


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


def test_a_side_that_wins_twice_is_counted_where_both_orders_were_judged() -> None:
    # two pairs that the first answer shown wins, one that the candidate wins on either side
    wins = {"1": (1.0, 0.0), "2": (1.0, 0.0), "3": (1.0, 1.0), "4": (0.0, 0.0), "5": (0.0, None)}
    both = [
        won(sample, "free", 1, side, value)
        for sample, pair in wins.items()
        for side, value in zip("AB", pair, strict=True)
    ]
    made = build_tables(both, CONTEXT)
    row = made["position"].rows["perception"]
    assert [(name, cell.value, cell.n) for name, cell in row.items()] == [
        ("win rate as A (%)", 60.0, 5),
        ("win rate as B (%)", 25.0, 4),
        ("A less B", 50.0, 4),
        ("same side twice (%)", 50.0, 4),
    ]
    assert row["same side twice (%)"].missing == {"unparsed": 1}


def test_one_order_has_no_column_for_a_side_that_wins_twice(tables: dict[str, Table]) -> None:
    assert list(tables["position"].columns) == ["win rate as A (%)", "win rate as B (%)"]


def test_comparisons_are_spoken_of_only_where_there_are_some(tables: dict[str, Table]) -> None:
    assert any("lost pairwise judgement" in note for note in tables["attribution_net"].notes)
    direct = replace(CONTEXT, options={"grading": ["direct"]})
    rated = (score for score in scores() if score.metric == "rating")
    for table in build_tables(rated, direct).values():
        assert not any("pairwise" in note for note in table.notes), table.name


def test_the_papers_layout_has_one_row(tables: dict[str, Table]) -> None:
    [row] = tables["paper_direct"].rows.values()
    assert list(row)[:4] == ["R1", "R2", "S1", "S2"]
    assert "S3_tilde - S3_hat" in row


def test_changes_have_their_sign_among_scores_that_have_none(tables: dict[str, Table]) -> None:
    lines = to_markdown(tables["paper_direct"]).splitlines()
    names, _, row = (line.split(" | ") for line in lines if line.startswith("| "))
    cells = dict(zip(names, row, strict=True))
    assert cells["S1"].startswith("6.00 ")
    assert cells["S3\\_hat - S3"].startswith("+1.67 ")
