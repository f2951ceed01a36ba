"""The transformers backend on a GPU; nothing here runs without one."""

import asyncio
from typing import Any

import pytest

from mmconv.core.types import Message
from tests.messages import user
from tests.model_zoo.hf_support import PICTURES, ask, backend, count_batches, loaded

torch = pytest.importorskip("torch", reason="needs the extra hf")

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    # what libraries warn of depends on the device and is no matter of these tests
    pytest.mark.filterwarnings("default"),
]

GPU: dict[str, Any] = {"device_map": {"": 0}}
"""All of a model on the first GPU, whatever others there are."""


def prompts(count: int, *, pictures: bool = False) -> list[Message]:
    """User messages of `count` lengths, so that all but the longest are padded in a batch."""
    return [
        user(
            *([PICTURES.draw(number)] if pictures else []),
            f"What is {number}?" + " And why is it red?" * number,
        )
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("family", "attention"), [("llama", "sdpa"), ("llava", "sdpa"), ("llama", "flash_attention_2")]
)
async def test_a_batch_gives_the_replies_of_lone_prompts(family: str, attention: str) -> None:
    """Up to bfloat16's rounding; with the padding not masked, two thirds differ."""
    from transformers.utils.import_utils import is_flash_attn_2_available

    if attention == "flash_attention_2" and not is_flash_attn_2_available():
        pytest.skip("flash-attn is not installed")
    options = {**GPU, "dtype": "bfloat16", "attn_implementation": attention}
    asked = prompts(32, pictures=family == "llava")
    async with backend(family, **options) as model:
        assert loaded(model).device.type == "cuda"
        alone = [await ask(model, prompt, max_tokens=4) for prompt in asked]
        sizes = count_batches(model)
        together = await asyncio.gather(*[ask(model, prompt, max_tokens=4) for prompt in asked])
    assert sizes == [32]
    same = sum(one.text == other.text for one, other in zip(alone, together, strict=True))
    assert same >= 24
    assert len({reply.text for reply in alone}) > 16


async def test_sampled_replies_do_not_depend_on_the_batch() -> None:
    settings = {"temperature": 1.0, "seed": 7}
    async with backend("llama", **GPU) as model:
        alone = [await ask(model, prompt, **settings) for prompt in prompts(8)]
        together = await asyncio.gather(*[ask(model, prompt, **settings) for prompt in prompts(8)])
    assert [reply.text for reply in together] == [reply.text for reply in alone]


async def test_a_batch_that_does_not_fit_is_halved() -> None:
    """On a GPU made as small as lies between the needs of one prompt and of all."""
    asked = [user(f"What is {number}?" + " And why is it red?" * 140) for number in range(10, 34)]
    total = torch.cuda.get_device_properties(0).total_memory
    async with backend("llama", **GPU, max_batch_tokens=1_000_000) as model:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        lone = await ask(model, asked[0], max_tokens=2)
        needed_by_one = torch.cuda.max_memory_reserved()
        expected = await asyncio.gather(*[ask(model, prompt, max_tokens=2) for prompt in asked])
        needed_by_all = torch.cuda.max_memory_allocated()
        assert needed_by_one < needed_by_all
        # what is cached would be used without asking whether it is allowed
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction((needed_by_one + needed_by_all) / 2 / total)
        try:
            sizes = count_batches(model)
            replies = await asyncio.gather(*[ask(model, prompt, max_tokens=2) for prompt in asked])
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        budget = model.decoder.budget.tokens
    assert sizes == [24]
    assert [reply.text for reply in replies] == [reply.text for reply in expected]
    assert budget <= 24 * ((lone.input_tokens or 0) + 2) // 2


@pytest.mark.parametrize("family", ["llama", "llava"])
async def test_4_bit_weights_answer(family: str) -> None:
    pytest.importorskip("bitsandbytes", reason="needs the extra quant")
    options = {**GPU, "quantization": "4bit", "dtype": "auto"}
    async with backend(family, **options) as model:
        kinds = {type(module).__name__ for module in loaded(model).model.modules()}
        asked = [ask(model, prompt) for prompt in prompts(4, pictures=family == "llava")]
        replies = await asyncio.gather(*asked)
    assert "Linear4bit" in kinds
    assert all(reply.output_tokens for reply in replies)


async def test_first_weights_may_be_kept_beside_the_gpu() -> None:
    on_gpu = ("model.layers", "model.norm", "model.rotary_emb", "lm_head")
    kept = {"model.embed_tokens": "cpu", **dict.fromkeys(on_gpu, 0)}
    async with backend("llama", **GPU) as model:
        expected = [await ask(model, prompt) for prompt in prompts(4)]
    async with backend("llama", device_map=kept) as model:
        assert loaded(model).model.device.type == "meta"
        assert loaded(model).device.type == "cuda"
        replies = [await ask(model, prompt) for prompt in prompts(4)]
    assert [reply.text for reply in replies] == [reply.text for reply in expected]


async def test_closing_gives_the_memory_back() -> None:
    """After a first time: cuBLAS keeps a workspace for the next model."""
    levels = []
    for _ in range(2):
        async with backend("llava", **GPU) as model:
            await asyncio.gather(*[ask(model, prompt) for prompt in prompts(4, pictures=True)])
            in_use = torch.cuda.memory_allocated()
        levels.append(torch.cuda.memory_allocated())
        assert levels[-1] < in_use
    assert levels[1] <= levels[0]
