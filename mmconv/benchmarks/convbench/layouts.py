"""The tables of ConvBench: which of its metrics they show, and what their readers must know."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from mmconv.benchmarks.base.layouts import Build, Layout, Rows, write_estimate
from mmconv.benchmarks.base.metrics import LARGEST_WIDTH
from mmconv.benchmarks.convbench.metrics import TIE, Courses
from mmconv.benchmarks.convbench.options import (
    ATTRIBUTED,
    CONDITIONS,
    DELTAS,
    IN_SHARES,
    LEVELS,
    QUANTITIES,
    ConvBenchOptions,
)
from mmconv.benchmarks.convbench.quantities import (
    DUE,
    GRADINGS,
    LADDERS,
    MEANS,
    PAIRWISE,
    Convention,
    Grading,
    gradings,
)
from mmconv.core.types import Cell, Table
from mmconv.stats import FEWEST_CLUSTERS, ScoreFrame

LOST_TURNS = (
    "An overall verdict needs the verdicts of all turns, so S0 and R1 are missing if one of them "
    "is. Run it again to retry failed calls. With the option turn_judgements=false another prompt "
    "judges the whole without them."
)
PARTS = (
    "R1 and R2 are over the samples that have every part. They can differ from the means of S1 to "
    "S0, each of which is over all samples that have it."
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


def layouts(options: ConvBenchOptions, convention: Convention | None) -> Iterator[Layout | Build]:
    """The tables in their order."""
    is_judged = not options.generate_only
    judged = [each for each in gradings(options) if is_judged and each.name in options.grading]
    pairwise = any(each.name == PAIRWISE.name for each in judged)
    official_notes = (convention.note,) if pairwise and convention is not None else ()
    lost = (LOST,) if pairwise and options.order != "both" else ()
    yield Layout(
        "scores",
        "ConvBench scores of {candidate}, judged by {judge}",
        notes=official_notes,
        remarks=_missing,
    )
    yield Layout(
        "deltas",
        "What perfect earlier turns change",
        notes=("Deltas are paired per sample.", REFERENCES_COUNT),
        findings=_largest_gain,
    )
    for grading in judged:
        yield Layout(
            f"paper_{grading.name}",
            f"The paper's layout, {grading.group.title}",
            rows="candidate",
            columns="name",
            names=_paper(),
            groups=(grading.group.title,),
            remarks=_missing_parts,
            detail=True,
        )
    if judged:
        yield from _attribution(judged, lost)
    yield from _details()


def boards() -> Iterator[Layout]:
    """The tables of a leaderboard: scores, those with perfect turns, deltas, net attribution."""
    free = ("S1", "S2", "S3", "S0")
    for grading in GRADINGS:
        title = grading.group.title
        parts = {
            "": (f"ConvBench, {title}", "scores", ("R1", "R2", *free)),
            "given": (
                f"Scores with perfect earlier turns, {title}",
                "scores",
                tuple(name for name in QUANTITIES if name not in free),
            ),
            "deltas": (f"What perfect earlier turns change, {title}", "deltas", tuple(DELTAS)),
        }
        for name, (heading, table, names) in parts.items():
            yield Layout(
                "_".join(filter(None, (grading.name, name))),
                heading,
                of=table,
                names=names,
                groups=(title,),
                rank="R1",
            )
        yield Layout(
            f"{grading.name}_attribution",
            f"Which level failed creations come from, net (%), {grading.name}",
            of="attribution_net",
            names={f"creation{DUE}{level}": level for level in LEVELS.values()},
            groups=(grading.failures,),
            rank="R1",
        )


def _attribution(judged: Sequence[Grading], lost: Sequence[str]) -> Iterator[Layout | Build]:
    """Which level the failures come from: to cite, in percent of samples, and by sample."""
    failing = _failing(judged)
    only_by_chance = bool(lost) and len(judged) == 1
    yield Layout(
        "attribution_net",
        "Which level the failures come from (% of failures)",
        notes=(NET if only_by_chance else f"Cite these. {NET}", UNSHOWN, failing, SCORED, *lost),
        findings=None if lost and judged[0].name == PAIRWISE.name else _causes,
    )
    yield Layout(
        "failures",
        "How many samples fail, and what the failures come from (% of samples)",
        notes=(ADD_UP, failing, *lost),
        detail=True,
    )
    yield Layout(
        "attribution",
        "Which level turns a failure into a success once perfect, chance included (% of failures)",
        notes=(NOT_CITED, failing, SCORED),
    )
    yield _AttributionSamples(judged, (NOT_CITED, failing, SCORED))


def _details() -> Iterator[Layout]:
    """By category, without the conversation, by position, and how the answers ended."""
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
        "How the answers of {candidate} ended",
        rows={"condition": CONDITIONS, "turn": None},
        row_label="{condition}, turn {turn}",
        columns="name",
    )


def _largest_gain(rows: Rows) -> Iterator[str]:
    """Which level gains or loses most by perfect earlier turns, if that is not chance."""
    gains = {name: _first_cell(rows[name]) for name in rows if not name.startswith("S0")}
    sure = {name: cell for name, cell in gains.items() if cell and _size_beyond_chance(cell)}
    if sure:
        name, cell = max(sure.items(), key=lambda item: abs(_value(item[1])))
        condition, turn = QUANTITIES[DELTAS[name][1]]
        verb = "helps" if _value(cell) > 0 else "harms"
        change = f"{write_estimate(cell, signed=True)} in {next(iter(rows[name]))}"
        yield f"Perfect {condition} {verb} {LEVELS[turn]} most: {change}."


def _causes(rows: Rows) -> Iterator[str]:
    """From which level the failures of each level come, if that is not chance."""
    for level in LADDERS:
        failed = f"{level}{DUE}"
        of_level = [name for name in rows if name.startswith(failed)]
        shares = {
            name.removeprefix(failed): cell
            for name in of_level
            if (cell := _first_cell(rows[name]))
        }
        if not shares:
            continue
        cause, cell = max(shares.items(), key=lambda item: _value(item[1]))
        if _size_beyond_chance(cell) > 0:
            # a share is the largest beyond chance if all are known and the intervals are apart
            others = [other.high or 0.0 for name, other in shares.items() if name != cause]
            is_sure = len(shares) == len(of_level) and max(others, default=0.0) <= (cell.low or 0.0)
            amount = "Most" if is_sure and (cell.low or 0.0) > 50 else "Some"
            cause = f"{cause} itself" if cause == level else cause
            share = write_estimate(cell, unit="% net")
            yield f"{amount} failures in {level} come from {cause}: {share}."


def _first_cell(row: Mapping[str, Cell]) -> Cell | None:
    """The cell of the first grading, if it has a value and an interval."""
    cell = next(iter(row.values()))
    return cell if isinstance(cell.value, float) and cell.low is not None else None


def _value(cell: Cell) -> float:
    return cell.value if isinstance(cell.value, float) else 0.0


def _size_beyond_chance(cell: Cell) -> float:
    """How far the interval is from 0: below 0 for a loss, and 0 if it holds 0."""
    return max(cell.low or 0.0, 0.0) + min(cell.high or 0.0, 0.0)


def _paper() -> tuple[str, ...]:
    """R1, R2 and every quantity, each followed by the delta that leads to it."""
    names = [*MEANS]
    for name in QUANTITIES:
        names += [name, *(delta for delta, (_, goal) in DELTAS.items() if goal == name)]
    return tuple(names)


def _failing(judged: Sequence[Grading]) -> str:
    """What a failure is, by each grading."""
    by_name = {grading.name: grading.threshold for grading in judged}
    parts = []
    if "direct" in by_name:
        parts.append(f"A rating below {by_name['direct']:g} is a failure.")
    if "pairwise" in by_name:
        tie = "is not a failure" if by_name["pairwise"] <= TIE else "is one too"
        parts.append(f"A lost pairwise judgement is a failure; one win in two orders {tie}.")
    return " ".join(parts)


def _missing_parts(rows: Rows) -> Iterable[str]:
    """What R1 and R2 are over, if a sample lacks a part of them."""
    cells = [row[name] for row in rows.values() for name in MEANS if name in row]
    cells += [cell for name in MEANS for cell in rows.get(name, {}).values()]
    return (PARTS,) if any(cell.missing for cell in cells) else ()


def _missing(rows: Rows) -> Iterable[str]:
    """The same, and why an overall score is missing, if it is for lack of a turn's verdict."""
    yield from _missing_parts(rows)
    reasons = {why for row in rows.values() for cell in row.values() for why in cell.missing}
    if any(_LOST_TURN.fullmatch(why) for why in reasons):
        yield LOST_TURNS


class _AttributionSamples:
    """The samples behind the attribution: grading/failed level/sample -> the level blamed."""

    def __init__(self, judged: Sequence[Grading], notes: tuple[str, ...]) -> None:
        self._judged, self._notes = judged, notes

    def __call__(self, frame: ScoreFrame) -> Table:
        rows = {}
        for grading in self._judged:
            for level in LADDERS:
                for each in frame.once(Courses(grading=grading, level=level)):
                    if each.passed[0] is False:
                        rows[f"{grading.name}/{level}/{each.sample}"] = {
                            ATTRIBUTED: Cell(value=each.cause or f"unknown: {each.reason}"),
                            IN_SHARES: Cell(value=_counted(each.cause, each.reason)),
                        }
        return Table(
            name="attribution_samples",
            title="The samples behind the attribution",
            columns=(ATTRIBUTED, IN_SHARES),
            rows=rows,
            notes=self._notes,
            detail=True,
        )


def _counted(cause: str | None, reason: str | None) -> str:
    """Whether a failure counts in the shares."""
    if reason is None:
        return "yes"
    return "no" if cause is None else f"no: {reason}"
