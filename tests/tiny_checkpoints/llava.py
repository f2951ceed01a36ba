"""Builders of tiny LLaVA-like models: a tower, a projector, a decoder."""

from typing import Any

from tests.tiny_checkpoints.parts import Pair, decoder_fields, tower_fields


def llava(library: Any, tokenizer: Any) -> Pair:
    """CLIP tower, Llama decoder, one square per image."""
    config = library.LlavaConfig(
        vision_config=library.CLIPVisionConfig(**tower_fields()),
        text_config=library.LlamaConfig(**decoder_fields(tokenizer)),
        image_token_index=tokenizer.image_token_id,
        image_seq_length=16,
    )
    pixels = library.CLIPImageProcessor(
        size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}
    )
    processor = library.LlavaProcessor(
        pixels,
        tokenizer,
        patch_size=7,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )
    return library.LlavaForConditionalGeneration(config), processor


_PINPOINTS = [[28, 56], [56, 28], [56, 56]]


def llava_next(library: Any, tokenizer: Any) -> Pair:
    """LLaVA-NeXT: an image is an overview and up to four tiles."""
    config = library.LlavaNextConfig(
        vision_config=library.CLIPVisionConfig(**tower_fields()),
        text_config=library.LlamaConfig(**decoder_fields(tokenizer)),
        image_token_index=tokenizer.image_token_id,
        image_grid_pinpoints=_PINPOINTS,
        image_seq_length=16,
    )
    pixels = library.LlavaNextImageProcessor(
        size={"shortest_edge": 28},
        crop_size={"height": 28, "width": 28},
        image_grid_pinpoints=_PINPOINTS,
    )
    processor = library.LlavaNextProcessor(
        pixels,
        tokenizer,
        patch_size=7,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )
    return library.LlavaNextForConditionalGeneration(config), processor


def llava_onevision(library: Any, tokenizer: Any) -> Pair:
    """SigLIP tower, Qwen2 decoder, tiles as in LLaVA-NeXT."""
    config = library.LlavaOnevisionConfig(
        vision_config=library.SiglipVisionConfig(**tower_fields(), vision_use_head=False),
        text_config=library.Qwen2Config(**decoder_fields(tokenizer)),
        image_token_index=tokenizer.image_token_id,
        video_token_index=tokenizer.video_token_id,
        image_grid_pinpoints=_PINPOINTS,
    )
    square = {"height": 28, "width": 28}
    processor = library.LlavaOnevisionProcessor(
        library.LlavaOnevisionImageProcessor(size=square, image_grid_pinpoints=_PINPOINTS),
        tokenizer,
        library.LlavaOnevisionVideoProcessor(size=square),
        num_image_tokens=16,
        vision_feature_select_strategy="full",
    )
    return library.LlavaOnevisionForConditionalGeneration(config), processor
