"""How often 95 % intervals hold a mean near the ends of a scale, or with clusters of unequal size.

Run `python -m tests.bench.intervals`. It draws scores with numpy, and prints in percent of the
draws how often the intervals of `mmconv.stats` hold the mean that the scores were drawn with. Those
of Student's t, which ignores the ends of the scale, are in parentheses.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from mmconv.core.types import Summary
from mmconv.stats import Column, summarise, summarise_share, summarise_share_change

Rates = Mapping[int, float]
"""Score -> how often it is drawn."""

Estimate = Callable[[Column], Summary]

RATINGS: Mapping[str, Rates] = {
    "2 % are 2, others 10": {2: 0.02, 10: 0.98},
    "5 % are 1, others 10": {1: 0.05, 10: 0.95},
    "2 % are 2, 20 % are 9, others 10": {2: 0.02, 9: 0.2, 10: 0.78},
    "1 % are 2, half are 9, others 10": {2: 0.01, 9: 0.49, 10: 0.5},
    "5 % are 2, 40 % are 8 or 9, others 10": {2: 0.05, 8: 0.1, 9: 0.3, 10: 0.55},
    "20 % are 9, others 10": {9: 0.2, 10: 0.8},
    "2 % are 9, others 1": {1: 0.98, 9: 0.02},
    "4 to 10, mostly 7": {4: 0.05, 5: 0.1, 6: 0.2, 7: 0.3, 8: 0.2, 9: 0.1, 10: 0.05},
}

SIZES = {
    "50 in 50": [1] * 50,
    "80 in 80": [1] * 80,
    "80 in 40": [2] * 40,
    "300 in 150": [2] * 150,
    "576 in 288": [2] * 288,
}
"""Scores in clusters -> the sizes of the clusters."""

UNEQUAL = {
    "60 % in one of 20": [114, *[4] * 19],
    "40 % in one of 30": [77, *[4] * 29],
    "1 to 12 in each of 12": [*range(1, 13)],
    "1 to 3 in each of 48": [1, 2, 3] * 16,
    "10 in each of 20": [10] * 20,
}

ESTIMATES: Mapping[str, tuple[Rates, Estimate]] = {
    "mean rating": (RATINGS["4 to 10, mostly 7"], lambda each: summarise_share(each, 1, 10)),
    "share": ({0: 0.3, 1: 0.7}, summarise_share),
    "change of a share": ({-1: 0.1, 0: 0.6, 1: 0.3}, summarise_share_change),
    "difference": ({-2: 0.2, 0: 0.4, 1: 0.2, 3: 0.2}, summarise),
}

ALIKE = 0.5
"""The share of the clusters that draw once for all of their scores."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=2000, help="of each cell")
    draws = parser.parse_args().draws
    print("| ratings | " + " | ".join(SIZES) + " |")
    lowest = []
    for name, rates in RATINGS.items():
        cells = []
        for sizes in SIZES.values():
            columns = [*drawn(rates, sizes, draws)]
            ours = coverage(columns, rates, partial(summarise_share, lowest=1, highest=10))
            cells.append(f"{ours:.1f} ({coverage(columns, rates, summarise):.1f})")
            lowest.append(ours)
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print("\n| clusters | " + " | ".join(ESTIMATES) + " |")
    for name, sizes in UNEQUAL.items():
        found = [
            coverage(drawn(rates, sizes, draws), rates, estimate)
            for rates, estimate in ESTIMATES.values()
        ]
        print(f"| {name} | {' | '.join(f'{each:.1f}' for each in found)} |", flush=True)
        lowest += found
    if min(lowest) < 92:
        sys.exit(f"a kind of interval holds the truth in {min(lowest):.1f} % only")


def drawn(rates: Rates, sizes: Sequence[int], draws: int) -> Iterator[Column]:
    """Columns of scores at these rates, in clusters of these sizes."""
    random = np.random.default_rng(0)
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    labels = [*map(str, cluster.tolist())]
    scores, ends = np.array([*rates], dtype=float), np.cumsum([*rates.values()])[:-1]
    for _ in range(draws):
        own, shared = random.random(len(cluster)), random.random(len(sizes))
        is_shared = random.random(len(sizes)) < ALIKE
        numbers = np.where(is_shared[cluster], shared[cluster], own)
        yield Column.of(scores[np.searchsorted(ends, numbers)].tolist(), clusters=labels)


def coverage(columns: Iterable[Column], rates: Rates, estimate: Estimate) -> float:
    """In how many percent of the columns the interval holds the true mean; none does not."""
    truth = sum(score * rate for score, rate in rates.items())
    summaries = [estimate(column) for column in columns]
    held = [
        each.low is not None and each.low - 1e-9 <= truth <= (each.high or 0.0) + 1e-9
        for each in summaries
    ]
    return 100 * float(np.mean(held))


if __name__ == "__main__":
    main()
