"""Whether numbers corrected by people's labels hold the truth when the judge errs.

Run `python -m tests.bench.corrections`. Runs are those of `tests.bench.judge_error`; people rate
all answers of some samples without error, drawn by image. For each judge and model it prints how
often the 95 % interval of the corrected parts of the failures in creation holds the truth, how
often a part has none, and how often the largest part is that of the planted level, in runs that
show all parts. Next to it are parts by the rates `a` of each condition, and corrected deltas. Then
it draws ratings of a judge that is kinder by some points after reference turns, in 20 times as many
runs. `TRUST.md` quotes the tables.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from statistics import fmean

import numpy as np

from mmconv.benchmarks.ablations.metrics import DELTAS, DUE, QUANTITIES
from mmconv.benchmarks.base.corrections import corrected
from mmconv.benchmarks.base.metrics import Delta, Metric, Ratio
from mmconv.benchmarks.convbench.metrics import DIRECT, metrics
from mmconv.core.types import Score
from mmconv.stats import Column, ScoreFrame, pair
from mmconv.stats.corrections import attribute, correct, find_rate, summarise_corrections
from model_zoo.simulated.planted import LEVELS, CandidateOptions, Errors, JudgeOptions
from tests.bench.judge_error import JUDGES, MODELS, Wrong, answers, judged
from tests.mmconv.benchmarks.convbench.rows import options
from tests.mmconv.planted_truth import Expected, expected

CONDITIONS = ("free", "perception", "reasoning")
SHOWN = ("right in 90 %", "right in 80 %", "harsh 40 %", "80 %, halo 5", "80 %, halo 10")
HALOS = (0.0, 0.5, 1.0)
COLUMNS = ("parts cover", "without", "largest", "by a cover", "by a without", "deltas cover")


def main() -> None:
    args = parse()
    print(f"{args.runs} runs of {args.samples} samples, of which people rate {args.labels}\n")
    print(f"| judge | model | {' | '.join(COLUMNS)} |\n| --- | --- |{' ---: |' * len(COLUMNS)}")
    started = time.monotonic()
    for judge, model in product(args.judges, args.models):
        seen = simulate(MODELS[model], JUDGES[judge], args)
        line = " | ".join(
            f"{100 * fmean(seen[name]):.0f} %" if seen[name] else "-" for name in COLUMNS
        )
        print(f"| {judge} | {model} | {line} |", flush=True)
    print("\n| kinder after reference turns | corrected delta covers | raw delta covers |")
    print("| ---: | ---: | ---: |")
    for halo in HALOS:
        covers = [fmean(each) for each in zip(*kinder(halo, args), strict=True)]
        print(
            f"| {halo:g} points | {100 * covers[0]:.1f} % | {100 * covers[1]:.1f} % |", flush=True
        )
    print(f"\n{time.monotonic() - started:.0f} s")


def simulate(
    candidate: CandidateOptions, errors: Errors, args: argparse.Namespace
) -> Mapping[str, list[bool]]:
    """What the corrected numbers of runs of a model come to."""
    truth = expected(candidate, JudgeOptions())
    parts = [truth.net["rating", "creation", level] for level in LEVELS]
    seen: defaultdict[str, list[bool]] = defaultdict(list)
    for run in range(args.runs):
        random = np.random.default_rng([21, run])
        wrong = answers(candidate, args.samples, random)
        frame = ScoreFrame(judged(wrong, errors, random))
        images = random.permutation(args.samples // 2)[: args.labels // 2]
        frame.people = ScoreFrame(rated(wrong, {*images.tolist()}, random))
        for name, value in (*observe(frame, truth, parts), *by_rates(frame, parts)):
            seen[name].append(value)
    return seen


def rated(wrong: Wrong, images: set[int], random: np.random.Generator) -> Iterator[Score]:
    """The ratings of these answers by people, who make no errors."""
    for score in judged(wrong, Errors(), random):
        if int(score.sample) // 2 in images:
            yield score


@cache
def chosen() -> tuple[list[Metric], list[Delta]]:
    """The parts of all failures in creation, and the deltas of single turns."""
    every = list(metrics(options(grading=["direct"])))
    parts = {f"creation{DUE}{level}": level for level in LEVELS}
    ratios = [
        each
        for each in every
        if isinstance(each, Ratio) and each.group == DIRECT.bounds and each.name in parts
    ]
    ratios.sort(key=lambda each: LEVELS.index(parts[each.name]))
    deltas = [
        each
        for each in every
        if isinstance(each, Delta)
        and each.group == DIRECT.group
        and each.table == "deltas"
        and QUANTITIES[DELTAS[each.name][0]][1]
    ]
    return [*ratios], deltas


def observe(frame: ScoreFrame, truth: Expected, parts: list[float]) -> Iterator[tuple[str, bool]]:
    ratios, deltas = chosen()
    values = []
    for metric, part in zip(ratios, parts, strict=True):
        cell = corrected(metric, frame)
        shown = cell is not None and cell.low is not None and cell.high is not None
        yield "without", not shown
        if cell is not None and cell.low is not None and cell.high is not None:
            yield "parts cover", cell.low <= 100 * part <= cell.high
            assert isinstance(cell.value, float)
            values.append(cell.value)
    if len(values) == len(parts):
        yield "largest", int(np.argmax(values)) == int(np.argmax(parts))
    for delta in deltas:
        start, goal = (truth.means["rating", *QUANTITIES[end]] for end in DELTAS[delta.name])
        cell = corrected(delta, frame)
        assert cell is not None
        assert cell.low is not None
        assert cell.high is not None
        yield "deltas cover", cell.low <= goal - start <= cell.high


def by_rates(frame: ScoreFrame, parts: list[float]) -> Iterator[tuple[str, bool]]:
    """The same parts by the rate at which the judge fails right answers under each condition."""
    assert frame.people is not None
    failures, rates = [], []
    for condition in CONDITIONS:
        columns = []
        for each in (frame, frame.people):
            column = each.select(metric=DIRECT.metric, condition=condition, turn=3)
            numbers = [float((value or 0.0) < DIRECT.threshold) for value in column.values]
            columns.append(Column.of(numbers, samples=column.samples, clusters=column.clusters))
        rate = find_rate(*columns, of=0)
        assert rate is not None
        failures.append(columns[0])
        rates.append(rate)
    for summary, part in zip(attribute(failures, rates), parts, strict=True):
        yield "by a without", summary.low is None
        if summary.low is not None and summary.high is not None:
            yield "by a cover", summary.low <= part <= summary.high


def kinder(halo: float, args: argparse.Namespace) -> Iterator[tuple[bool, bool]]:
    """Whether the corrected and the raw delta hold the true one, 0.4 points on average."""
    size = args.samples // 2 * 2
    for run in range(20 * args.runs):
        random = np.random.default_rng([22, run])
        image = np.repeat(random.normal(0, 0.8, size // 2), 2)
        change = np.repeat(random.normal(0.4, 0.6, size // 2), 2) + random.normal(0, 1, size)
        before = 6 + image + random.normal(0, 1.5, size)
        people = (before, before + change)
        judge = [each + random.normal(0, 1.2, size) for each in people]
        clusters = [str(row // 2) for row in range(size)]
        columns = [
            Column.of(each.tolist(), clusters=clusters)
            for each in (*people, judge[0], judge[1] + halo)
        ]
        delta = pair(columns[2], columns[3])
        images = {*random.permutation(size // 2)[: args.labels // 2].tolist()}
        rows = [row for row in range(size) if row // 2 in images]
        correction = correct(delta, pair(columns[0], columns[1]).rows(rows))
        raw = summarise_corrections([(correct(delta, delta), 1.0)])
        covers = []
        for summary in (summarise_corrections([(correction, 1.0)]), raw):
            assert summary.low is not None
            assert summary.high is not None
            covers.append(summary.low <= 0.4 <= summary.high)
        yield covers[0], covers[1]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="of each judge and model")
    parser.add_argument("--samples", type=int, default=576, help="two to an image")
    parser.add_argument("--labels", type=int, default=100, help="samples that people rate")
    parser.add_argument("--judges", nargs="+", choices=JUDGES, default=list(SHOWN))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    return parser.parse_args()


if __name__ == "__main__":
    main()
