"""Builders of tiny language models that see no images."""

from typing import Any

from tests.tiny_checkpoints.parts import Pair, decoder_fields, t5_fields


def qwen2_text(library: Any, tokenizer: Any) -> Pair:
    """A Qwen2 decoder."""
    return library.Qwen2ForCausalLM(library.Qwen2Config(**decoder_fields(tokenizer))), None


def llama_text(library: Any, tokenizer: Any) -> Pair:
    """A Llama decoder."""
    return library.LlamaForCausalLM(library.LlamaConfig(**decoder_fields(tokenizer))), None


def t5(library: Any, tokenizer: Any) -> Pair:
    """A T5 encoder-decoder."""
    return library.T5ForConditionalGeneration(library.T5Config(**t5_fields(tokenizer))), None
