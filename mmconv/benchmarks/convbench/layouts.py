"""The tables of ConvBench: which of its metrics they show, and what their readers must know."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import product

from mmconv.benchmarks.ablations.findings import causes, is_one_of_three, largest_gain
from mmconv.benchmarks.ablations.metrics import (
    DELTAS,
    DUE,
    LADDERS,
    LEVELS,
    MEANS,
    QUANTITIES,
    Courses,
    Failed,
    Grading,
)
from mmconv.benchmarks.base.layouts import Build, Layout, Rows, write_estimate
from mmconv.benchmarks.base.metrics import LARGEST_WIDTH
from mmconv.benchmarks.convbench.metrics import GRADINGS, PAIRWISE, TIE, Convention, gradings
from mmconv.benchmarks.convbench.options import ATTRIBUTED, CONDITIONS, IN_SHARES, ConvBenchOptions
from mmconv.core.types import Cell, Summary, Table
from mmconv.stats import FEWEST_CLUSTERS, ScoreFrame, as_cell
from mmconv.stats.corrections import Rate, attribute

LOST_TURNS = (
    "An overall verdict needs the verdicts of all turns, so S0 and R1 are missing if one of them "
    "is. Run it again to retry failed calls. With the option turn_judgements=false another prompt "
    "judges the whole without them."
)
PARTS = (
    "R1 and R2 are over the samples that have every part. They can differ from the means of S1 to "
    "S0, each of which is over all samples that have it."
)
FIXED = (
    "Of fixed failures: perfect turns turn failures into passes, less the passes that they turn "
    "into failures. The share of each level in these does not depend on how often the judge errs, "
    "if it errs alike under all conditions. Below 0 or above 100 %, perfect turns of a level add "
    "failures."
)
BOUNDS = (
    "Of all failures: judges fail right answers too, at an unknown rate. So this is known within "
    "bounds only, which hold if the judge errs alike under all conditions. Brackets add the "
    "sampling error."
)
CONTROL = (
    "Control: the same change among samples whose own turn was already clearly right ({clear}) "
    "before the perfect one replaced it. There a right turn replaces a right one, so the change "
    "should be near 0. Three controls are tested together at the 5 % level."
)
LENGTH = (
    "At equal length: the change in samples whose answer has as many tokens under both conditions, "
    "by a straight line in the logarithm of the length. A diagnostic: if it is far from the "
    "change, the judge may pay for length. But answers may also be longer because they are better."
)
UNSURE = (
    "WARNING: perfect turns also change samples whose own turn was clearly right, so these changes "
    "may overstate the model's faults: {deltas}. The judge may be kinder after reference turns, or "
    "may have passed wrong turns."
)
UNSHOWN = (
    f"No share is shown for fewer than {FEWEST_CLUSTERS} failures, without an interval, or with "
    f"one wider than {100 * LARGEST_WIDTH:g} points."
)
NOT_CITED = (
    "For finding samples, not for citing. Each failure is attributed to the first level before it "
    "that turns it into a success once perfect, else to its own. A model that answers differently "
    "each time also succeeds by chance, and this rule books that on earlier levels."
)
SCORED = (
    "n counts failures with a score under every condition, and of fixed failures how many fewer "
    "there are; the others are missing. The shares hold for all failures if no outcome makes a "
    "score more likely to be missing."
)
ADD_UP = (
    "The rows of a failed level add up to its first row, but for rounding. Only samples with a "
    "score under every condition count. Below 0, perfect turns add failures."
)
REFERENCES_COUNT = (
    "In S0_hat and S0_tilde the judged conversation contains reference turns, which raise it."
)
POSITION = (
    "A less B: the paired difference in percentage points. Same side twice: pairs in which the "
    "same side wins in both orders, by its position or by the judge's chance."
)

_LOST_TURN = re.compile(r"skipped: \w+/turn_\d")


def layouts(options: ConvBenchOptions, convention: Convention | None) -> Iterator[Layout | Build]:
    """The tables in their order."""
    is_judged = not options.generate_only
    judged = [each for each in gradings(options) if is_judged and each.name in options.grading]
    pairwise = any(each.name == PAIRWISE.name for each in judged)
    official_notes = (convention.note,) if pairwise and convention is not None else ()
    control = CONTROL.format(clear=_clear_passes(judged))
    yield Layout(
        "scores",
        "ConvBench scores of {candidate}, judged by {judge}",
        notes=official_notes,
        remarks=_missing,
    )
    yield Layout(
        "deltas",
        "What perfect earlier turns change",
        notes=("Deltas are paired per sample.", REFERENCES_COUNT, *([control] if judged else [])),
        remarks=partial(_unsure, judged),
        findings=largest_gain,
    )
    yield Layout(
        "lengths", "Do judges pay for length? Changes at equal length", notes=(LENGTH,), detail=True
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
        yield from attribution(judged)
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
            f"Which level fixed failures in creation come from (%), {grading.name}",
            of="attribution_net",
            names={f"creation{DUE}{level}": level for level in ("perception", "reasoning")},
            groups=(grading.fixed.title,),
            rank="R1",
        )


def attribution(judged: Sequence[Grading]) -> Iterator[Layout | Build]:
    """Which level the failures come from: in total, in percent of samples, and by sample."""
    failing, control = _failing(judged), CONTROL.format(clear=_clear_passes(judged))
    yield Layout(
        "attribution_net",
        "Which level the failures come from (%)",
        notes=(FIXED, BOUNDS, control, UNSHOWN, failing, SCORED),
        findings=partial(causes, judged[0]),
        digits=1,
    )
    yield Layout(
        "failures",
        "How many samples fail, and what the failures come from (% of samples)",
        notes=(ADD_UP, failing),
        detail=True,
    )
    yield partial(_attribution_samples, judged, (NOT_CITED, failing, SCORED))


def _details() -> Iterator[Layout]:
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


def _unsure(judged: Sequence[Grading], rows: Rows) -> Iterator[str]:
    deltas = [
        f"{name} by {write_estimate(row[grading.control.title], signed=True)} ({grading.name})"
        for grading in judged
        for name, row in rows.items()
        if is_one_of_three(row.get(grading.control.title))
    ]
    if deltas:
        yield UNSURE.format(deltas=", ".join(deltas))


def _clear_passes(judged: Sequence[Grading]) -> str:
    words = {"direct": "rated at least {:g}", "pairwise": "won in every order judged"}
    return " or ".join(words[grading.name].format(grading.clear) for grading in judged)


def _paper() -> tuple[str, ...]:
    names = [*MEANS]
    for name in QUANTITIES:
        names += [name, *(delta for delta, (_, goal) in DELTAS.items() if goal == name)]
    return tuple(names)


def _failing(judged: Sequence[Grading]) -> str:
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


def _attribution_samples(
    judged: Sequence[Grading], notes: tuple[str, ...], frame: ScoreFrame
) -> Table:
    """The samples behind the attribution: grading/failed level/sample -> the level blamed."""
    rows = {}
    for grading, level in product(judged, LADDERS):
        for each in frame.once(Courses(grading=grading, level=level)):
            if each.passed[0] is False:
                counted = "yes" if each.reason is None else f"no: {each.reason}"
                rows[f"{grading.name}/{level}/{each.sample}"] = {
                    ATTRIBUTED: Cell(value=each.cause or f"unknown: {each.reason}"),
                    IN_SHARES: Cell(value=counted if each.cause else "no"),
                }
    title = "The samples behind the attribution"
    return Table.of("attribution_samples", title, rows, notes=notes, detail=True)


COLUMN = "{}: of true failures"
COUNTED = "n counts all samples, failed or not. Below 0, perfect turns add failures."
NOT_SHOWN = (
    "Not shown are parts of too few failures: hardly more than the judge fails right answers."
)


def corrected_attribution(
    gradings: Sequence[Grading], frame: ScoreFrame, rate: Callable[[str, int], Rate | None]
) -> Iterator[Table]:
    """The part of each level in the true failures; `rate` is that of a score in a turn."""
    rows: Rows = {}
    for grading in gradings:
        for level, (turn, conditions) in LADDERS.items():
            known = rate(grading.metric, turn)
            columns = [
                Failed(grading=grading, level=level, step=step)(frame)
                for step in range(len(conditions))
            ]
            if known is None or not all(map(len, columns)):
                continue
            parts = attribute(columns, [known] * len(columns))
            for cause, part in zip((*conditions[1:], level), parts, strict=True):
                cells = rows.setdefault(f"{level}{DUE}{cause}", {})
                cells[COLUMN.format(grading.name)] = _cell(part, len(columns[0]))
    is_any_hidden = any(cell.value is None for row in rows.values() for cell in row.values())
    if rows:
        yield Table.of(
            "attribution_corrected",
            "Where true failures come from, by the judge's error rates",
            rows,
            notes=(COUNTED, NOT_SHOWN) if is_any_hidden else (COUNTED,),
            digits=0,
        )


def _cell(part: Summary, samples: int) -> Cell:
    """The part in percent over all samples; no number without an interval."""
    if part.low is None:
        return Cell(value=None, n=samples)
    cell = as_cell(part, 100.0)
    return Cell(value=cell.value, n=samples, low=cell.low, high=cell.high)
