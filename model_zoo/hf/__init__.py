"""Local checkpoints, run in this process by transformers.

A provider: `fingerprint` names what decides the replies, `open_backend` loads the checkpoint. Any
architecture that transformers loads as image-text-to-text, causal or encoder-decoder model works,
as long as its processor or tokenizer says how a conversation is written. One without a chat
template is refused, unless its option or its architecture says that a plain transcript will do.
Importing this package loads neither torch nor transformers.

Replies are generated in batches (see `model_zoo.hf.queue`); there is no prefix cache, so
`affinity` has no effect. For long runs on GPUs the vLLM provider is faster.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

from images.policy import Policy
from mmconv.config import ModelSpec
from mmconv.errors import ConfigError
from mmconv.protocols import ImageSource
from model_zoo.hf.options import (
    HfOptions,
    check_ready,
    check_sight,
    facts,
    fingerprint,
    read_options,
)

if TYPE_CHECKING:
    from model_zoo.hf.backend import HfBackend
    from model_zoo.hf.loading import Checkpoint

__all__ = ["HfOptions", "check_ready", "check_sight", "facts", "fingerprint", "open_backend"]


async def open_backend(spec: ModelSpec, images: ImageSource) -> HfBackend:
    """Load the checkpoint that `spec.model` names and get it ready to answer.

    Raises `mmconv.errors.ConfigError` if an option is wrong, a library is missing, or the
    checkpoint cannot be loaded.
    """
    options = read_options(spec)
    policy = Policy(max_pixels=options.max_pixels, min_pixels=options.min_pixels)
    # Importing torch takes seconds, in which a server has other requests to answer.
    checkpoint = await asyncio.to_thread(_load, spec, options)
    from model_zoo.hf.backend import HfBackend

    return HfBackend(checkpoint, options, policy, images, spec.max_concurrency)


def _load(spec: ModelSpec, options: HfOptions) -> Checkpoint:
    """Import the libraries and load the checkpoint, for seconds each."""
    try:
        import_module("model_zoo.hf.backend")
        from model_zoo.hf.loading import load_checkpoint
    except ImportError as error:
        raise ConfigError(
            f"model {spec.label}: the provider hf needs libraries that are not installed "
            f"({error}); run: pip install 'mmconv[hf]'"
        ) from error
    return load_checkpoint(spec, options)
