"""Ratings as they would be read from a file of each rater."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mmconv.agreement.ratings import Rating


def rated(rater: str, values: Mapping[str, float | str | None], **fields: Any) -> list[Rating]:
    """What a rater gave samples; a sample is a row of the rater's own file."""
    return [
        Rating(where=f"{rater}.csv row {row}", sample=sample, rater=rater, value=value, **fields)
        for row, (sample, value) in enumerate(values.items(), start=2)
    ]
