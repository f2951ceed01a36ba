"""ConvBench's findings and marks: what is said about failures, and what is not claimed."""

from pathlib import Path

import pytest

from mmconv.benchmarks.ablations.metrics import Grading
from mmconv.benchmarks.base.corrections import CORRECTED
from mmconv.benchmarks.base.layouts import Layout, supported_digits
from mmconv.benchmarks.convbench.layouts import layouts
from mmconv.benchmarks.convbench.metrics import DIRECT
from mmconv.benchmarks.convbench.options import ConvBenchOptions, mark_failures, word_side
from mmconv.core.types import Cell, Table

GAIN = "S2_hat - S2"


def said(
    name: str, rows: dict[str, dict[str, Cell]], judged: tuple[Grading, ...] = (DIRECT,)
) -> tuple[str, ...]:
    """The findings and remarks of a table with these rows."""
    options = ConvBenchOptions(
        data=Path(), images=Path(), grading=tuple(each.name for each in judged)
    )
    arranged = layouts(options, None)
    [layout] = [each for each in arranged if isinstance(each, Layout) and each.name == name]
    reads = [each for each in (layout.findings, layout.remarks) if each is not None]
    return tuple(sentence for read in reads for sentence in read(rows))


def findings(name: str, rows: dict[str, Cell]) -> tuple[str, ...]:
    """What a table says about rows of one column."""
    return said(name, {key: {"direct": cell} for key, cell in rows.items()})


def causes(
    bounds: dict[str, Cell], fixed: dict[str, Cell] | None = None, control: Cell | None = None
) -> tuple[str, ...]:
    """The findings on creations, by cause."""
    rows: dict[str, dict[str, Cell]] = {}
    for group, cells in ((DIRECT.bounds, bounds), (DIRECT.fixed, fixed or {})):
        for name, cell in cells.items():
            rows.setdefault(f"creation failed: due to {name}", {})[group.title] = cell
    if control is not None:
        rows["creation failed: due to perception"][DIRECT.points.title] = control
    return said("attribution_net", rows)


MOST = Cell(value=74.12, to=89.9, low=61.18, high=100.0, n=17)
UNKNOWN = Cell(value=34.12, to=89.9, low=11.18, high=100.0, n=17)
NONE = Cell(value=-4.0, to=-2.0, low=-20.0, high=10.0, n=17)
OWN = Cell(value=0.0, to=25.9, low=0.0, high=32.7, n=17)


def test_the_main_cause_of_failures_is_named_where_it_is_within_all_bounds() -> None:
    assert causes({"perception": MOST, "creation": OWN}) == (
        "Most failures in creation come from perception: 74 to 90 % [61, 100].",
    )
    assert causes({"perception": NONE, "reasoning": MOST}) == (
        "Most failures in creation come from reasoning: 74 to 90 % [61, 100].",
    )


def test_the_failed_level_itself_is_never_named() -> None:
    """Whatever it keeps may be right answers that the judge failed."""
    own = Cell(value=0.0, to=99.0, low=0.0, high=100.0, n=80)
    assert causes({"perception": NONE, "reasoning": NONE, "creation": own}) == ()


def test_if_the_bounds_hold_the_half_the_split_of_fixed_failures_is_said() -> None:
    split = {"perception": Cell(value=83.0, low=70.0, high=95.0, n=40)}
    fixed = "Of the failures in creation that perfect turns fix,"
    assert causes({"perception": UNKNOWN}, split) == (
        f"{fixed} most come from perception: 83 % [70, 95].",
    )
    even = {"perception": Cell(value=52.0, low=41.0, high=63.0, n=40)}
    assert causes({"perception": UNKNOWN}, even) == (
        f"{fixed} some come from perception: 52 % [41, 63].",
    )
    assert causes({"perception": UNKNOWN}) == (
        "Some failures in creation come from perception: 34 to 90 % [11, 100].",
    )


@pytest.mark.parametrize(
    ("low", "high", "claims"), [(1.0, 8.0, 0), (-8.0, -1.0, 0), (-1.0, 4.0, 1)]
)
def test_no_failure_is_explained_if_a_control_fails(low: float, high: float, claims: int) -> None:
    control = Cell(value=(low + high) / 2, low=low, high=high, n=60)
    [sentence] = causes({"perception": MOST}, control=control)
    assert sentence.startswith("Most failures") == bool(claims)
    assert sentence.startswith("Nothing is said of failures in creation") != bool(claims)


def test_what_may_be_chance_is_not_said() -> None:
    unsure = Cell(value=60.0, to=80.0, low=-9.0, high=120.0, n=11)
    assert causes({"perception": unsure, "creation": OWN}) == ()
    assert causes({"perception": Cell(value=None, n=3)}) == ()


