"""Checkpoints whose parts do not fit each other are refused, and batches that change replies."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from mmconv.core.errors import ConfigError, Refused
from mmconv.core.types import Message
from model_zoo import hf
from model_zoo.hf import check_ready, open_backend
from model_zoo.hf.loading import count_embeddings
from tests.messages import user
from tests.model_zoo.hf_support import (
    PICTURES,
    ask,
    backend,
    checkpoint,
    count_batches,
    loaded,
    named,
    opened,
    set_fields,
)
from tests.tiny_checkpoints.parts import decoder_fields

# most of its loaders are untyped
library: Any = transformers

ASKED = user("What is it?")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A Llama's folder, to be changed."""
    return shutil.copytree(checkpoint("llama"), tmp_path / "copy")


def with_weights(folder: Path, **more: torch.Tensor) -> None:
    file = folder / "model.safetensors"
    save_file(load_file(file) | more, file, {"format": "pt"})


def scaled(folder: Path) -> None:
    """As modelopt writes FP8: numbers that mean something by their scales only."""
    with_weights(folder, **{"model.layers.0.self_attn.q_proj.weight_scale": torch.ones(())})


def adapted(folder: Path) -> None:
    lora = {
        f"model.layers.0.self_attn.q_proj.lora_{side}.weight": torch.ones(4, 4) for side in "AB"
    }
    with_weights(folder, **lora)


def beside(folder: Path) -> None:
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')


def without_names(folder: Path) -> None:
    (folder / "tokenizer_config.json").unlink()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (scaled, r"1 of the weights .* left out \(model.*q_proj\.weight_scale\)"),
        (adapted, r"2 of the weights .*lora_A\.weight.*merge_and_unload"),
        (beside, r"holds an adapter \(adapter_config\.json\)"),
        (without_names, r"writes bos_token and eos_token, .*tokenizer_config\.json"),
    ],
)
async def test_what_would_be_another_model_is_refused(
    copy: Path, spoil: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model_zoo.hf.options.find_spec", lambda name: None)  # no peft
    spoil(copy)
    with pytest.raises(ConfigError, match=words):
        await open_backend(named(copy), PICTURES)
    if spoil is beside:
        with pytest.raises(ConfigError, match=words):
            check_ready(named(copy))
    if spoil is without_names:
        with pytest.raises(ConfigError, match=words):
            hf.open_renderer(named(copy), PICTURES)


async def test_weights_that_nothing_needs_are_left_out(copy: Path) -> None:
    with_weights(copy, logit_scale=torch.ones(()), **{"visual.head.weight": torch.ones(2)})
    async with opened(copy):
        pass


async def test_quantized_weights_are_not_quantized_again(copy: Path) -> None:
    quantized = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    set_fields(copy, "config.json", quantization_config=quantized)
    with pytest.raises(ConfigError, match=r"quantized already .*leave options\.quantization out"):
        await open_backend(named(copy, quantization="8bit"), PICTURES)


@pytest.mark.parametrize("pad", [-1, 320])
async def test_rows_are_filled_up_by_a_token_that_has_an_embedding(pad: int) -> None:
    longer = user("What is it, and why is it there?")
    async with backend("llama") as model:
        alone = [(await ask(model, one)).text for one in (ASKED, longer)]
        loaded(model).settings.pad_token_id = pad
        loaded(model).tokenizer.pad_token = "<|no such token|>"
        sizes = count_batches(model)
        replies = await asyncio.gather(ask(model, ASKED), ask(model, longer))
    assert sizes == [2]
    assert [reply.text for reply in replies] == alone


async def test_a_token_without_an_embedding_is_refused_where_it_is_said(copy: Path) -> None:
    tokenizer = library.AutoTokenizer.from_pretrained(copy)
    tokenizer.add_tokens(["<|new|>"])
    tokenizer.save_pretrained(copy)
    async with opened(copy) as model:
        with pytest.raises(Refused, match=r"holds '<\|new\|>', .* first 320 tokens"):
            await ask(model, user("What is <|new|>?"))
        assert (await ask(model, ASKED)).output_tokens


def saved(folder: Path, kind: str, **fields: Any) -> Path:
    """A tiny model of another architecture, with the Llama's tokenizer."""
    tokenizer = library.AutoTokenizer.from_pretrained(checkpoint("llama"))
    settings = getattr(library, f"{kind}Config")(**{**decoder_fields(tokenizer), **fields})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = library.AutoModelForCausalLM.from_config(settings)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() > 1:
                    torch.nn.init.normal_(weight, std=0.2)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


LONG_ROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0] * 16,
    "long_factor": [4.0] * 16,
}
PHI = {"rope_parameters": LONG_ROPE, "original_max_position_embeddings": 64}
MEMORY = {"lru_width": 64, "attention_window_size": 32, "num_hidden_layers": 3, "head_dim": 32}
OTHERS: dict[str, dict[str, Any]] = {
    "Phi3": {**PHI, "num_key_value_heads": 2},
    "RecurrentGemma": {**MEMORY, "num_key_value_heads": 2},
    "Rwkv": {"attention_hidden_size": 64, "context_length": 2048},
    "GPT2": {"n_embd": 64, "n_layer": 2, "n_head": 2, "max_position_embeddings": 128},
}


@pytest.mark.parametrize("kind", OTHERS)
async def test_neighbours_change_no_reply(tmp_path: Path, kind: str) -> None:
    asked: list[tuple[Message, int]] = [
        (user("Why?" + " And is it red?" * times), limit)
        for times, limit in ((0, 12), (2, 12), (4, 8), (9, 8), (10, 8), (0, 100), (9, 12))
    ]
    async with opened(saved(tmp_path, kind, **OTHERS[kind])) as model:
        alone = [await ask(model, one, max_tokens=limit) for one, limit in asked]
        sizes = count_batches(model)
        together = await asyncio.gather(
            *[ask(model, one, max_tokens=limit) for one, limit in asked]
        )
    assert [reply.text for reply in together] == [reply.text for reply in alone]
    assert len({reply.text for reply in alone}) > 2
    assert max(sizes) > 1 or kind in ("RecurrentGemma", "Rwkv")


def test_tokens_of_pictures_may_have_embeddings_in_a_table_of_their_own() -> None:
    config = library.IdeficsConfig(
        vocab_size=100,
        additional_vocab_size=2,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        vision_config={
            "embed_dim": 16,
            "image_size": 8,
            "patch_size": 4,
            "intermediate_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
        },
    )
    assert count_embeddings(library.IdeficsForVisionText2Text(config)) == 102
