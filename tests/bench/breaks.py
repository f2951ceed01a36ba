"""How often the interval of the level at which a model breaks holds the true level.

Run `python -m tests.bench.breaks` (two minutes). Models of graded strength answer images of ten
levels in seven families. A model's chance of a right answer falls with the level along a logistic
curve, from 1 less its lapses to its guessing rate; families shift the curve. The truth is where the
mean curve falls below one half. It fails if an interval holds the truth in less than 93 % of runs.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from mmconv.stats import Column, summarise_share
from mmconv.stats.curves import CurvePoint, Fall, find_fall

LEVELS = np.arange(1.0, 11.0)
STRENGTHS = (0.2, 1.2, 2.5, 4.0, 5.5, 7.3, 9.0, 9.9, 11.5)
WIDTHS = (0.25, 0.7, 1.3, 3.0, 6.0)
"""How many levels the curve needs to fall by a logit."""

LAPSES = ((0.0, 0.0), (0.1, 0.15), (0.2, 0.3))
"""How often a model errs anyway, and how often it guesses right."""

FAMILIES = 7
LEAST = 0.93


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="of each model")
    runs = parser.parse_args().runs
    lowest = 1.0
    print("| images of a level | covered, lowest | covered, mean | width, width 0.7, no lapses |")
    print("| ---: | ---: | ---: | ---: |")
    for images in (1, 2, 5, 10):
        shares, widths = [], []
        for width, (lapses, guesses), strength in product(WIDTHS, LAPSES, STRENGTHS):
            chances = curves(strength, width, lapses, guesses)
            falls = [fall_of(draw, images * FAMILIES) for draw in drawn(chances, images, runs)]
            true = zip(LEVELS.tolist(), chances.mean(axis=0).tolist(), strict=True)
            points = [CurvePoint(level, share, share, share, 1) for level, share in true]
            truth = find_fall(points, 0.5).place
            held = [each.low - 1e-9 <= truth <= each.high + 1e-9 for each in falls]
            shares.append(float(np.mean(held)))
            if width == 0.7 and not lapses:
                widths.append(float(np.mean([each.high - each.low for each in falls])))
        lowest = min(lowest, *shares)
        cells = f"{min(shares):.1%} | {np.mean(shares):.1%} | {np.mean(widths):.1f}"
        print(f"| {images * FAMILIES} | {cells} |", flush=True)
    if lowest < LEAST:
        sys.exit(f"an interval holds the truth in {lowest:.1%} of the runs, less than {LEAST:.0%}")


def curves(strength: float, width: float, lapses: float, guesses: float) -> NDArray[np.float64]:
    """The chance of a right answer by family and level."""
    shifts = np.linspace(-width, width, FAMILIES)[:, None]
    falling = 1 / (1 + np.exp((LEVELS - strength + shifts) / width))
    return guesses + (1 - guesses - lapses) * falling


def drawn(chances: NDArray[np.float64], images: int, runs: int) -> Sequence[Sequence[int]]:
    """The number of right answers by level of each run."""
    random = np.random.default_rng(1)
    counts: list[list[int]] = (
        random.binomial(images, chances, (runs, *chances.shape)).sum(1).tolist()
    )
    return counts


@cache
def interval(right: int, n: int) -> tuple[float, float]:
    """The interval that tables have for the share of right answers."""
    summary = summarise_share(Column.of([1.0] * right + [0.0] * (n - right)))
    assert summary.low is not None
    assert summary.high is not None
    return summary.low, summary.high


def fall_of(counts: Sequence[int], n: int) -> Fall:
    """The fall that a run's tables have."""
    points = [
        CurvePoint(float(level), right / n, *interval(right, n), n)
        for level, right in zip(LEVELS, counts, strict=True)
    ]
    return find_fall(points, 0.5)


if __name__ == "__main__":
    main()
