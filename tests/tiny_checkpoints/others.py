"""Builders of tiny models with tiles, padding or cross-attention of their own kind."""

from typing import Any

from tests.tiny_checkpoints.parts import Pair, decoder_fields, token_id, tower_fields


def internvl(library: Any, tokenizer: Any) -> Pair:
    """InternVL: an image is up to four tiles and an overview."""
    tower = tower_fields() | {"image_size": [28, 28], "patch_size": [7, 7]}
    config = library.InternVLConfig(
        vision_config=library.InternVLVisionConfig(**tower),
        text_config=library.Qwen2Config(**decoder_fields(tokenizer)),
        image_token_id=tokenizer.context_image_token_id,
        image_seq_length=4,
    )
    square = {"height": 28, "width": 28}
    processor = library.InternVLProcessor(
        library.GotOcr2ImageProcessor(size=square, crop_to_patches=True, max_patches=4),
        tokenizer,
        library.InternVLVideoProcessor(size=square),
        image_seq_length=4,
    )
    return library.InternVLForConditionalGeneration(config), processor


def idefics3(library: Any, tokenizer: Any) -> Pair:
    """Idefics3 (SmolVLM is built alike): tiles, padded and masked."""
    config = library.Idefics3Config(
        vision_config=tower_fields(),
        text_config=library.LlamaConfig(**decoder_fields(tokenizer)),
        image_token_id=token_id(tokenizer, "<image>"),
        scale_factor=2,
    )
    pixels = library.Idefics3ImageProcessor(
        size={"longest_edge": 56}, max_image_size={"longest_edge": 28}
    )
    processor = library.Idefics3Processor(pixels, tokenizer, image_seq_len=4)
    return library.Idefics3ForConditionalGeneration(config), processor


def gemma3(library: Any, tokenizer: Any) -> Pair:
    """Gemma 3: SigLIP tower, sliding and full attention, images attend both ways."""
    text = decoder_fields(tokenizer) | {
        "head_dim": 16,
        "query_pre_attn_scalar": 16,
        "sliding_window": 64,
        "tie_word_embeddings": False,
        "layer_types": ["sliding_attention", "full_attention"],
    }
    config = library.Gemma3Config(
        text_config=library.Gemma3TextConfig(**text),
        vision_config=library.SiglipVisionConfig(**tower_fields(), vision_use_head=False),
        mm_tokens_per_image=4,
        boi_token_index=tokenizer.boi_token_id,
        eoi_token_index=tokenizer.eoi_token_id,
        image_token_index=tokenizer.image_token_id,
        eos_token_id=tokenizer.eos_token_id,
        initializer_range=0.2,
        tie_word_embeddings=False,
    )
    pixels = library.Gemma3ImageProcessor(size={"height": 28, "width": 28})
    processor = library.Gemma3Processor(pixels, tokenizer, image_seq_length=4)
    return library.Gemma3ForConditionalGeneration(config), processor


def mllama(library: Any, tokenizer: Any) -> Pair:
    """Llama 3.2 Vision: images enter by cross-attention, in masked tiles."""
    tower = tower_fields() | {"attention_heads": 2, "num_global_layers": 1}
    del tower["num_attention_heads"]
    config = library.MllamaConfig(
        vision_config=library.MllamaVisionConfig(
            **tower, vision_output_dim=128, max_num_tiles=4, intermediate_layers_indices=[0]
        ),
        text_config=library.MllamaTextConfig(
            **decoder_fields(tokenizer) | {"num_hidden_layers": 3}, cross_attention_layers=[1]
        ),
        image_token_index=token_id(tokenizer, "<|image|>"),
    )
    pixels = library.MllamaImageProcessor(size={"height": 28, "width": 28}, max_image_tiles=4)
    return library.MllamaForConditionalGeneration(config), library.MllamaProcessor(
        pixels, tokenizer
    )


def mistral3(library: Any, tokenizer: Any) -> Pair:
    """Mistral 3 (Pixtral tower): images in their own resolution, padded."""
    config = library.Mistral3Config(
        vision_config=library.PixtralVisionConfig(**tower_fields(image_size=56)),
        text_config=library.MistralConfig(**decoder_fields(tokenizer)),
        image_token_index=token_id(tokenizer, "[IMG]"),
        spatial_merge_size=2,
    )
    pixels = library.PixtralImageProcessor(size={"longest_edge": 56}, patch_size=7)
    processor = library.PixtralProcessor(pixels, tokenizer, patch_size=7, spatial_merge_size=2)
    return library.Mistral3ForConditionalGeneration(config), processor


def aya_vision(library: Any, tokenizer: Any) -> Pair:
    """Aya Vision: an image is up to four tiles and an overview, for a Cohere decoder."""
    text = decoder_fields(tokenizer) | {"head_dim": 32, "sliding_window": 64}
    config = library.AyaVisionConfig(
        vision_config=library.SiglipVisionConfig(**tower_fields(), vision_use_head=False),
        text_config=library.Cohere2Config(**text),
        image_token_index=token_id(tokenizer, "<|IMG_PATCH|>"),
        downsample_factor=2,
        tie_word_embeddings=False,
    )
    pixels = library.GotOcr2ImageProcessor(
        size={"height": 28, "width": 28}, crop_to_patches=True, max_patches=4
    )
    processor = library.AyaVisionProcessor(
        pixels, tokenizer, patch_size=7, img_size=28, downsample_factor=2
    )
    return library.AyaVisionForConditionalGeneration(config), processor
