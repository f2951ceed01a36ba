"""Turns one written prompt and its pixels into the tensors that the model takes.

Every prompt is encoded alone, by the checkpoint's own processor: a batch is put together from these
tensors later, so that a prompt's tensors never depend on its neighbours. Nothing is truncated, nor
padded, whatever the tokenizer was saved with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from mmconv.core.errors import Refused
from model_zoo.hf.loading import Checkpoint
from model_zoo.hf.prompting import Rendered
from model_zoo.hf.writer import Writer

Tensors: TypeAlias = Mapping[str, Any]
"""A model's inputs by name. Tensors, first dimension 1 or a count of images, patches or tiles."""


def encode(
    writer: Writer, rendered: Rendered, pixels: Sequence[Any], size: Mapping[str, int] | None = None
) -> Tensors:
    """The inputs for one prompt; `pixels` are its images, decoded, in order.

    `size` replaces the processor's own bounds of images. Raises `Refused` with the
    processor's own words where it does not take them, or where it would fill the memory.
    """
    arguments: dict[str, Any] = {
        "text": [rendered.text],
        "return_tensors": "pt",
        "add_special_tokens": rendered.special_tokens,
        # processors take what is not said from the calls that the tokenizer was saved after
        "truncation": False,
        "padding": False,
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


def check_vocabulary(checkpoint: Checkpoint, tensors: Tensors) -> None:
    """Raise `Refused` for a token that the model has no embedding of.

    Computing one ends in an error that names no token, and on a GPU is the end of the process. What
    stands for images may lie outside of the table: models put something else in its place.
    """
    if checkpoint.embeddings is None:
        return
    ids = set(tensors["input_ids"][0].tolist())
    ids -= {getattr(checkpoint.model.config, "image_token_id", None)}
    outside = [token for token in ids if token >= checkpoint.embeddings]
    if outside:
        names = ", ".join(map(repr, checkpoint.tokenizer.convert_ids_to_tokens(sorted(outside))))
        raise Refused(
            "rejected",
            f"the prompt holds {names}, and the model has embeddings of its first "
            f"{checkpoint.embeddings} tokens only",
        )


def check_context(checkpoint: Checkpoint, length: int, max_tokens: int) -> None:
    """Raise `Refused` if prompt and reply do not fit the model's positions."""
    needed = max(length, max_tokens) if checkpoint.encoder_decoder else length + max_tokens
    if checkpoint.context is not None and needed > checkpoint.context:
        raise Refused(
            "context",
            f"the prompt has {length} tokens and up to {max_tokens} are asked for; "
            f"the model has room for {checkpoint.context}",
        )
