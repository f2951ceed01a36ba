"""What a run's numbers were made with, as every reader is told."""

from __future__ import annotations

import pytest

from mmconv.config import ModelSpec, RunSpec
from mmconv.report.summary import stand_ins


@pytest.mark.parametrize(
    ("provider", "told"),
    [
        ("fake", ("FAKE: stand-ins without a model sat as judge (m). ",)),
        ("simulated", ("FAKE: stand-ins without a model sat as judge (m). ",)),
        ("pocket", ()),
    ],
)
def test_models_that_make_up_their_replies_are_told(provider: str, told: tuple[str, ...]) -> None:
    seats = {
        "candidate": ModelSpec(provider="openai", model="gpt-4o"),
        "judge": ModelSpec(provider=provider, model="judge", name="m"),
    }
    found = stand_ins(RunSpec(benchmark="convbench", seats=seats))
    assert len(found) == len(told)
    assert all(note.startswith(start) for note, start in zip(found, told, strict=True))
