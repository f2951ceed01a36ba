"""A judge of the candidate's family is named in every report."""

from __future__ import annotations

import pytest

from mmconv.core.config import ModelSpec, RunSpec
from mmconv.report.notes import same_family


@pytest.mark.parametrize(
    ("candidate", "judge", "family"),
    [
        ("Qwen/Qwen2.5-VL-7B-Instruct", "/checkpoints/qwen3-8b", "Qwen"),
        ("gpt-4o-mini", "openai/gpt-4.1", "OpenAI"),
        ("pixtral-12b", "mistral-large", "Mistral"),
        ("gpt-4o-mini", "claude-haiku-4.5", None),
        ("my-model", "my-model", None),
    ],
)
def test_the_family_is_read_off_the_name(candidate: str, judge: str, family: str | None) -> None:
    models = {
        role: ModelSpec(provider="openai", model=name)
        for role, name in (("candidate", candidate), ("judge", judge))
    }
    notes = [*same_family(RunSpec(benchmark="convbench", models=models))]
    assert bool(notes) == (family is not None)
    assert family is None or f"models of {family}" in notes[0]
