"""ConvBench's findings and marks: what is said about failures, and what is not claimed."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmconv.benchmarks.base.layouts import Layout, supported_digits
from mmconv.benchmarks.convbench.layouts import layouts
from mmconv.benchmarks.convbench.options import ConvBenchOptions, mark_failures, word_side
from mmconv.benchmarks.convbench.quantities import DIRECT, PAIRWISE, Grading
from mmconv.core.types import Cell, Table

GAIN = "S2_hat - S2"


def findings(
    name: str, rows: dict[str, Cell], *, judged: tuple[Grading, ...] = (DIRECT,), lost: bool = False
) -> tuple[str, ...]:
    """What a table says about rows of one column."""
    options = ConvBenchOptions(
        data=Path(),
        images=Path(),
        grading=tuple(each.name for each in judged),
        order="random" if lost else "both",
    )
    arranged = layouts(options, None)
    [layout] = [each for each in arranged if isinstance(each, Layout) and each.name == name]
    read = layout.findings
    return (
        () if read is None else tuple(read({key: {"direct": cell} for key, cell in rows.items()}))
    )


def causes(**cells: Cell) -> tuple[str, ...]:
    return findings(
        "attribution_net", {f"creation failed: due to {name}": cells[name] for name in cells}
    )


MOST = Cell(value=94.12, low=71.18, high=100.0, n=17)
FEW = Cell(value=5.9, low=-11.6, high=22.7, n=17)


def test_the_main_cause_of_failures_is_named_with_its_share() -> None:
    assert causes(perception=MOST, creation=FEW) == (
        "Most failures in creation come from perception: 94 % net [71, 100].",
    )
    assert causes(perception=FEW, creation=MOST) == (
        "Most failures in creation come from creation itself: 94 % net [71, 100].",
    )


@pytest.mark.parametrize(
    "other",
    [Cell(value=30.0, low=5.0, high=72.0, n=30), Cell(value=None, n=17), Cell(value=28.0, n=17)],
)
def test_most_is_said_only_if_all_shares_are_known_and_apart(other: Cell) -> None:
    [finding] = causes(perception=MOST, creation=other)
    assert finding.startswith("Some failures in creation come from perception: ")


def test_what_may_be_chance_is_not_said() -> None:
    unsure = Cell(value=60.0, low=-9.0, high=120.0, n=11)
    assert causes(perception=unsure, creation=FEW) == ()
    assert causes(perception=Cell(value=67.0, n=3)) == ()


def test_lost_comparisons_in_one_order_are_not_failures_to_attribute() -> None:
    rows = {"creation failed: due to perception": MOST}
    for judged, said in (((PAIRWISE,), 0), ((DIRECT, PAIRWISE), 1)):
        assert len(findings("attribution_net", rows, judged=judged, lost=True)) == said


def test_the_largest_gain_is_named_if_it_is_not_chance() -> None:
    sure = Cell(value=0.99, low=0.53, high=1.44, n=80)
    larger = Cell(value=2.0, low=-1.0, high=5.0, n=80)
    overall = Cell(value=3.0, low=2.0, high=4.0, n=80)
    assert findings("deltas", {GAIN: sure, "S3_hat - S3": larger, "S0_hat - S0": overall}) == (
        "Perfect perception helps reasoning most: +0.99 [0.53, 1.44] in direct.",
    )
    worse = Cell(value=-0.83, low=-1.25, high=-0.41, n=80)
    [finding] = findings("deltas", {GAIN: worse})
    minus = "\N{MINUS SIGN}"
    assert finding.startswith(f"Perfect perception harms reasoning most: {minus}0.83 [{minus}1.25,")
    assert findings("deltas", {GAIN: larger}) == ()


@pytest.mark.parametrize(
    ("low", "high", "digits"),
    [(0.5, 1.9, 2), (71.0, 100.0, 0), (5.1, 7.3, 1), (0.911, 0.912, 2), (None, None, 2), (1, 1, 2)],
)
def test_digits_are_those_that_the_interval_supports(
    low: float | None, high: float | None, digits: int
) -> None:
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
def test_samples_are_marked_by_what_their_failures_come_from(
    title: str, grading: str, counted: str, mark: str
) -> None:
    row = {title: Cell(value="perception"), "in the shares": Cell(value=counted)}
    rows = {f"{grading}/creation/7": row}
    table = Table(name="attribution_samples", title="", columns=(*row,), rows=rows)
    assert mark_failures([table]) == {"7": (mark,)}


def test_a_pairwise_verdict_says_who_won() -> None:
    assert word_side("pairwise_A/turn_1", "A", {}) == "won (shown as A)"
    assert word_side("pairwise_B/turn_1", "A", {}) == "lost (shown as B)"
    assert word_side("direct/turn_1", None, {"rating": 7.0}) == "7"
