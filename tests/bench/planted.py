"""Whether intervals cover and attribution finds what was planted, over many simulated runs.

Run `python -m tests.bench.planted` (250 runs of each scenario, two minutes on one core). It prints
what `mmconv/benchmarks/convbench/TRUST.md` quotes: the truth, the mean estimate with the Monte
Carlo error of that mean, and the share of the 95 % intervals that hold the truth. It fails if that
share is not 93 to 97 % for each delta, all scenarios together. With `--lost 0.3`, that share of the
verdicts is taken away at random.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev

from tests.mmconv.planted import SCENARIOS, Estimate, Rehearsal, culprit, estimated, lose

LEAST, MOST = 0.93, 0.97


def main() -> None:
    options = parse()
    with tempfile.TemporaryDirectory(prefix="mmconv-planted-") as folder:
        rehearsal = Rehearsal(Path(folder) / "data", options.rows)
        everything: list[Estimate] = []
        for name in options.scenarios:
            everything += asyncio.run(play(rehearsal, name, options.runs, options.lost))
    print("\n## all scenarios")
    tell_pooled(everything)
    if outside := tell_deltas(everything):
        sys.exit(f"not within {LEAST:.0%} to {MOST:.0%}: {', '.join(outside)}")


async def play(rehearsal: Rehearsal, name: str, runs: int, lost: float) -> list[Estimate]:
    """Play a scenario's runs and print what came of them."""
    started = time.monotonic()
    scenario = SCENARIOS[name]
    truth = scenario.truth()
    found = [
        list(estimated(lose(await rehearsal.run(scenario, seed), lost, seed), truth))
        for seed in range(runs)
    ]
    print(f"\n## {name}: {runs} runs in {time.monotonic() - started:.0f} s\n")
    tell_culprits(found, scenario.planted)
    by_name: defaultdict[tuple[str, str, str], list[Estimate]] = defaultdict(list)
    for run in found:
        for each in run:
            by_name[each.kind, each.grading, each.name].append(each)
    print("| kind | grading | estimate | truth | mean estimate (error) | covered |")
    print("| --- | --- | --- | ---: | ---: | ---: |")
    for (kind, grading, label), estimates in by_name.items():
        print(f"| {kind} | {grading} | {label} | {line(estimates)} |")
    everything = [each for run in found for each in run]
    tell_pooled(everything)
    return everything


def line(estimates: Sequence[Estimate]) -> str:
    """Truth, mean estimate with its Monte Carlo error, coverage."""
    values = [each.value for each in estimates]
    error = stdev(values) / sqrt(len(values))
    return (
        f"{estimates[0].truth:.3f} | {fmean(values):.3f} ({error:.3f}) | "
        f"{100 * fmean(each.covers for each in estimates):.1f} %"
    )


def tell_culprits(found: Sequence[list[Estimate]], planted: str | None) -> None:
    for kind in ("net", "split"):
        for grading in ("direct", "pairwise"):
            named = [culprit(run, grading, kind) for run in found]
            counts = ", ".join(f"{level} {named.count(level)}" for level in sorted(set(named)))
            print(f"- {kind} shares, {grading}: planted {planted}; named {counts}")
    print()


def tell_pooled(estimates: Sequence[Estimate]) -> None:
    print()
    in_order = sorted(estimates, key=lambda each: each.kind)
    for kind, group in groupby(in_order, key=lambda each: each.kind):
        covers = [each.covers for each in group]
        print(f"- {kind}: {100 * fmean(covers):.2f} % of {len(covers)} intervals cover")


def tell_deltas(estimates: Sequence[Estimate]) -> list[str]:
    """Print the coverage of each delta; returns those outside of what is asked for."""
    covers: defaultdict[str, list[bool]] = defaultdict(list)
    for each in estimates:
        if each.kind == "delta":
            covers[f"{each.grading} {each.name}"].append(each.covers)
    print()
    for name, found in covers.items():
        print(f"- {name}: {100 * fmean(found):.2f} % of {len(found)}")
    return [name for name, found in covers.items() if not LEAST <= fmean(found) <= MOST]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=250, help="of each scenario")
    parser.add_argument("--lost", type=float, default=0.0, help="share of the verdicts")
    parser.add_argument("--rows", type=int, default=100, help="two to a picture")
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    return parser.parse_args()


if __name__ == "__main__":
    main()
