"""Student's t: its tails and its quantile.

Importing scipy for these two would take longer than all else at the end of a run.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import count
from statistics import NormalDist

NORMAL = NormalDist().inv_cdf(0.975)
"""The 97.5 % quantile of the normal distribution."""

_CLOSE = 1e-15


def two_sided(t: float, freedom: float) -> float:
    """How probable it is that Student's t with so many degrees of freedom is as far from 0 as `t`.

    It is the regularised incomplete beta function of freedom / (freedom + t^2).
    """
    total = freedom + t * t
    return _incomplete_beta(freedom / total, t * t / total, freedom / 2, 0.5)


@lru_cache(maxsize=1024)
def t_quantile(freedom: float, tails: float = 0.05) -> float:
    """The t beyond which, on both sides together, Student's t is with probability `tails`."""
    # Newton's steps from below: the tail is convex, so none of them leads past the quantile
    t = NormalDist().inv_cdf(1 - tails / 2)
    while True:
        density = math.exp(
            -_log_beta(freedom / 2, 0.5) - (freedom + 1) / 2 * math.log1p(t * t / freedom)
        ) / math.sqrt(freedom)
        step = (two_sided(t, freedom) - tails) / (2 * density)
        t += step
        if step < 1e-8 * t:  # what is left is less than its square
            return t


def _incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    """I_x(a, b), where `rest` is 1 - x, by the continued fraction of DLMF 8.17.22."""
    if x == 0 or rest == 0:
        return float(rest == 0)
    if x > (a + 1) / (a + b + 2):  # the fraction converges quickly on the other side alone
        return 1 - _incomplete_beta(rest, x, b, a)
    factor = math.exp(a * math.log(x) + b * math.log(rest) - _log_beta(a, b)) / a
    # Each convergent is the one before it times the ratio of two quotients (Lentz's way).
    value, above, below = 1.0, 1.0, 0.0
    for n in count(1):
        m = n // 2
        if n % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        above, below = 1 + term / above, 1 / (1 + term * below)
        value *= above * below
        if abs(above * below - 1) < _CLOSE:
            break
    return factor / value


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
