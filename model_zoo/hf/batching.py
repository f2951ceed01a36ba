"""Which prompts go into a batch, and how their tensors are put together.

Prompts are batched only where that cannot change what the model computes: token-wise tensors are
padded on the prompt's side under an attention mask; image tensors are padded only if the processor
gives sizes or masks that separate padding from image, and must agree in shape otherwise. A
prompt with a tensor whose name is not known here runs alone: it may count from the batch's start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from mmconv.core.types import Sampling
from model_zoo.hf.prompts import Tensors

_TOKENWISE = frozenset(
    {"input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids", "cross_attention_mask"}
)
"""Tensors of shape (1, prompt length, ...); what follows the length must agree.

Mllama's cross_attention_mask goes on with images and tiles: text before the first image attends to
all of them, padding included, so prompts with other numbers of images cannot join.
"""

_SELF_DESCRIBED = frozenset({"pixel_attention_mask", "qformer_input_ids", "qformer_attention_mask"})
"""Tensors that are masks themselves, or are read under one: zeros may be added at their end."""

_PIXEL_SIZES = frozenset({"image_sizes", "pixel_attention_mask"})
"""Tensors that say which part of `pixel_values` is image and not padding."""

_PLACES = "image_token_pooling"
"""Molmo2's places of patches, counted over the whole batch (-1: none), for each image token."""

_MERGED = _TOKENWISE | _SELF_DESCRIBED | _PIXEL_SIZES
_MERGED |= {"pixel_values", "image_grid_thw", "batch_num_images", _PLACES}
_MERGED |= {"image_grids", "image_num_crops", "aspect_ratio_ids", "aspect_ratio_mask"}
"""Tensors that are known to mean the same behind those of other prompts."""

_MASK_BLIND = frozenset({"rwkv", "recurrent_gemma"})
"""Architectures whose states run through padding as through text."""

Side = Literal["left", "right"]


@dataclass(slots=True, kw_only=True, eq=False)
class Request:
    """A prompt that waits for its reply; `length` is in tokens.

    `images` are the sha256 of its images. `company` is what else must agree within a batch. `grow`
    gets the text so far after each token, in the model's thread.
    """

    tensors: Tensors
    length: int
    sampling: Sampling
    images: tuple[str, ...] = ()
    company: Hashable = None
    grow: Callable[[str], object] | None = None
    answer: asyncio.Future[Any] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    group: Hashable = field(init=False)

    def __post_init__(self) -> None:
        sampling = self.sampling
        extra = tuple(map(sampling.extra.get, ("top_k", "min_p", "repetition_penalty")))
        settings = (sampling.temperature, sampling.top_p, sampling.stop, extra)
        self.group = (settings, self.company, _shapes(self.tensors))


@dataclass(slots=True, kw_only=True)
class Budget:
    """What a batch may hold: `rows` prompts, `tokens` in all (rows times the longest row).

    Grows smaller when the model runs out of memory. `positions` bounds the longest row: one that is
    done goes on, filled up, for as long as others do.
    """

    rows: int
    tokens: int
    positions: int | None = None

    def holds(self, requests: Sequence[Request]) -> bool:
        """Whether these requests may form one batch; one alone always may."""
        if len(requests) == 1:
            return True
        if self.positions is not None and _row_tokens(requests) > self.positions:
            return False
        return len(requests) <= self.rows and batch_tokens(requests) <= self.tokens


def batch_tokens(requests: Sequence[Request]) -> int:
    """The tokens of a batch, padding included."""
    return len(requests) * _row_tokens(requests)


def _row_tokens(requests: Sequence[Request]) -> int:
    longest = max(request.length for request in requests)
    return longest + max(request.sampling.max_tokens for request in requests)


