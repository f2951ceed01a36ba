"""Writes prompts as the backend does and describes their tensors, without any weights.

The text and the tensors come from the functions that the backend calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from images.policy import Policy, prepare_pixels
from mmconv.core.protocols import ImageSource, RawPrompt
from mmconv.core.types import Message
from model_zoo.hf.prompts import (
    Tensors,
    Wording,
    Writer,
    check_images,
    encode,
    image_mark,
    images_of,
    render,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HfRenderer:
    """A `mmconv.core.protocols.Renderer` of one checkpoint.

    `size` replaces the processor's bounds of images. `complete` says that templates write all
    special tokens, so that the tokenizer adds none.
    """

    writer: Writer
    wording: Wording
    policy: Policy
    images: ImageSource
    size: Mapping[str, int] | None = None
    complete: bool = False
    note: str = ""

    def __call__(self, messages: Sequence[Message]) -> RawPrompt:
        """The prompt; raises `Refused` and `ImageError` as `HfBackend.generate` does."""
        check_images(self.writer, messages)
        pictures = [
            prepare_pixels(self.images.read(image.sha256), image, self.policy)
            for image in images_of(messages)
        ]
        rendered = render(self.writer, messages, self.wording)
        if self.complete:
            rendered = replace(rendered, special_tokens=False)
        tensors = encode(self.writer, rendered, pictures, self.size)
        tokenizer = self.writer.tokenizer
        # the special tokens that it adds to every text
        alone = tokenizer("")["input_ids"] if rendered.special_tokens else []
        added = [token for token in alone if token in tokenizer.all_special_ids]
        pixels = _of_images(tensors) if pictures else {}
        return RawPrompt(
            text=rendered.text,
            added=tuple(tokenizer.convert_ids_to_tokens(added)),
            tokens=int(tensors["input_ids"].shape[1]),
            image_tokens=_count_placeholders(self.writer, tensors) if pictures else 0,
            images=tuple((picture.width, picture.height) for picture in pictures),
            tensors={name: tuple(value.shape) for name, value in pixels.items()},
        )


def _of_images(tensors: Tensors) -> dict[str, torch.Tensor]:
    """The tensors that are not (1, prompt length, ...); ragged lists of tensors are left out."""
    whole = tensors["input_ids"].shape
    return {
        name: value
        for name, value in tensors.items()
        if isinstance(value, torch.Tensor) and value.shape[:2] != whole
    }


def _count_placeholders(writer: Writer, tensors: Tensors) -> int:
    """The number of tokens that stand for images."""
    image_id = getattr(writer.processor, "image_token_id", None)
    if image_id is None and (mark := image_mark(writer)):
        image_id = writer.tokenizer.convert_tokens_to_ids(mark)
    ids = tensors["input_ids"][0].tolist()
    # Molmo2 replaces its mark by other tokens
    image_ids = {image_id}
    if image_id not in ids:
        image_ids = set(getattr(writer.processor, "image_token_ids", ()))
    return sum(token in image_ids for token in ids)
