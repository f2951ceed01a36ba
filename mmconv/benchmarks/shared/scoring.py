"""What a `score` is handed and gives: calls and outcomes by id, scores, and the scale of these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from mmconv.core.types import Call, Outcome, Score

Calls: TypeAlias = Mapping[str, Call]
Outcomes: TypeAlias = Mapping[str, Outcome]
Scores: TypeAlias = Iterable[Score]

Ends: TypeAlias = tuple[float, float]
"""The lowest and the highest value that a score can have."""

Scale: TypeAlias = Ends | Mapping[str, Ends | None] | None
"""The ends of all metrics, or those of each; None: there are none."""


def ends_of(scale: Scale, metric: str) -> Ends | None:
    """The ends of a metric's values, if they are told."""
    return scale.get(metric) if isinstance(scale, Mapping) else scale
