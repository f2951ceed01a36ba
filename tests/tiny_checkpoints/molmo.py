"""Builder of a tiny Molmo2: an image is an overview and overlapping crops, pooled by index."""

from typing import Any

from tests.tiny_checkpoints.parts import Pair, decoder_fields, token_id, tower_fields

IMAGE_TOKENS = {
    "image_start_token_id": "<im_start>",
    "low_res_image_start_token_id": "<low_res_im_start>",
    "image_end_token_id": "<im_end>",
    "image_patch_id": "<im_patch>",
    "frame_start_token_id": "<frame_start>",
    "frame_end_token_id": "<frame_end>",
}
"""The tokens that its configuration names, by field."""


def molmo2(library: Any, tokenizer: Any) -> Pair:
    """Molmo2 with a decoder of its own kind."""
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32}
    config = library.Molmo2Config(
        text_config=decoder_fields(tokenizer) | {"head_dim": 32, "additional_vocab_size": 0},
        vision_config=tower_fields() | heads | {"image_size": [28, 28]},
        adapter_config={
            **heads,
            "vision_feature_layer": [1, 0],
            "hidden_size": 64,
            "intermediate_size": 128,
            "text_hidden_size": 64,
            "initializer_range": 0.2,
        },
        **{field: token_id(tokenizer, token) for field, token in IMAGE_TOKENS.items()},
    )
    pixels = library.Molmo2ImageProcessor(
        size={"height": 28, "width": 28}, max_crops=4, overlap_margins=[1, 1], patch_size=7
    )
    processor = library.Molmo2Processor(pixels, library.Molmo2VideoProcessor(), tokenizer)
    return library.Molmo2ForConditionalGeneration(config), processor
