"""Ranks of runs, as far as their paired differences tell the runs apart.

Nothing is estimated here: differences and their p-values are those of `mmconv.stats`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from mmconv.stats import Quantity, contrast, holm

LEVEL = 0.05
"""The share of true differences of zero that are allowed to be called differences."""


def rank_ranges(
    quantities: Mapping[str, Quantity], *, least: bool = False
) -> dict[str, tuple[int, int]]:
    """The best and the worst rank that each of N runs may have; runs by their labels.

    The best is 1 plus the number of runs that are better than it by the paired difference, at
    `LEVEL` after Holm's correction over all pairs; the worst is N minus the number of those that
    are worse. With 95 % confidence all true ranks lie within (Mogstad et al., Review of Economic
    Studies 91, 2024). A pair without a p-value is not told apart. With `least` the lowest is best.
    """
    found = {
        (left, right): contrast(quantities[left], quantities[right], (left, right))
        for left, right in combinations(quantities, 2)
    }
    p_values = {pair: each.p for pair, each in found.items() if each.p is not None}
    better, worse = (dict.fromkeys(quantities, 0) for _ in range(2))
    for (left, right), p in holm(p_values).items():
        change = found[left, right].summary.mean
        if p < LEVEL and change:
            ahead, behind = (left, right) if (change < 0) != least else (right, left)
            better[behind] += 1
            worse[ahead] += 1
    return {label: (1 + better[label], len(quantities) - worse[label]) for label in quantities}
