"""Who made a run's replies and judged them, as every reader is told."""

import pytest

from mmconv.core.config import ModelSpec, RunSpec
from mmconv.report.notes import fake_model_notes, other_models, same_family


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        ("fake", ("FAKE MODELS: judge (m). ",)),
        ("simulated", ("FAKE MODELS: judge (m). ",)),
        ("pocket", ()),
    ],
)
def test_models_that_make_up_their_replies_are_told(provider: str, words: tuple[str, ...]) -> None:
    roles = {
        "candidate": ModelSpec(provider="openai", model="gpt-4o"),
        "judge": ModelSpec(provider=provider, model="judge", name="m"),
    }
    found = fake_model_notes(RunSpec(benchmark="convbench", models=roles))
    assert len(found) == len(words)
    assert all(note.startswith(start) for note, start in zip(found, words, strict=True))


SAME = [
    ("gpt-4o", "gpt-4o"),
    ("gpt-4o", "gpt-4o-2024-08-06"),
    ("gpt-4o-2024-08-06", "gpt-4o"),
    ("openai/gpt-4o", "gpt-4o-2024-08-06, fingerprint fp_1"),
    ("claude-haiku-4-5", "claude-haiku-4-5-20251001"),
    ("mistral-large-latest", "mistral-large-2411"),
    ("gemini-3.5-flash-lite", "models/gemini-3.5-flash-lite"),
    ("qwen/qwen2.5-vl", "qwen/qwen2.5-vl:free by DeepInfra"),
    ("llama3", "llama3:latest"),
    ("Qwen/Qwen2.5-VL-7B-Instruct", "qwen2.5-vl-7b-instruct@main"),
    ("/checkpoints/step-200/", "mine"),
]
OTHER = [
    ("gpt-4o", "gpt-4o-mini"),
    ("gpt-4o", "gpt-4o-mini-2024-07-18"),
    ("gpt-4o-2024-08-06", "gpt-4o-2024-11-20"),
    ("llama-3", "llama-3-70b"),
    ("gpt-4", "gpt-4.1"),
    ("llama3", "llama3:70b"),
    ("qwen2:0.5b", "qwen2"),
]


def told_of(asked: str, counts: dict[str, int]) -> list[str]:
    roles = {"candidate": ModelSpec(provider="openai", model=asked, name="mine")}
    return list(other_models(RunSpec(benchmark="x", models=roles), {"candidate": counts}))


@pytest.mark.parametrize(("asked", "answered"), SAME)
def test_an_alias_of_the_model_that_was_asked_is_no_other(asked: str, answered: str) -> None:
    """What a server is told to call its model is not known to be a name of it."""
    assert told_of(asked, {answered: 3}) == []


@pytest.mark.parametrize(("asked", "answered"), OTHER)
def test_another_model_than_the_one_that_was_asked_is_told(asked: str, answered: str) -> None:
    assert told_of(asked, {answered: 1200}) == [
        f"OTHER MODEL: candidate (mine) requested {asked}, and the server reports replies by "
        f"{answered} (1,200 replies)."
    ]


def test_several_models_that_answered_are_told_and_builds_of_one_are_not() -> None:
    counts = {"a, fingerprint 1": 3, "a, fingerprint 2": 4}
    assert told_of("a", counts) == []
    assert told_of("a", counts | {"a by X": 9}) == [
        "SEVERAL MODELS: the server of candidate (mine) reports replies by a by X (9 replies), a "
        "(7 replies). These numbers mix them."
    ]
    many = {f"m{number}": 1 for number in range(7)}
    assert "m4 (1 reply), and 2 more. These" in told_of("a", many)[0]


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
