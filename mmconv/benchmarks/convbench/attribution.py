"""Which level a mistake comes from: the counterfactual reading of the two ablations.

A creation that fails freely is laid to perception if perfect perception mends it, else to
reasoning if perfect reasoning mends it, else to creation itself; a failed reasoning likewise to
perception or to reasoning. A rating fails under a threshold, a pairwise judgement by being lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, sqrt
from statistics import fmean, pvariance

from mmconv.benchmarks.convbench.quantities import DIRECT, Grading, column
from mmconv.stats import Column, ScoreFrame, summarise, summarise_share
from mmconv.stats.estimates import count_clusters, t_quantile
from mmconv.values import Summary

CHAINS = {
    "creation": (("free", 3), (("perception", "perception", 3), ("reasoning", "reasoning", 3))),
    "reasoning": (("free", 2), (("perception", "perception", 2),)),
}
"""Failed level -> where it fails, and what would mend it: (blamed level, condition, turn)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """One failed turn: the level that it is laid to, or None and why it cannot be."""

    sample: str
    cluster: str
    level: str
    laid_to: str | None
    why: str | None = None


def blames(frame: ScoreFrame, grading: Grading, threshold: float) -> Iterator[Blame]:
    """Every failed creation and reasoning, laid to a level where the ablations allow it."""
    for level, ((condition, turn), remedies) in CHAINS.items():
        free = column(frame, grading, condition, turn)
        mended = [
            (blamed, _by_sample(column(frame, grading, where, place)))
            for blamed, where, place in remedies
        ]
        for sample, cluster, value in zip(free.samples, free.clusters, free.values, strict=True):
            if value is None or passes(grading, value, threshold):
                continue
            yield _lay(
                Blame(sample=sample, cluster=cluster, level=level, laid_to=None),
                mended,
                grading,
                threshold,
            )


def passes(grading: Grading, value: float, threshold: float) -> bool:
    """Whether a score counts as a success: a rating at the threshold, or a win (in both orders)."""
    return value >= (threshold if grading is DIRECT else 1.0)


def shares(found: list[Blame]) -> dict[tuple[str, str], Summary]:
    """(failed level, blamed level) -> the share of the failures that are laid to it."""
    result = {}
    for level, (_, remedies) in CHAINS.items():
        failures = [blame for blame in found if blame.level == level]
        for blamed in (*(name for name, _, _ in remedies), level):
            result[level, blamed] = summarise_share(
                Column.of(
                    [
                        None if each.laid_to is None else float(each.laid_to == blamed)
                        for each in failures
                    ],
                    samples=[each.sample for each in failures],
                    clusters=[each.cluster for each in failures],
                    reasons=[each.why for each in failures],
                )
            )
    return result


def net_shares(
    frame: ScoreFrame, grading: Grading, threshold: float
) -> dict[tuple[str, str], Summary]:
    """(failed level, blamed level) -> by how much of itself the number of failures falls, net.

    With F failures freely and H with the level before made perfect, that level's net share is
    (F - H) / F; the failed level keeps what is left when all before it is perfect. The shares of a
    failed level add up to 1; one is negative where perfection spoils more than it mends. Samples
    count that are scored under every condition; `n` is the number of their free failures.
    """
    result = {}
    for level, ((condition, turn), remedies) in CHAINS.items():
        free = column(frame, grading, condition, turn)
        steps = [("no score freely", _by_sample(free))]
        for blamed, where, place in remedies:
            values = _by_sample(column(frame, grading, where, place))
            steps.append((f"no score with perfect {blamed}", values))
        failed = [_failures(sample, steps, grading, threshold) for sample in free.samples]
        for step, blamed in enumerate((*(name for name, _, _ in remedies), level)):
            result[level, blamed] = _net(failed, step, free)
    return result


def _lay(
    blame: Blame,
    mended: Sequence[tuple[str, Mapping[str, float | None]]],
    grading: Grading,
    threshold: float,
) -> Blame:
    """Lay one failure to the first level whose perfection mends it, else to its own."""
    for blamed, values in mended:
        value = values.get(blame.sample)
        if value is None:
            return replace(blame, why=f"no score with perfect {blamed}")
        if passes(grading, value, threshold):
            return replace(blame, laid_to=blamed)
    return replace(blame, laid_to=blame.level)


def _by_sample(values: Column) -> dict[str, float | None]:
    return dict(zip(values.samples, values.values, strict=True))


def _failures(
    sample: str,
    steps: Sequence[tuple[str, Mapping[str, float | None]]],
    grading: Grading,
    threshold: float,
) -> tuple[float, ...] | str:
    """Whether a sample fails freely, then with more and more made perfect; or what is not scored.

    The last number is always 0: with its own level perfect too, nothing fails.
    """
    failed = []
    for why, values in steps:
        value = values.get(sample)
        if value is None:
            return why
        failed.append(float(not passes(grading, value, threshold)))
    return (*failed, 0.0)


def _net(failed: Sequence[tuple[float, ...] | str], step: int, rows: Column) -> Summary:
    """The fall in failures from one step to the next, as a share of the free failures.

    A ratio r of two sums has, to the first order, the error of the mean of
    r + (fall - r * failure) / (failures per sample). The first share is 1 less a ratio of counts
    and the last one such a ratio; what lies between is a difference.
    """
    reasons = [each if isinstance(each, str) else None for each in failed]
    scored = [each for each in failed if not isinstance(each, str)]
    failures = sum(each[0] for each in scored)
    if not failures:
        missing = dict(Counter(why for why in reasons if why is not None))
        return Summary(mean=None, stderr=None, low=None, high=None, n=0, missing=missing)
    share = sum(each[step] - each[step + 1] for each in scored) / failures
    rate = failures / len(scored)
    values = [
        None
        if isinstance(each, str)
        else share + (each[step] - each[step + 1] - share * each[0]) / rate
        for each in failed
    ]
    column = Column.of(values, samples=rows.samples, clusters=rows.clusters, reasons=reasons)
    summary = replace(summarise(column), mean=share, n=int(failures))
    if summary.stderr is None:
        return summary
    left = {0: 1 - share, len(scored[0]) - 2: share}.get(step, 0.0)
    if left <= 0 or summary.stderr == 0:
        low, high = _change_ends(summary.stderr, column, share, 1 / rate)
    else:
        low, high = _ratio_ends(summary.stderr, column, left)
        if step == 0:
            low, high = 1 - high, 1 - low
    return replace(summary, low=low, high=high)


def _ratio_ends(stderr: float, values: Column, ratio: float) -> tuple[float, float]:
    """The interval of a ratio of two counts, made on logarithms: few failures may be left over."""
    factor = exp(t_quantile(count_clusters(values) - 1) * stderr / ratio)
    return ratio / factor, ratio * factor


def _change_ends(stderr: float, values: Column, share: float, unit: float) -> tuple[float, float]:
    """Agresti and Min's interval, as `mmconv.stats` has it for changes from -1 to 1.

    Two samples are added, half of one `unit` up, half of one down, and one unchanged, so that few
    changes, or none, do not make the interval too narrow.
    """
    numbers = [value for value in values.values if value is not None]
    effective = float(count_clusters(values))
    if stderr > 0:
        effective = min(pvariance(numbers) / stderr**2, float(len(numbers)))
    size = effective + 2
    centre = effective * share / size
    square = (effective * fmean(value**2 for value in numbers) + unit**2) / size
    half = t_quantile(count_clusters(values) - 1) * sqrt((square - centre**2) / size)
    return centre - half, centre + half
