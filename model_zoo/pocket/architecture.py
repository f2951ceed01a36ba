"""The pocket model's shape: a LLaVA in miniature, made of transformers' own classes."""

from __future__ import annotations

from typing import Any

from model_zoo.pocket.vocabulary import build_tokenizer, words

SIDE = 80
"""Width and height of the model's input in pixels."""

PATCH = 10
GRID = SIDE // PATCH
PATCHES = GRID * GRID
CONTEXT = 2048
"""Longest prompt and reply together, in tokens."""

_MEAN = _DEVIATION = (0.5, 0.5, 0.5)


def build_processor(library: Any) -> Any:
    """Tokenizer and image processor together; `library` is transformers."""
    tokenizer = build_tokenizer(library, words())
    pictures = library.CLIPImageProcessor(
        size={"shortest_edge": SIDE},
        crop_size={"height": SIDE, "width": SIDE},
        image_mean=_MEAN,
        image_std=_DEVIATION,
    )
    return library.LlavaProcessor(
        pictures,
        tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=tokenizer.chat_template,
    )


def build_model(library: Any, tokenizer: Any) -> Any:
    """The model with fresh weights, drawn from torch's global generator."""
    tower = library.CLIPVisionConfig(
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        image_size=SIDE,
        patch_size=PATCH,
        hidden_act="gelu",
    )
    decoder = library.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=160,
        intermediate_size=400,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        initializer_range=0.05,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    config = library.LlavaConfig(
        vision_config=tower,
        text_config=decoder,
        image_token_index=tokenizer.image_token_id,
        image_seq_length=PATCHES,
        vision_feature_layer=-1,
        tie_word_embeddings=True,
    )
    return library.LlavaForConditionalGeneration(config)


def normalise(values: Any) -> Any:
    """Pixels 0-255 as the image processor hands them to the model."""
    return (values / 255 - _MEAN[0]) / _DEVIATION[0]
