"""Which level a mistake comes from: the counterfactual reading of the two ablations.

A creation that fails freely is laid to perception if perfect perception mends it, else to
reasoning if perfect reasoning mends it, else to creation itself; a failed reasoning likewise to
perception or to reasoning. A rating fails under a threshold, a pairwise judgement by being lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mmconv.benchmarks.convbench.quantities import DIRECT, Grading, column
from mmconv.stats import Column, ScoreFrame, summarise_share
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
