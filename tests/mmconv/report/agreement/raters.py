"""Ratings as they would be read from a file of each rater, and what a run's folder tells of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from mmconv.report.agreement.panels import Rating


def rated(rater: str, values: Mapping[str, float | str | None], **fields: Any) -> list[Rating]:
    """What a rater gave samples; a sample is a row of the rater's own file."""
    return [
        Rating(where=f"{rater}.csv row {row}", sample=sample, rater=rater, value=value, **fields)
        for row, (sample, value) in enumerate(values.items(), start=2)
    ]


def write_manifest(folder: Path, benchmark: str, **facts: Any) -> None:
    """The manifest of a run of a benchmark, in whose folder its scores lie."""
    manifest = {
        "run": "r",
        "benchmark": benchmark,
        "conditions": ["free"],
        "samples": 1,
        "seed": 0,
        "models": {},
        "provenance": facts,
        "notes": [],
        "mmconv": "0",
        "python": "3",
        "packages": {},
    }
    (folder / "manifest.json").write_bytes(orjson.dumps(manifest))