def company(config: Any, length: int, max_tokens: int) -> Hashable:
    """What must agree within a batch of this architecture; None for most.

    Models that take no notice of the mask answer one prompt at a time. Long-RoPE turns by other
    factors once the longest row is longer than the model was first trained on, for all rows: those
    that never are share a batch, those that always are, and of the others those that cross at the
    same token.
    """
    if config.model_type in _MASK_BLIND:
        return object()
    turn = _long_rope(config.get_text_config(decoder=True))
    if turn is None:
        return None
    if length > turn:
        return "long"
    # a batch runs to the highest of its limits
    return ("short", max_tokens) if length + max_tokens <= turn else length


def _long_rope(config: Any) -> int | None:
    parameters = getattr(config, "rope_parameters", None) or {}
    for rope in (parameters, *parameters.values()):
        if isinstance(rope, dict) and rope.get("rope_type") == "longrope":
            first = rope.get("original_max_position_embeddings")
            return first or getattr(config, "original_max_position_embeddings", None)
    return None


def choose_batch(waiting: Sequence[Request], budget: Budget) -> list[Request]:
    """The oldest request and, nearest in length first, others that may share its batch."""
    oldest = waiting[0]
    fellows = [request for request in waiting[1:] if request.group == oldest.group]
    fellows.sort(key=lambda request: abs(request.length - oldest.length))
    batch = [oldest]
    for request in fellows:
        if budget.holds([*batch, request]):
            batch.append(request)
    return batch


def merge(rows: Sequence[Tensors], pad_id: int, side: Side) -> dict[str, Any]:
    """One batch of tensors from those of single prompts (one group): padded, then concatenated.

    Token-wise tensors come out as (rows, longest prompt, ...); image tensors keep the order of
    the rows along their first dimension.
    """
    if len(rows) == 1:
        return dict(rows[0])
    if _PLACES in rows[0]:
        rows = _count_on(rows)
    return {
        name: _concatenate(
            [row[name] for row in rows],
            fill=pad_id if name == "input_ids" else 0,
            side=side if name in _TOKENWISE else "right",
        )
        for name in rows[0]
    }


def _count_on(rows: Sequence[Tensors]) -> list[Tensors]:
    """The rows, their places of patches counted behind those of the rows before."""
    counted: list[Tensors] = []
    before = 0
    for row in rows:
        places = row[_PLACES]
        counted.append({**row, _PLACES: torch.where(places < 0, places, places + before)})
        crops, patches = row["pixel_values"].shape[:2]
        before += crops * patches
    return counted


def _concatenate(tensors: Sequence[torch.Tensor], fill: int, side: Side) -> torch.Tensor:
    shapes = [tensor.shape[1:] for tensor in tensors]
    largest = [max(sizes) for sizes in zip(*shapes, strict=True)]
    return torch.cat([_pad(tensor, largest, fill, side) for tensor in tensors])


def _pad(tensor: torch.Tensor, sizes: Sequence[int], fill: int, side: Side) -> torch.Tensor:
    """Grow all dimensions but the first to `sizes`; `side` is where the second one grows."""
    widths: list[int] = []
    # torch counts dimensions from the last one
    for dimension in range(tensor.dim() - 1, 0, -1):
        missing = sizes[dimension - 1] - tensor.shape[dimension]
        before = missing if dimension == 1 and side == "left" else 0
        widths += [before, missing - before]
    if not any(widths):
        return tensor
    return torch.nn.functional.pad(tensor, widths, value=fill)


def _shapes(tensors: Tensors) -> Hashable:
    """Equal for prompts whose tensors can be merged."""
    paddable = _SELF_DESCRIBED
    if _PIXEL_SIZES & tensors.keys():
        paddable |= {"pixel_values"}
    return frozenset((name, _shape(name, value, paddable)) for name, value in tensors.items())


def _shape(name: str, value: Any, paddable: frozenset[str]) -> Hashable:
    if name not in _MERGED or not isinstance(value, torch.Tensor):
        # unknown, or a ragged list of tensors: how to merge it is not known
        return id(value)
    if name in _TOKENWISE:
        return tuple(value.shape[2:])
    return value.dim() if name in paddable else tuple(value.shape[1:])
