"""Metrics and tables of scenes: ConvBench's, by level, and the level at which a model breaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from mmconv.benchmarks.ablations.findings import causes, largest_gain
from mmconv.benchmarks.ablations.metrics import DELTAS, DUE, MEANINGS, QUANTITIES, Grading, ladder
from mmconv.benchmarks.base.layouts import CONTROL, Layout, Rows, write_estimate
from mmconv.benchmarks.base.metrics import (
    Group,
    Mean,
    Metric,
    Official,
    Select,
    share,
)
from mmconv.core.types import Axis, Cell
from mmconv.stats import ScoreFrame
from mmconv.stats.curves import CurvePoint, find_fall

CHECKED = Grading(
    name="checked", metric="right", group=share("right (%)"), threshold=1.0, exact=True
)
OTHERS = {
    "share": ("scores", share("share right (%)")),
    "chance": ("scores", share(f"{CONTROL}, by guessing (%)")),
    "format": ("replies", share("format kept (%)")),
    "read": ("replies", share("readable (%)")),
}
"""Score -> the table and the column that show it."""
TURNS = {name: place for name, place in QUANTITIES.items() if place[1]}
BREAKS = Group(title="below one half at level")
AXIS = Axis(title="level", line=50.0, mark=BREAKS.title)

RIGHT = (
    "Right: all facts of perception, the answer of reasoning, all rules of creation. Share right: "
    "of the facts or rules. An unreadable reply is not right."
)
BROKEN = (
    "The level at which right answers fall below one half: the curve is the closest one that never "
    "rises, with straight lines between levels. The interval is from where the curve of the lower "
    "ends of the levels' intervals falls below one half to where that of the upper ends does."
)
NAMES = (
    "S1: perception. S2: reasoning. S3: creation. R2: their mean. _hat: the truth is given as turn "
    "1, _tilde: as turns 1 and 2."
)
EXACT = "A program checks every reply against the truth, so no judge errs."


def metrics() -> Iterator[Metric]:
    """All metrics of a run."""
    yield from ladder(CHECKED)
    for name, (condition, turn) in TURNS.items():
        meaning = MEANINGS[name]
        for score, (table, group) in OTHERS.items():
            of = Select(score, condition=condition, turn=turn)
            yield Mean(name, of=of, group=group, table=table, meaning=meaning, compare=None)
        right = Mean(
            name,
            of=CHECKED.select(condition, turn),
            group=CHECKED.group,
            table="levels",
            meaning=meaning,
            compare=None,
        )
        yield right
        compute = partial(breaking_level, right=right)
        yield Official(name, compute=compute, group=BREAKS, table="breaks", meaning=meaning)
    for name in ("S1", "S2"):
        guessed = Select("chance", condition="free", turn=int(name[1]))
        yield Mean(name, of=guessed, group=share("guessed (%)"), table="guesses", compare=None)


ENDINGS = Layout(
    "answers",
    "How the answers of {candidate} ended",
    rows={"condition": ("free", "perception", "reasoning"), "turn": None},
    row_label="{condition}, turn {turn}",
    columns="name",
    detail=True,
)


def layouts(levels: Sequence[int]) -> Iterator[Layout]:
    """The tables in their order."""
    yield Layout("scores", "Scenes, answered by {candidate}", notes=(RIGHT, EXACT), digits=1)
    yield Layout(
        "breaks",
        "Where right answers of {candidate} fall below one half",
        notes=(BROKEN,),
        findings=_breaks,
        digits=1,
    )
    by_level = partial(
        Layout,
        columns={"level": tuple(map(str, levels))},
        column_label="level {level}",
        digits=1,
        detail=True,
    )
    by_family = partial(by_level, rows={"family": None}, row_label="{family}, {name}")
    title = "Right answers by level (%)"
    yield by_level("levels", title, of="levels", notes=(BROKEN,), axis=AXIS)
    yield by_family("families_by_level", "Right answers by family and level (%)", of="levels")
    yield Layout(
        "families",
        "Right answers by family (%)",
        of="levels",
        columns={"family": None},
        digits=1,
        detail=True,
    )
    yield Layout("deltas", "What perfect earlier turns change", findings=largest_gain, digits=1)
    yield Layout(
        "attribution_net",
        "Which level the failures come from (%)",
        notes=(EXACT,),
        findings=partial(causes, CHECKED),
        digits=1,
    )
    yield Layout("replies", "How readable the replies of {candidate} are", digits=1, detail=True)
    yield Layout(
        "failures",
        "How many samples fail, and what the failures come from (% of samples)",
        detail=True,
    )
    yield ENDINGS
    yield by_family("guesses", "How often guesses are right, by family and level (%)")


def boards() -> Iterator[Layout]:
    """The tables of a leaderboard: right answers, where they break, deltas, causes."""
    board = partial(Layout, groups=(CHECKED.group.title,), rank="R2")
    right = board("right", "Scenes: right answers (%)", of="scores", names=("R2", *TURNS))
    yield replace(right, notes=(NAMES,))
    yield board(
        "right_breaks",
        "The level at which right answers fall below one half",
        of="breaks",
        names={name: f"{name} breaks" for name in TURNS},
        groups=(BREAKS.title,),
    )
    yield board(
        "right_deltas", "What perfect earlier turns change (%)", of="deltas", names=tuple(DELTAS)
    )
    yield board(
        "right_attribution",
        "Which level fixed failures in creation come from (%)",
        of="attribution_net",
        names={f"creation{DUE}{level}": level for level in ("perception", "reasoning")},
        groups=(CHECKED.fixed.title,),
    )


def breaking_level(frame: ScoreFrame, *, right: Mean) -> Cell | None:
    """The level at which right answers fall below one half; None for fewer than two levels."""
    cells = {
        float(level): right.measure(frame.only(turn=None, level=level))
        for level in frame.distinct("level")
    }
    points = [
        CurvePoint(level, cell.value, cell.low, cell.high, cell.n)
        for level, cell in sorted(cells.items())
        if cell and isinstance(cell.value, float) and cell.n
        if cell.low is not None and cell.high is not None
    ]
    if len(points) < 2:
        return None
    fall = find_fall(points, 50.0)
    is_sure = fall.low == fall.high
    return Cell(
        value=fall.place,
        n=sum(point.n for point in points),
        low=None if is_sure else fall.low,
        high=None if is_sure else fall.high,
        ends=(points[0].place, points[-1].place),
    )


def _breaks(rows: Rows) -> Iterator[str]:
    """Where each turn of the free condition breaks."""
    cells = {MEANINGS[name]: rows.get(name, {}).get(BREAKS.title) for name in ("S1", "S2", "S3")}
    levels = [f"{name} {write_estimate(cell, most=1)}" for name, cell in cells.items() if cell]
    if levels:
        yield f"Level at which right answers fall below one half: {', '.join(levels)}."
