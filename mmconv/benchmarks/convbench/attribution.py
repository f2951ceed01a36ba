"""Which level a mistake comes from: the counterfactual reading of the two ablations.

A creation that fails freely is laid to perception if perfect perception mends it, else to
reasoning if perfect reasoning mends it, else to creation itself; a failed reasoning likewise to
perception or to reasoning. A rating fails under a threshold, a pairwise judgement by being lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

from mmconv.benchmarks.convbench.quantities import DIRECT, Grading, column
from mmconv.stats import Column, ScoreFrame, bounded, summarise_ratio, summarise_share
from mmconv.values import Summary

CHAINS = {
    "creation": (("free", 3), (("perception", "perception", 3), ("reasoning", "reasoning", 3))),
    "reasoning": (("free", 2), (("perception", "perception", 2),)),
}
"""Failed level -> where it fails, and what would mend it: (blamed level, condition, turn)."""

Failed: TypeAlias = tuple[float, ...]
"""Whether a sample fails (1) freely, then with more and more made perfect; 0 at the end."""


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
            result[level, blamed] = _net(failed, step, len(steps), free)
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
) -> Failed | str:
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


def _net(failed: Sequence[Failed | str], step: int, levels: int, rows: Column) -> Summary:
    """The fall in failures from one step to the next, as a share of the free failures.

    The first level's share is at most 1 and the last one's at least 0: there their scales end.
    """
    falls = [each if isinstance(each, str) else _fall(each, step) for each in failed]
    over, under = (
        Column.of(
            [None if isinstance(each, str) else each[part] for each in falls],
            samples=rows.samples,
            clusters=rows.clusters,
            reasons=[each if isinstance(each, str) else None for each in falls],
        )
        for part in (0, 1)
    )
    possible = [_fall((*each, 0.0), step) for each in product((0.0, 1.0), repeat=levels)]
    share = bounded(
        summarise_ratio(over, under, possible),
        lowest=0.0 if step == levels - 1 else None,
        highest=1.0 if step == 0 else None,
    )
    return replace(share, n=sum(value == 1 for value in under.values))


def _fall(failed: Failed, step: int) -> tuple[float, float]:
    """By how much a sample's failures fall at a step, and whether it fails freely."""
    return failed[step] - failed[step + 1], failed[0]
