"""Prompts as a model's tokenizer is given them, made again on demand and stored nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RawImage:
    """What a model's processor makes of one image of a prompt.

    `width` and `height` are those that it is given, in pixels. `tokens` counts the placeholders
    that stand for the image in the input; None where the processor does not tell them from those
    of other images. `sizes` are what it says of the image's size, by the names of its tensors: rows
    of two or three integers, such as a grid of patches.
    """

    width: int
    height: int
    tokens: int | None
    sizes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RawPrompt:
    """A conversation as text, special tokens and all, and how large an input it becomes.

    `text` is what the tokenizer is given; `added` are special tokens that the tokenizer puts to it
    by itself. `tokens` counts the whole input, `image_tokens` the placeholders of images in it.
    `tensors` are the shapes of what is made of all its images together, by name.
    """

    text: str
    added: tuple[str, ...]
    tokens: int
    image_tokens: int
    images: tuple[RawImage, ...]
    tensors: Mapping[str, tuple[int, ...]]
