"""The tables of ConvBench: which of its metrics they show, and what their readers must know."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mmconv.benchmarks.convbench.metrics import (
    DELTAS,
    LADDERS,
    LEVELS,
    MEANS,
    QUANTITIES,
    TIE,
    Courses,
    Grading,
)
from mmconv.benchmarks.convbench.options import CONDITIONS
from mmconv.benchmarks.layouts import Build, Layout, Rows
from mmconv.benchmarks.metrics import LARGEST_WIDTH
from mmconv.stats import FEWEST_CLUSTERS, ScoreFrame
from mmconv.values import Cell, Table

LOST_TURNS = (
    "An overall verdict needs the verdicts of all turns, so S0 and R1 are missing if one of them "
    "is. Run it again to retry failed calls. With turn_judgements=false another prompt judges the "
    "whole without them."
)
NET = (
    "A level's net share is the number of failures that go away when it becomes perfect too, "
    "divided by all failures. The failed level keeps the rest. Below 0 or above 100 %, perfect "
    "turns add failures."
)
UNSHOWN = (
    f"No net share is shown for fewer than {FEWEST_CLUSTERS} failures, without an interval, or "
    f"with one wider than {100 * LARGEST_WIDTH:g} points."
)
NOT_CITED = (
    "For finding samples, not for citing. Each failure is attributed to the first level before it "
    "that turns it into a success once perfect, else to its own. A model that answers differently "
    "each time also succeeds by chance, and this rule books that on earlier levels."
)
SCORED = (
    "n counts failures with a score under every condition; the others are missing. The shares hold "
    "for them too if their scores are missing at random."
)
LOST = (
    "A lost comparison is not always an error: of two equally good answers one loses. In one order "
    "such losses stay with the failed level. With order: both only what loses twice counts."
)
ADD_UP = (
    "The rows of a failed level add up to its first row. Only samples with a score under every "
    "condition count. Below 0, perfect turns add failures."
)
REFERENCES_COUNT = (
    "In S0_hat and S0_tilde the judged conversation contains reference turns, which raise it."
)
POSITION = (
    "A less B: the paired difference in percentage points. Decided by the side: pairs in which the "
    "same side wins in both orders."
)

_LOST_TURN = re.compile(r"skipped: \w+/turn_\d")


def layouts(
    gradings: tuple[Grading, ...], candidate: str, judge: str, official_notes: tuple[str, ...]
) -> Iterator[Layout | Build]:
    """The tables in their order; `official_notes` say what the authors' column is."""
    yield Layout(
        "scores",
        f"ConvBench scores of {candidate}, judged by {judge}",
        notes=official_notes,
        remarks=_lost_turns,
    )
    yield Layout(
        "deltas",
        "What perfect earlier turns change",
        notes=("Deltas are paired per sample.", REFERENCES_COUNT),
    )
    for grading in gradings:
        yield Layout(
            f"paper_{grading.name}",
            f"The paper's layout, {grading.group.title}",
            rows="candidate",
            columns="name",
            names=_paper(),
            groups=(grading.group.title,),
            detail=True,
        )
    yield from _attribution(gradings)
    for turn, level in LEVELS.items():
        yield Layout(
            f"categories_{level}",
            f"Turn {turn} ({level}) by category",
            rows={"category": None},
            columns="name",
            detail=True,
        )
    yield Layout("single_turn", "One instruction alone against the conversation")
    yield Layout(
        "position", "Position bias of the pairwise judge (free condition)", notes=(POSITION,)
    )
    yield Layout(
        "answers",
        f"How the answers of {candidate} ended",
        rows={"condition": CONDITIONS, "turn": None},
        row_label="{condition}, turn {turn}",
        columns="name",
    )


def _attribution(gradings: tuple[Grading, ...]) -> Iterator[Layout | Build]:
    """Which level the failures come from: to cite, in percent of samples, and by sample."""
    failing = _failing(gradings)
    yield Layout(
        "attribution_net",
        "Which level the failures come from (% of failures)",
        notes=(NET, UNSHOWN, failing, SCORED, LOST),
    )
    yield Layout(
        "failures",
        "How many samples fail, and what the failures come from (% of samples)",
        notes=(ADD_UP, failing, LOST),
        detail=True,
    )
    yield Layout(
        "attribution",
        "Which level turns a failure into a success once perfect, chance included (% of failures)",
        notes=(NOT_CITED, failing, SCORED),
    )
    yield _AttributionSamples(gradings, (NOT_CITED, failing, SCORED))


def _paper() -> tuple[str, ...]:
    """R1, R2 and every quantity, each followed by the delta that leads to it."""
    names = [*MEANS]
    for name in QUANTITIES:
        names += [name, *(f"{goal} - {start}" for start, goal in DELTAS if goal == name)]
    return tuple(names)


def _failing(gradings: tuple[Grading, ...]) -> str:
    direct, wins = (grading.threshold for grading in gradings)
    tie = "not a failure" if wins <= TIE else "one too"
    return (
        f"A rating below {direct:g}, or a lost pairwise judgement, is a failure; one win in two "
        f"orders is {tie}."
    )


def _lost_turns(rows: Rows) -> Iterable[str]:
    """Why an overall score is missing, if it is for lack of a turn's verdict."""
    reasons = {why for row in rows.values() for cell in row.values() for why in cell.missing}
    return (LOST_TURNS,) if any(_LOST_TURN.fullmatch(why) for why in reasons) else ()


class _AttributionSamples:
    """The samples behind the attribution: grading/failed level/sample -> the level blamed."""

    def __init__(self, gradings: tuple[Grading, ...], notes: tuple[str, ...]) -> None:
        self._gradings, self._notes = gradings, notes

    def __call__(self, frame: ScoreFrame) -> Table:
        rows = {}
        for grading in self._gradings:
            for level in LADDERS:
                for each in frame.once(Courses(grading=grading, level=level)):
                    if each.passed[0] is False:
                        rows[f"{grading.name}/{level}/{each.sample}"] = {
                            "attributed to": Cell(value=each.cause or f"unknown: {each.reason}"),
                            "in the shares": Cell(value=_counted(each.cause, each.reason)),
                        }
        return Table(
            name="attribution_samples",
            title="The samples behind the attribution",
            columns=("attributed to", "in the shares"),
            rows=rows,
            notes=self._notes,
            detail=True,
        )


def _counted(cause: str | None, reason: str | None) -> str:
    """Whether a failure counts in the shares."""
    if reason is None:
        return "yes"
    return "no" if cause is None else f"no: {reason}"
