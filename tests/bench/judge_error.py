"""Whether the attribution holds when the judge errs, over many simulated runs.

Run `python -m tests.bench.judge_error`. For each judge and each model it draws verdicts with numpy,
and reads them with the product's own metrics and findings. It prints how often the 95 % interval of
the split holds the truth, how often the bounds with their sampling limits do, and how often "Most
failures come from" names a level that does not have most of them. The truth is that of the planted
faults: of a judge without errors. `mmconv/benchmarks/convbench/TRUST.md` quotes the table.

Answers are drawn as by `simulated/candidate`, two to an image, verdicts as by `simulated/judge`.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from mmconv.benchmarks.ablations.metrics import DUE
from mmconv.benchmarks.base.layouts import Context, Layout, make_tables
from mmconv.benchmarks.base.metrics import Metric
from mmconv.benchmarks.convbench.layouts import layouts
from mmconv.benchmarks.convbench.metrics import DIRECT, metrics
from mmconv.core.types import Cell, Score, Table
from mmconv.stats import ScoreFrame
from model_zoo.simulated.planted import Alike, CandidateOptions, Errors, JudgeOptions, Propagation
from tests.mmconv.benchmarks.convbench.rows import options
from tests.mmconv.planted_truth import GIVEN, PLACES, Expected, expected

Wrong = Mapping[tuple[str, int], NDArray[np.bool_]]
"""Condition and turn -> which samples' answers are wrong."""

ALIKE = Alike(conditions=0.7, image=0.5)


def model(
    perception: float, reasoning: tuple[float, float], creation: tuple[float, float]
) -> CandidateOptions:
    """A candidate by its rates after right and after wrong answers."""
    return CandidateOptions(
        perception=perception,
        reasoning=Propagation(after_right=reasoning[0], after_wrong=reasoning[1]),
        creation=Propagation(after_right=creation[0], after_wrong=creation[1]),
        alike=ALIKE,
    )


MODELS = {
    "perception": model(0.5, (0.05, 0.8), (0.05, 0.8)),
    "reasoning": model(0.1, (0.5, 0.6), (0.05, 0.8)),
    "creation": model(0.3, (0.2, 0.4), (0.5, 0.55)),
    "mixed": model(0.35, (0.25, 0.7), (0.2, 0.6)),
    "strong": model(0.12, (0.02, 0.8), (0.02, 0.8)),
}

JUDGES = {
    **{
        f"right in {100 * (1 - rate):.0f} %": Errors(fails_right=rate, passes_wrong=rate)
        for rate in (0.0, 0.05, 0.1, 0.2, 0.3)
    },
    "lenient 20 %": Errors(passes_wrong=0.2),
    "lenient 40 %": Errors(passes_wrong=0.4),
    "harsh 20 %": Errors(fails_right=0.2),
    "harsh 40 %": Errors(fails_right=0.4),
    "side 20 %": Errors(side=0.2),
    "side 40 %, 90 %": Errors(side=0.4, fails_right=0.1, passes_wrong=0.1),
    **{
        f"{100 * (1 - rate):.0f} %, halo {100 * halo:.0f}": Errors(
            fails_right=rate, passes_wrong=rate, halo=halo
        )
        for rate, halo in ((0.1, 0.05), (0.1, 0.1), (0.2, 0.05), (0.2, 0.1))
    },
    "harsh 40 %, halo 10": Errors(fails_right=0.4, halo=0.1),
}


def main() -> None:
    args = parse()
    print(f"{args.runs} runs of {args.samples} samples on {args.samples // 2} images\n")
    print(
        "| judge | model | split covers | without | bounds cover | most: said | most: wrong "
        "| control fires | withheld if raw is wrong |"
    )
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    started = time.monotonic()
    cells: dict[str, list[Counts]] = {}
    for judge, name in product(args.judges, args.models):
        seeds = [*JUDGES].index(judge), [*MODELS].index(name)
        cell = simulate(MODELS[name], JUDGES[judge], args.runs, args.samples, seeds)
        print(f"| {judge} | {name} | {cell.line()} |", flush=True)
        cells.setdefault(judge, []).append(cell)
    print("\nFrom the lowest to the highest of the models, in percent:\n")
    print('| judge | split covers | bounds cover | "Most" said | "Most" wrong | control fires |')
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for judge, of_models in cells.items():
        print(f"| {judge} | {' | '.join(ranges(of_models))} |")
    print(f"\n{time.monotonic() - started:.0f} s")
    if missed := [
        judge
        for judge, of_models in cells.items()
        if max(cell.share("most wrong") for cell in of_models) > 0.05
    ]:
        sys.exit(
            f"'Most failures come from' is wrong in more than 5 % of runs: {', '.join(missed)}"
        )


def ranges(cells: Sequence[Counts]) -> Iterator[str]:
    """Each number of a judge from the lowest to the highest of the models.

    The split is that of the models in which at least half of the runs have an interval.
    """
    for name in ("split", "bounds", "most said", "most wrong", "fires"):
        shown = [cell for cell in cells if name != "split" or cell.share("without split") <= 0.5]
        found = sorted({round(100 * cell.share(name)) for cell in shown if cell.seen.get(name)})
        yield f"{found[0]} to {found[-1]}" if len(found) > 1 else str(*found) or "-"


@dataclass(frozen=True, slots=True)
class Counts:
    """What happened, each with how often and in how many cases it could have."""

    seen: Mapping[str, list[bool]]

    def share(self, name: str) -> float:
        return fmean(self.seen[name]) if self.seen.get(name) else 0.0

    def line(self) -> str:
        names = ("split", "without split", "bounds", "most said", "most wrong", "fires", "saved")
        return " | ".join(
            f"{100 * self.share(name):.0f} %" if self.seen.get(name) else "-" for name in names
        )


