"""Turns one written prompt and its pixels into the tensors that the model takes.

Every prompt is encoded alone, by the checkpoint's own processor: a batch is put together from these
tensors later, so that a prompt's tensors never depend on its neighbours. Nothing is truncated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from mmconv.errors import Refused
from model_zoo.hf.loading import Checkpoint
from model_zoo.hf.prompting import Rendered
from model_zoo.hf.writer import Writer

Tensors: TypeAlias = Mapping[str, Any]
"""A model's inputs by name. Tensors, first dimension 1 or a count of images, patches or tiles."""


def encode(
    writer: Writer, rendered: Rendered, pixels: Sequence[Any], size: Mapping[str, int] | None = None
) -> Tensors:
    """The inputs for one prompt; `pixels` are its images, decoded, in order.

    `size` replaces the processor's own bounds of images. Raises `mmconv.errors.Refused` with the
    processor's own words where it does not take them, or where it would fill the memory.
    """
    arguments: dict[str, Any] = {
        "text": [rendered.text],
        "return_tensors": "pt",
        "add_special_tokens": rendered.special_tokens,
    }
    if pixels:
        arguments["images"] = [list(pixels)]
        if size is not None:
            arguments["size"] = size
    try:
        return dict((writer.processor or writer.tokenizer)(**arguments))
    except MemoryError:
        told = "its images, as the processor scales them, do not fit into memory: make them smaller"
        raise Refused("memory", told) from None
    except ValueError as error:
        raise Refused("rejected", f"the processor does not take this prompt: {error}") from error


def check_context(checkpoint: Checkpoint, length: int, max_tokens: int) -> None:
    """Raise `mmconv.errors.Refused` if prompt and reply do not fit the model's positions."""
    needed = max(length, max_tokens) if checkpoint.encoder_decoder else length + max_tokens
    if checkpoint.context is not None and needed > checkpoint.context:
        raise Refused(
            "context",
            f"the prompt has {length} tokens and up to {max_tokens} are asked for; "
            f"the model has room for {checkpoint.context}",
        )
