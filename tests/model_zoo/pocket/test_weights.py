"""The shipped weights: small, whole, and worth their size on scenes that no training drew."""

import asyncio
import json
from collections.abc import Sequence

import pytest

from images import ImageStore
from images.drawn import Sample, draw_sample
from mmconv.core.config import load_model
from mmconv.core.errors import ConfigError
from mmconv.core.types import Message, Sampling, Text
from model_zoo.pocket import WEIGHTS
from model_zoo.pocket.recipe import words
from model_zoo.providers import provider_of

pytest.importorskip("transformers", reason="needs the extra hf")

SPEC = load_model("pocket")
SAMPLES = [draw_sample("shapes", 1, 5, number, "en") for number in range(32)]
STORE = ImageStore()


def conversation(sample: Sample, turn: int) -> list[Message]:
    """The messages before answer `turn`, earlier answers being the true ones."""
    messages: list[Message] = []
    for number, message in enumerate(sample.turns[:turn], start=1):
        parts = (STORE.add_bytes(sample.drawing.png),) if number == 1 else ()
        messages.append(Message(role="user", parts=(*parts, Text(text=message.instruction))))
        if number < turn:
            messages.append(Message(role="assistant", parts=(Text(text=message.reference),)))
    return messages


async def answers(turn: int) -> Sequence[str]:
    backend = await provider_of(SPEC).open_backend(SPEC, STORE)
    try:
        replies = await asyncio.gather(
            *(
                backend.generate(
                    conversation(sample, turn), Sampling(max_tokens=64), affinity=str(number)
                )
                for number, sample in enumerate(SAMPLES)
            )
        )
    finally:
        await backend.aclose()
    assert {reply.finish for reply in replies} == {"stop"}
    return [reply.text for reply in replies]


@pytest.mark.parametrize(("turn", "least"), [(1, 0.4), (2, 0.6), (3, 0.7)])
async def test_answers_are_far_better_than_chance(turn: int, least: float) -> None:
    exact = 0
    for sample, text in zip(SAMPLES, await answers(turn), strict=True):
        exact += sample.turns[turn - 1].check(text).outcome == "right"
    assert exact >= least * len(SAMPLES)


def test_the_weights_are_small_and_know_the_words_of_scenes() -> None:
    assert (WEIGHTS / "model.safetensors").stat().st_size < 8_000_000
    vocabulary = json.loads((WEIGHTS / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    ids = {word: number for number, word in enumerate(words())}
    assert vocabulary["vocab"] == ids


def test_there_is_one_model() -> None:
    other = SPEC.model_copy(update={"name": "other"})
    assert provider_of(SPEC).fingerprint(SPEC) == provider_of(other).fingerprint(other)
    with pytest.raises(ConfigError, match="pocket/scenes"):
        provider_of(SPEC.model_copy(update={"model": "large"}))


def test_its_prompts_can_be_printed() -> None:
    renderer = provider_of(SPEC).open_renderer(SPEC, STORE)
    assert renderer is not None
    prompt = renderer(conversation(SAMPLES[0], 1))
    assert prompt.text.startswith("<user><image>")
    assert prompt.image_tokens == 64


@pytest.mark.parametrize("name", ["pocket-blind", "pocket-confused"])
def test_the_damaged_variants_are_the_same_model(name: str) -> None:
    damaged = load_model(name)
    assert damaged.provider == "damaged"
    assert damaged.options["provider"] == "pocket"
    assert damaged.model == SPEC.model