def test_a_control_that_is_not_0_is_a_warning_and_the_delta_no_finding() -> None:
    gain = Cell(value=0.99, low=0.53, high=1.44, n=80)
    for low, warned in ((0.1, True), (-0.1, False)):
        control = Cell(value=0.3, low=low, high=0.5, n=60)
        row = {DIRECT.group.title: gain, DIRECT.control.title: control}
        sentences = said("deltas", {GAIN: row})
        assert any(each.startswith("Largest change") for each in sentences) != warned
        warnings = [each for each in sentences if each.startswith("WARNING: ")]
        assert len(warnings) == warned
        assert all("S2_hat - S2 by +0.30 [0.10, 0.50] (direct)" in each for each in warnings)


def test_the_largest_gain_is_named_if_it_is_not_chance() -> None:
    sure = Cell(value=0.99, low=0.53, high=1.44, n=80)
    larger = Cell(value=2.0, low=-1.0, high=5.0, n=80)
    overall = Cell(value=3.0, low=2.0, high=4.0, n=80)
    assert findings("deltas", {GAIN: sure, "S3_hat - S3": larger, "S0_hat - S0": overall}) == (
        "Largest change: reasoning with perfect perception, +0.99 [0.53, 1.44] in direct.",
    )
    worse = Cell(value=-0.83, low=-1.25, high=-0.41, n=80)
    [finding] = findings("deltas", {GAIN: worse})
    minus = "\N{MINUS SIGN}"
    assert f"perception, {minus}0.83 [{minus}1.25," in finding
    [none] = findings("deltas", {GAIN: larger})
    assert "No turn changes significantly" in none
    # half of the interval is 3: (2.39 + 0.84) / 1.96 times that
    assert "A true change of 5 in direct is found" in none
    # sure by itself, not as one of three
    [none] = findings("deltas", {GAIN: Cell(value=1.0, low=0.05, high=1.95, n=80)})
    assert "No turn changes significantly" in none


def test_the_largest_gain_is_that_of_people_if_there_are_labels() -> None:
    kind, fair = Cell(value=2.0, low=1.5, high=2.5, n=80), Cell(value=0.2, low=-0.4, high=0.8, n=30)
    title = DIRECT.group.title
    row = {title: kind, DIRECT.control.title: kind, f"{title}{CORRECTED}": fair}
    [none] = [each for each in said("deltas", {GAIN: row}) if not each.startswith("WARNING: ")]
    assert none.startswith("No turn changes significantly")
    [sure] = [
        each
        for each in said("deltas", {GAIN: {**row, f"{title}{CORRECTED}": kind}})
        if not each.startswith("WARNING: ")
    ]
    assert sure.endswith(f"+2.00 [1.50, 2.50] in {title}{CORRECTED}.")


@pytest.mark.parametrize(
    ("low", "high", "digits"),
    [(0.5, 1.9, 2), (71.0, 100.0, 0), (5.1, 7.3, 1), (0.911, 0.912, 2), (None, None, 2), (1, 1, 2)],
)
def test_digits_follow_the_interval(low: float | None, high: float | None, digits: int) -> None:
    assert supported_digits(low, high, 2) == digits


@pytest.mark.parametrize(
    ("title", "grading", "counted", "mark"),
    [
        ("attributed to", "direct", "yes", "creation failed, attributed to perception (direct)"),
        # older runs have another title
        ("laid to", "direct", "yes", "creation failed, attributed to perception (direct)"),
        ("attributed to", "pairwise", "yes", "creation lost, attributed to perception (pairwise)"),
        (
            "attributed to",
            "direct",
            "no: no score",
            "creation failed, attributed to perception (direct, not in the shares)",
        ),
    ],
)
def test_samples_are_marked_by_causes(title: str, grading: str, counted: str, mark: str) -> None:
    row = {title: Cell(value="perception"), "in the shares": Cell(value=counted)}
    rows = {f"{grading}/creation/7": row}
    table = Table(name="attribution_samples", title="", columns=(*row,), rows=rows)
    assert mark_failures([table]) == {"7": (mark,)}


def test_a_pairwise_verdict_says_who_won() -> None:
    assert word_side("pairwise_A/turn_1", "A", {}) == "won (shown as A)"
    assert word_side("pairwise_B/turn_1", "A", {}) == "lost (shown as B)"
    assert word_side("direct/turn_1", None, {"rating": 7.0}) == "7"


def test_what_people_show_of_failures_needs_no_control() -> None:
    """Their labels hold whatever the judge does, so a control of the judge does not matter."""
    title = DIRECT.bounds.title
    row = {
        title: UNKNOWN,
        f"{title}{CORRECTED}": Cell(value=75.0, low=56.0, high=94.0, n=60),
        DIRECT.points.title: Cell(value=9.0, low=4.0, high=14.0, n=60),
    }
    assert said("attribution_net", {"creation failed: due to perception": row}) == (
        "Most failures in creation come from perception: 75 % [56, 94], corrected by people.",
    )