def simulate(
    candidate: CandidateOptions, errors: Errors, runs: int, samples: int, seeds: tuple[int, int]
) -> Counts:
    """What the product says of runs of a model, by a judge with these errors."""
    truth = expected(candidate, JudgeOptions())
    seen: defaultdict[str, list[bool]] = defaultdict(list)
    for run in range(runs):
        random = np.random.default_rng([*seeds, run])
        scores = judged(answers(candidate, samples, random), errors, random)
        tables = attribution(ScoreFrame(scores))
        for name, value in observe(tables, truth):
            seen[name].append(value)
    return Counts(seen)


def answers(candidate: CandidateOptions, samples: int, random: np.random.Generator) -> Wrong:
    """Which answers are wrong; two samples share an image."""
    alike = candidate.alike
    images = np.arange(samples) // 2
    shared = (random.random(images.max() + 1) < alike.image)[images]

    def draw() -> NDArray[np.float64]:
        own, of_image = random.random(samples), random.random(images.max() + 1)[images]
        return np.where(shared, of_image, own)

    wrong: dict[tuple[str, int], NDArray[np.bool_]] = {}
    kept = {turn: (draw() < alike.conditions, draw()) for turn in (2, 3)}
    for condition, turn in PLACES:
        is_kept, number = kept.get(turn, (np.ones(samples, dtype=bool), draw()))
        before = wrong.get((condition, turn - 1), np.zeros(samples, dtype=bool))
        rates = [candidate.rate(turn, after_wrong=state) for state in (False, True)]
        numbers = np.where(is_kept, number, draw())
        wrong[condition, turn] = numbers < np.where(before, rates[1], rates[0])
    return wrong


def judged(wrong: Wrong, errors: Errors, random: np.random.Generator) -> Iterator[Score]:
    """The ratings of these answers: 7 to 9 for what is taken for right, 3 to 5 for the rest."""
    for (condition, turn), states in wrong.items():
        given = min(GIVEN[condition], turn - 1) > 0
        rates = [errors.taken_for_wrong(wrong=state, after_given=given) for state in (False, True)]
        taken = random.random(len(states)) < np.where(states, rates[1], rates[0])
        by_side = random.random(len(states)) < errors.side
        taken = np.where(by_side, random.random(len(states)) < 0.5, taken)
        ratings = np.where(taken, 4, 8) + random.integers(-1, 2, len(states))
        for sample, rating in enumerate(ratings.tolist()):
            yield Score(
                sample=str(sample),
                condition=condition,
                metric=DIRECT.metric,
                turn=turn,
                tags={"cluster": str(sample // 2)},
                value=float(rating),
            )


@cache
def arranged() -> tuple[Layout, Sequence[Metric]]:
    """The table of attribution, and its metrics in direct grading."""
    chosen = options(grading=["direct"])
    tables = [each for each in layouts(chosen, None) if isinstance(each, Layout)]
    [layout] = [each for each in tables if each.name == "attribution_net"]
    titles = [group.title for group in (DIRECT.fixed, DIRECT.bounds, DIRECT.points)]
    return layout, [each for each in metrics(chosen) if each.group.title in titles]


def attribution(frame: ScoreFrame) -> Table:
    """The table by which failures are attributed, as a run prints it."""
    layout, measured = arranged()
    [table] = make_tables([layout], measured, {"model": frame}, Context(candidate="model"))
    return table


def observe(table: Table, truth: Expected) -> Iterator[tuple[str, bool]]:
    """What is true of a table's cells and findings."""
    layout, _ = arranged()
    shares, splits = (
        {
            f"{level}{DUE}{cause}": each
            for (score, level, cause), each in of.items()
            if score == "rating"
        }
        for of in (truth.net, truth.split)
    )
    for name, value in splits.items():
        cell = table.rows[name].get(DIRECT.fixed.title)
        yield "without split", cell is None or cell.low is None
        yield from holds("split", cell, value)
    for name, value in shares.items():
        yield from holds("bounds", table.rows[name].get(DIRECT.bounds.title), value)
    yield "fires", any(finding.startswith("Nothing is said") for finding in table.findings)
    said = most(table.findings)
    yield "most said", bool(said)
    yield "most wrong", any(shares[name] <= 0.5 for name in said)
    uncontrolled = {
        name: {column: cell for column, cell in row.items() if column != DIRECT.points.title}
        for name, row in table.rows.items()
    }
    assert layout.findings is not None
    if raw := [name for name in most(layout.findings(uncontrolled)) if shares[name] <= 0.5]:
        yield "saved", not {*raw} & {*said}


def holds(name: str, cell: Cell | None, share: float) -> Iterator[tuple[str, bool]]:
    """Whether the interval of a cell in percent holds a share, if there is one."""
    if cell is not None and cell.low is not None and cell.high is not None:
        yield name, cell.low - 1e-9 <= 100 * share <= cell.high + 1e-9


def most(findings: Iterable[str]) -> list[str]:
    """The rows of the levels that most failures are said to come from."""
    found = (re.match("Most failures in (.+) come from (.+?):", each) for each in findings)
    return [f"{match[1]}{DUE}{match[2]}" for match in found if match]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="of each judge and model")
    parser.add_argument("--samples", type=int, default=576, help="two to an image")
    parser.add_argument("--judges", nargs="+", choices=JUDGES, default=list(JUDGES))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    return parser.parse_args()


if __name__ == "__main__":
    main()
