"""Whole conversations through the transformers backend."""

import pytest

from mmconv.core.errors import Refused
from mmconv.core.types import Sampling, SeenImage
from tests.messages import user
from tests.model_zoo.hf_support import (
    PICTURES,
    ask,
    backend,
    both_ways,
    count_batches,
    loaded,
    said,
    turns,
)
from tests.tiny_checkpoints import FAMILIES

BLIND = ("llama", "qwen2", "t5")
ONE_IMAGE = ("blip2", "blip2-opt", "instructblip")
SEEING = tuple(name for name in FAMILIES if name not in BLIND)
MANY_IMAGES = tuple(name for name in SEEING if name not in ONE_IMAGE)
GREEDY = Sampling(max_tokens=10)


@pytest.mark.parametrize("family", FAMILIES)
async def test_concurrent_conversations_get_the_replies_of_lone_ones(family: str) -> None:
    pictures = [0] if family in SEEING else []
    conversations = [turns(number, pictures) for number in range(6)]
    async with backend(family) as model:
        sizes = count_batches(model)
        alone, together = await both_ways(model, conversations, GREEDY)
    assert together == alone
    assert sizes == [1] * 18 + [6] * 3
    assert len({reply for replies in alone for reply in replies}) > 9


@pytest.mark.parametrize("family", MANY_IMAGES)
async def test_images_may_come_at_any_turn_and_several_at_once(family: str) -> None:
    shown: tuple[list[int], ...] = ([], [0, 0], [2], [0, 1], [1, 1, 1], [0, 2, 2])
    conversations = [turns(number, pictures) for number, pictures in enumerate(shown)]
    async with backend(family) as model:
        alone, together = await both_ways(model, conversations, GREEDY)
    assert together == alone


@pytest.mark.parametrize("family", SEEING)
async def test_replies_depend_on_the_picture(family: str) -> None:
    async with backend(family) as model:
        replies = [
            await ask(model, user(PICTURES.draw(seed), "What is it?"), max_tokens=10)
            for seed in range(4)
        ]
    assert len({reply.text for reply in replies}) > 1
    assert replies[0].seen == (SeenImage(sha256=PICTURES.draw(0).sha256, width=80, height=40),)


@pytest.mark.parametrize("family", BLIND)
async def test_a_model_that_sees_nothing_refuses_images(family: str) -> None:
    async with backend(family) as model:
        with pytest.raises(Refused, match="sees no images") as refusal:
            await ask(model, user(PICTURES.draw(0), "What is it?"))
    assert refusal.value.kind == "rejected"


@pytest.mark.parametrize("family", ONE_IMAGE)
@pytest.mark.parametrize("count", [0, 2])
async def test_a_qformer_takes_exactly_one_image(family: str, count: int) -> None:
    async with backend(family) as model:
        shown = [PICTURES.draw(seed) for seed in range(count)]
        with pytest.raises(Refused, match=f"exactly one image per conversation, not {count}"):
            await ask(model, user(*shown, "What is it?"))


@pytest.mark.parametrize("family", ["llava", "qwen2-vl", "blip2", "t5"])
async def test_sampled_replies_follow_from_seed_and_trial(family: str) -> None:
    pictures = [0] if family in SEEING else []
    conversations = [turns(number, pictures) for number in range(5)]
    drawn = {}
    async with backend(family) as model:
        for seed, trial in ((1, 0), (1, 1), (2, 0)):
            sampling = Sampling(max_tokens=8, temperature=1.0, seed=seed, trial=trial)
            alone, together = await both_ways(model, conversations, sampling)
            assert together == alone
            drawn[seed, trial] = alone
    assert len({str(replies) for replies in drawn.values()}) == 3


@pytest.mark.parametrize("family", ["llava", "qwen2.5-vl", "llama", "t5"])
async def test_a_repetition_penalty_does_not_see_the_padding(family: str) -> None:
    pictures = [0] if family in SEEING else []
    conversations = [turns(number, pictures) for number in range(5)]
    async with backend(family) as model:
        plain, _ = await both_ways(model, conversations, GREEDY)
        loaded(model).settings.repetition_penalty = 3.0
        alone, together = await both_ways(model, conversations, GREEDY)
    assert together == alone != plain


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("bits", ["4bit", "8bit"])
async def test_quantised_weights_answer(bits: str) -> None:
    async with backend("llava", quantization=bits, dtype="auto") as model:
        kinds = {type(module).__name__ for module in loaded(model).model.modules()}
        reply = await ask(
            model, user(PICTURES.draw(3), "What is it?"), said("It is."), user("Why?")
        )
    assert (
        kinds & {"Linear4bit", "Linear8bitLt"}
        == {"4bit": {"Linear4bit"}, "8bit": {"Linear8bitLt"}}[bits]
    )
    assert reply.output_tokens
