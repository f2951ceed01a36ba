"""Builders of tiny BLIP-2-like models: a Q-Former between tower and language model."""

from typing import Any

from tests.tiny_checkpoints.parts import Pair, special_ids, t5_fields, token_id, tower_fields


def _qformer_fields(tokenizer: Any) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "encoder_hidden_size": 64,
        "initializer_range": 0.2,
        "pad_token_id": tokenizer.pad_token_id,
    }


def _blip2_with(library: Any, tokenizer: Any, text: Any) -> Pair:
    config = library.Blip2Config(
        vision_config=library.Blip2VisionConfig(**tower_fields()),
        qformer_config=library.Blip2QFormerConfig(**_qformer_fields(tokenizer)),
        text_config=text,
        num_query_tokens=4,
        image_token_index=token_id(tokenizer, "<image>"),
        initializer_range=0.2,
    )
    pixels = library.BlipImageProcessor(size={"height": 28, "width": 28})
    return (
        library.Blip2ForConditionalGeneration(config),
        library.Blip2Processor(pixels, tokenizer, num_query_tokens=4),
    )


def blip2(library: Any, tokenizer: Any) -> Pair:
    """BLIP-2 with a T5, as BLIP-2 FLAN-T5 is."""
    return _blip2_with(library, tokenizer, library.T5Config(**t5_fields(tokenizer)))


def blip2_opt(library: Any, tokenizer: Any) -> Pair:
    """BLIP-2 with a decoder-only OPT."""
    text = library.OPTConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        word_embed_proj_dim=64,
        ffn_dim=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=1024,
        init_std=0.4,
        tie_word_embeddings=False,
        **special_ids(tokenizer),
    )
    return _blip2_with(library, tokenizer, text)


def instructblip(library: Any, tokenizer: Any) -> Pair:
    """InstructBLIP with a T5: the Q-Former reads the prompt too."""
    config = library.InstructBlipConfig(
        vision_config=library.InstructBlipVisionConfig(**tower_fields()),
        qformer_config=library.InstructBlipQFormerConfig(**_qformer_fields(tokenizer)),
        text_config=library.T5Config(**t5_fields(tokenizer)),
        num_query_tokens=4,
        image_token_index=token_id(tokenizer, "<image>"),
        initializer_range=0.2,
    )
    pixels = library.BlipImageProcessor(size={"height": 28, "width": 28})
    processor = library.InstructBlipProcessor(pixels, tokenizer, tokenizer, num_query_tokens=4)
    return library.InstructBlipForConditionalGeneration(config), processor
