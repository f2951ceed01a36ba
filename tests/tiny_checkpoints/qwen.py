"""Builders of tiny vision-language models of Qwen, and of GLM, which is built alike."""

from typing import Any

from tests.tiny_checkpoints.parts import Pair, decoder_fields, token_id

_TOWER = {
    "depth": 2,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_heads": 2,
    "out_hidden_size": 64,
    "initializer_range": 0.2,
}


def _qwen_ids(tokenizer: Any) -> dict[str, int]:
    return {
        "image_token_id": token_id(tokenizer, "<|image_pad|>"),
        "video_token_id": token_id(tokenizer, "<|video_pad|>"),
        "vision_start_token_id": token_id(tokenizer, "<|vision_start|>"),
        "vision_end_token_id": token_id(tokenizer, "<|vision_end|>"),
    }


def _qwen_text_fields(tokenizer: Any) -> dict[str, Any]:
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 6, 6]}
    return {**decoder_fields(tokenizer), "rope_parameters": rope}


def _qwen_pixels(library: Any) -> tuple[Any, Any]:
    bounds = {"shortest_edge": 28 * 28, "longest_edge": 112 * 112}
    return library.Qwen2VLImageProcessor(size=bounds), library.Qwen2VLVideoProcessor(size=bounds)


def qwen2_vl(library: Any, tokenizer: Any) -> Pair:
    """Qwen2-VL: images in their own resolution, positions in three dimensions."""
    config = library.Qwen2VLConfig(
        text_config=_qwen_text_fields(tokenizer),
        vision_config={
            "depth": 2,
            "embed_dim": 64,
            "hidden_size": 64,
            "num_heads": 2,
            "initializer_range": 0.2,
        },
        **_qwen_ids(tokenizer),
    )
    pixels, frames = _qwen_pixels(library)
    return library.Qwen2VLForConditionalGeneration(config), library.Qwen2VLProcessor(
        pixels, tokenizer, frames
    )


def qwen2_5_vl(library: Any, tokenizer: Any) -> Pair:
    """Qwen2.5-VL: as Qwen2-VL, with windowed attention in the tower."""
    config = library.Qwen2_5_VLConfig(
        text_config=_qwen_text_fields(tokenizer),
        vision_config={**_TOWER, "window_size": 56, "fullatt_block_indexes": [1]},
        **_qwen_ids(tokenizer),
    )
    pixels, frames = _qwen_pixels(library)
    return (
        library.Qwen2_5_VLForConditionalGeneration(config),
        library.Qwen2_5_VLProcessor(pixels, tokenizer, frames),
    )


def qwen3_vl(library: Any, tokenizer: Any) -> Pair:
    """Qwen3-VL: features of several layers of the tower enter the decoder's first layers."""
    text = _qwen_text_fields(tokenizer) | {"head_dim": 32}
    text["rope_parameters"]["mrope_interleaved"] = True
    config = library.Qwen3VLConfig(
        text_config=text,
        vision_config={
            **_TOWER,
            "patch_size": 14,
            "deepstack_visual_indexes": [0],
            "num_position_embeddings": 64,
        },
        **_qwen_ids(tokenizer),
    )
    pixels, _ = _qwen_pixels(library)
    processor = library.Qwen3VLProcessor(pixels, tokenizer, library.Qwen3VLVideoProcessor())
    return library.Qwen3VLForConditionalGeneration(config), processor


def glm4v(library: Any, tokenizer: Any) -> Pair:
    """GLM-4.1V: as Qwen2-VL, with positions of its own in the tower."""
    bounds = {"shortest_edge": 28 * 28, "longest_edge": 112 * 112}
    config = library.Glm4vConfig(
        text_config=_qwen_text_fields(tokenizer),
        vision_config={**_TOWER, "image_size": 56},
        image_token_id=token_id(tokenizer, "<|image|>"),
        video_token_id=token_id(tokenizer, "<|video|>"),
        image_start_token_id=token_id(tokenizer, "<|begin_of_image|>"),
        image_end_token_id=token_id(tokenizer, "<|end_of_image|>"),
        video_start_token_id=token_id(tokenizer, "<|begin_of_video|>"),
        video_end_token_id=token_id(tokenizer, "<|end_of_video|>"),
    )
    processor = library.Glm4vProcessor(
        library.Glm4vImageProcessor(size=bounds), tokenizer, library.Glm4vVideoProcessor()
    )
    return library.Glm4vForConditionalGeneration(config), processor
