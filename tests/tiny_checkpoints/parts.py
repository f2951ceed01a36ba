"""What tiny checkpoints are made of: a tokenizer, a chat template, small towers and decoders.

The tokenizer is a byte-level BPE trained on the spot, so that any text passes through it. Nothing
here is trained further: replies are noise, but noise that depends on every word and pixel.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

Pair: TypeAlias = tuple[Any, Any]
"""A model and its processor; the processor is None where the tokenizer is all there is."""

VOCABULARY = 320
"""Entries of the byte-level BPE, without the special tokens."""

CONTEXT = 16384
"""Longest prompt and reply together, in tokens."""

PAD, BEGIN, END = "<|pad|>", "<|begin|>", "<|end|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")

_CORPUS = (
    "What does the picture show, and what is written on it?",
    "Describe the colours and shapes from left to right.",
    "Why do you think so? Give the reason in one sentence.",
    "Write a slogan, a caption or a short story that fits the answer above.",
    "The red circle stands left of the blue square and the green triangle.",
    "图中有什么？请用一句话回答。",
)

_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' }}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}{{ 'IMAGE' }}{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}"
    "{{ eos_token }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def chat_template(image: str) -> str:
    """A Jinja template with role marks; `image` is written where a message holds an image."""
    return _TEMPLATE.replace("IMAGE", image)


def train_tokenizer(library: Any, named: Mapping[str, str]) -> Any:
    """A byte-level BPE tokenizer with the role marks and the `named` special tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[PAD, BEGIN, END, *ROLES, *dict.fromkeys(named.values())],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(_CORPUS, trainer)
    return library.PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token=BEGIN,
        eos_token=END,
        pad_token=PAD,
        extra_special_tokens=dict(named),
        padding_side="left",
    )


def special_ids(tokenizer: Any) -> dict[str, int]:
    """The ids that every text configuration wants to know."""
    return {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }


def token_id(tokenizer: Any, token: str) -> int:
    """The id of a special token."""
    return int(tokenizer.convert_tokens_to_ids(token))


def decoder_fields(tokenizer: Any) -> dict[str, Any]:
    """Fields of a decoder of two layers, 64 wide, with grouped key-value heads."""
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": CONTEXT,
        "initializer_range": 0.2,
        **special_ids(tokenizer),
    }


def t5_fields(tokenizer: Any) -> dict[str, Any]:
    """Fields of a T5 of two layers on either side, 64 wide."""
    return {
        "vocab_size": len(tokenizer),
        "d_model": 64,
        "d_kv": 16,
        "d_ff": 128,
        "num_layers": 2,
        "num_heads": 4,
        "initializer_factor": 4.0,
        "tie_word_embeddings": False,
        "decoder_start_token_id": tokenizer.pad_token_id,
        **special_ids(tokenizer),
    }


def tower_fields(image_size: int = 28, patch_size: int = 7) -> dict[str, Any]:
    """Fields of a vision transformer of two layers, 64 wide; sizes in pixels."""
    return {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": image_size,
        "patch_size": patch_size,
        "initializer_range": 0.2,
    }
