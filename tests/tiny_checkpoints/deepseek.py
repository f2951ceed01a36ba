"""Builders of tiny models by DeepSeek: one square per image, of a fixed number of tokens."""

from typing import Any

from tests.tiny_checkpoints.parts import Pair, decoder_fields, tower_fields


def deepseek_vl(library: Any, tokenizer: Any) -> Pair:
    """DeepSeek-VL: SigLIP tower, Llama decoder."""
    config = library.DeepseekVLConfig(
        vision_config=library.SiglipVisionConfig(**tower_fields()),
        text_config=library.LlamaConfig(**decoder_fields(tokenizer)),
        image_token_id=tokenizer.image_token_id,
        tie_word_embeddings=False,
    )
    pixels = library.DeepseekVLImageProcessor(size={"height": 28, "width": 28}, min_size=14)
    processor = library.DeepseekVLProcessor(pixels, tokenizer, num_image_tokens=16)
    return library.DeepseekVLForConditionalGeneration(config), processor


def janus(library: Any, tokenizer: Any) -> Pair:
    """Janus: a tower of its own, and a decoder that could draw too."""
    config = library.JanusConfig(
        vision_config=tower_fields() | {"projection_dim": 64, "num_image_tokens": 16, "depth": 2},
        text_config=library.LlamaConfig(**decoder_fields(tokenizer)),
        vq_config={
            "embed_dim": 8,
            "num_embeddings": 32,
            "latent_channels": 32,
            "base_channels": 32,
            "channel_multiplier": [1, 1],
            "num_res_blocks": 1,
            "projection_dim": 64,
            "image_token_embed_dim": 64,
            "num_patches": 4,
        },
        image_token_id=tokenizer.image_token_id,
    )
    pixels = library.JanusImageProcessor(size={"height": 28, "width": 28}, min_size=14)
    processor = library.JanusProcessor(pixels, tokenizer, num_image_tokens=16)
    return library.JanusForConditionalGeneration(config), processor
