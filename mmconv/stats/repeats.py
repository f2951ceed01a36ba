"""Two verdicts on the same answers: their spread, their reliability, their kappa.

Two columns have the same rows: the same answers, in the same order. Rows with both numbers count.
Clusters are those of the first column, and the intervals are cluster-robust
(`mmconv.stats.estimates`).

Squares of differences have heavy tails: a few verdicts that changed make most of their sum. So
the degrees of freedom of their error are not the clusters less one, but those of a variance that is
estimated from numbers with their kurtosis.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from mmconv.core.types import Summary
from mmconv.stats.column import Column, Numbers, number_names
from mmconv.stats.estimates import summarise, summarise_share
from mmconv.stats.spread import cluster_shares, degrees_of_freedom, find_influences
from mmconv.stats.student_t import t_quantile


def summarise_sd(one: Column, other: Column) -> Summary:
    """The standard deviation of a verdict about its own mean, from differences of two.

    It is the root of half their mean square. The interval is symmetric in the logarithm.
    """
    squares = of_both(one, other, (one.numbers - other.numbers) ** 2 / 2)
    variance = summarise(squares)
    if not variance.mean:
        return variance
    deviation = math.sqrt(variance.mean)
    if variance.low is None:
        return replace(variance, mean=deviation)
    factor = math.exp(_half_width(squares) / variance.mean / 2)
    return replace(variance, mean=deviation, low=deviation / factor, high=deviation * factor)


def summarise_reliability(one: Column, other: Column) -> Summary:
    """The intraclass correlation ICC(1,1): the share of the variance that repeats.

    It is 1 less the ratio of the variance within answers to all variance. The interval is that of
    the logarithm of this ratio, whose error is linearised. There is none if all verdicts repeat.
    Source: Shrout and Fleiss, Psychological Bulletin 86, 1979, 420-428.
    """
    within = of_both(one, other, (one.numbers - other.numbers) ** 2 / 2)
    here = within.present
    n, missing = int(here.sum()), within.missing
    none = Summary(mean=None, stderr=None, low=None, high=None, n=n, missing=missing)
    if not n:
        return none
    middle = float(np.concatenate([one.numbers[here], other.numbers[here]]).mean())
    total = ((one.numbers - middle) ** 2 + (other.numbers - middle) ** 2) / 2
    means = float(within.numbers[here].mean()), float(total[here].mean())
    if not means[1]:
        return none
    ratio = means[0] / means[1]
    if not ratio:
        return replace(none, mean=1.0)
    influence = replace(within, numbers=within.numbers / means[0] - total / means[1])
    if summarise(influence).low is None:
        return replace(none, mean=1 - ratio)
    factor = math.exp(_half_width(influence))
    return replace(none, mean=1 - ratio, low=1 - ratio * factor, high=1 - ratio / factor)


def summarise_kappa(one: Column, other: Column) -> Summary:
    """Cohen's kappa of two columns of 0 and 1.

    The interval is Wilson's for the agreement, the agreement by chance taken as known: it hardly
    varies if about half of the answers are right. So there is one at full agreement, too.
    """
    same = of_both(one, other, np.where(one.numbers == other.numbers, 1.0, 0.0))
    agreement = summarise_share(same)
    here = same.present
    shares = [float(each.numbers[here].mean()) if here.any() else 0.0 for each in (one, other)]
    chance = math.prod(shares) + math.prod(1 - share for share in shares)
    if agreement.mean is None or chance == 1:
        return replace(agreement, mean=None, stderr=None, low=None, high=None)

    def corrected(share: float | None) -> float | None:
        return None if share is None else (share - chance) / (1 - chance)

    return replace(
        agreement,
        mean=corrected(agreement.mean),
        low=corrected(agreement.low),
        high=corrected(agreement.high),
    )


def _half_width(column: Column) -> float:
    """Half the width of Student's interval of a mean whose error is estimated from heavy tails.

    A variance of G numbers with kurtosis k is as precise as one of about 2 G / (k - 1) degrees of
    freedom (O'Neill, American Statistician 68, 2014, 282-296). They are the sums of clusters.
    """
    known = column.known
    codes, _ = number_names(known.clusters)
    sums = np.bincount(codes, weights=find_influences(known.numbers, codes))
    squares = (sums - sums.mean()) ** 2
    heaviness = float((squares**2).mean() / squares.mean() ** 2) - 1
    most = degrees_of_freedom(cluster_shares(column))
    freedom = min(most, max(2 * len(sums) / heaviness, 2.0)) if heaviness else most
    return t_quantile(freedom) * math.sqrt(float((sums**2).sum()))


def of_both(one: Column, other: Column, numbers: Numbers) -> Column:
    """A number of each two verdicts; without one of them its reason, the first one's first."""
    here = one.present & other.present
    reasons = tuple(
        left if left is not None else right
        for left, right in zip(one.reasons, other.reasons, strict=True)
    )
    return replace(one, numbers=np.where(here, numbers, np.nan), reasons=reasons)
