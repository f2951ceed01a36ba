"""The pocket model's words: a word-level tokenizer over the scene language, and its chat template.

A token is a word or a mark with the blank before it, so that tokens written one after another are
the text. The name of a thing ("red circle") is one token, as frequent pairs are for tokenizers of
subwords. Words that the scene language does not use are unknown to it, and become one token.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from images.scenes import COLOURS, SHAPES, draw_sample

PAD, UNKNOWN, IMAGE, USER, ASSISTANT, END = SPECIAL = (
    "<pad>",
    "<unknown>",
    "<image>",
    "<user>",
    "<assistant>",
    "<end>",
)
PATTERN = rf" ?(?:{'|'.join(COLOURS)}) (?:{'|'.join(SHAPES)})\b| ?\w+|\n| ?[^\w\s]"

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] != 'system' %}{{ '<' + message['role'] + '>' }}"
    "{% for part in message['content'] %}"
    "{{ '<image>' if part['type'] == 'image' else part['text'] }}"
    "{% endfor %}"
    "{{ '<end>' if message['role'] == 'assistant' else '' }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)
"""Assistant turns end with <end>; a system message is left out, and mmconv then refuses it."""

_SURVEYED = 4000


@cache
def words() -> tuple[str, ...]:
    """The vocabulary in the order of its ids: special tokens, then words by their spelling."""
    met: set[str] = set()
    for number in range(_SURVEYED):
        for turn in draw_sample("pocket-words", 0, number).dialogue.turns:
            met.update(pieces(turn.instruction))
            met.update(pieces(turn.reference))
    return (*SPECIAL, *sorted(met))


def pieces(text: str) -> list[str]:
    """A text cut into tokens."""
    return re.findall(PATTERN, text)


def build_tokenizer(library: Any, vocabulary: Sequence[str]) -> Any:
    """The tokenizer as a class of transformers; `library` is transformers itself."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    core = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(vocabulary)}, UNKNOWN)
    )
    core.pre_tokenizer = pre_tokenizers.Split(Regex(PATTERN), behavior="isolated")
    core.decoder = decoders.Fuse()
    tokenizer = library.PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=END,
        extra_special_tokens={"image_token": IMAGE, "user": USER, "assistant": ASSISTANT},
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
