"""Tiny checkpoints: small, reproducible, and loaded by the real Auto classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mmconv.core.errors import ConfigError
from model_zoo.checkpoints import checkpoint_fingerprint
from tests.model_zoo.hf_support import checkpoint
from tests.tiny_checkpoints import FAMILIES, make_checkpoint


def parameters(folder: Path) -> int:
    from safetensors import safe_open

    total = 0
    for file in folder.glob("*.safetensors"):
        reader: Any = safe_open
        with reader(file, "pt") as tensors:
            total += sum(tensors.get_tensor(name).numel() for name in tensors.keys())  # noqa: SIM118  # not a dict
    return total


@pytest.mark.parametrize("family", FAMILIES)
def test_a_checkpoint_is_tiny(family: str) -> None:
    assert 50_000 < parameters(checkpoint(family)) < 1_000_000


@pytest.mark.parametrize("family", ["llama", "llava"])
def test_a_seed_fixes_the_weights_and_leaves_the_callers_alone(family: str, tmp_path: Path) -> None:
    import torch

    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    made = [make_checkpoint(family, tmp_path / str(n), seed) for n, seed in enumerate((0, 0, 1))]
    assert torch.equal(torch.rand(1), expected)
    first, again, other = [checkpoint_fingerprint(str(folder)) for folder in made]
    assert first == again != other


@pytest.mark.parametrize("text", ["What is it?", "图中有什么？", "a\n\tb  c", "naïve 🦊"])
def test_any_text_passes_through_the_tokenizer(text: str) -> None:
    import transformers

    library: Any = transformers
    tokenizer = library.AutoTokenizer.from_pretrained(checkpoint("llama"))
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_the_chat_template_puts_images_where_they_stand() -> None:
    import transformers

    library: Any = transformers
    processor = library.AutoProcessor.from_pretrained(checkpoint("llava"))
    content = [
        {"type": "text", "text": "Look:"},
        {"type": "image"},
        {"type": "text", "text": "Well?"},
    ]
    written = processor.apply_chat_template(
        [{"role": "user", "content": content}], add_generation_prompt=True
    )
    assert written == "<|begin|><|user|>Look:<image>Well?<|end|><|assistant|>"


def test_an_unknown_family_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no tiny family 'gpt-5'; there are: llama"):
        make_checkpoint("gpt-5", tmp_path)
