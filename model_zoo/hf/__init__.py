"""Provider `hf`: local checkpoints, run in this process by transformers.

Any architecture works that transformers loads as an image-text-to-text, causal or encoder-decoder
model, if its processor or tokenizer has a chat template. One without a template is refused, unless
an option or its architecture allows a plain transcript. Importing this package loads neither torch
nor transformers.

Replies are generated in batches (see `model_zoo.hf.backend`), without a prefix cache, so `affinity`
has no effect. For long runs on GPUs the provider `vllm` is faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError
from mmconv.core.protocols import ImageSource
from model_zoo.checkpoints import file_at_hand, require_hub
from model_zoo.hf.options import (
    HfOptions,
    check_ready,
    check_sight,
    fingerprint,
    metadata,
)
from model_zoo.loading_threads import load_in_thread

if TYPE_CHECKING:
    from model_zoo.hf.backend import HfBackend
    from model_zoo.hf.loading import Checkpoint
    from model_zoo.hf.prompts import HfRenderer

__all__ = [
    "HfOptions",
    "check_ready",
    "check_sight",
    "extra_fields",
    "fingerprint",
    "metadata",
    "open_backend",
    "open_renderer",
]


def extra_fields(spec: ModelSpec) -> tuple[str, ...]:
    """The fields of `Sampling.extra` that a model in this process honours."""
    return ("chat_template_kwargs", "min_p", "repetition_penalty", "top_k")


async def open_backend(spec: ModelSpec, images: ImageSource) -> HfBackend:
    """Load the checkpoint that `spec.model` names; raises `ConfigError`."""
    options = HfOptions.of(spec)
    policy = options.policy()
    # Importing torch takes seconds, in which a server has other requests to answer.
    checkpoint = await load_in_thread(partial(_load, spec, options))
    from model_zoo.hf.backend import HfBackend

    return HfBackend(checkpoint, options, policy, images, spec.max_concurrency)


def open_renderer(spec: ModelSpec, images: ImageSource) -> HfRenderer:
    """Load tokenizer and processor, and no weights, from this machine; raises `ConfigError`."""
    options = HfOptions.of(spec)
    if file_at_hand(spec.model, "config.json", options.revision) is None:
        raise ConfigError(
            f"model {spec.label}: {spec.model} is not in the hub's cache on this machine; download "
            "it, or give a checkpoint's folder"
        )
    with _libraries(spec):
        from model_zoo.hf.loading import foreign_code, load_writer, naming
        from model_zoo.hf.prompts import HfRenderer, check_template
    with foreign_code(spec, options), naming(spec):
        writer, _ = load_writer(spec.model, options, download=False)
    check_template(spec.label, writer, options)
    return HfRenderer(writer=writer, options=options, policy=options.policy(), images=images)


def _load(spec: ModelSpec, options: HfOptions) -> Checkpoint:
    with _libraries(spec):
        require_hub(spec, options.revision)
        import_module("model_zoo.hf.backend")
        from model_zoo.hf.loading import load_checkpoint
        from model_zoo.hf.prompts import check_template
    checkpoint = load_checkpoint(spec, options)
    check_template(spec.label, checkpoint, options)
    return checkpoint


@contextmanager
def _libraries(spec: ModelSpec) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            f"model {spec.label}: the provider hf needs libraries that are not installed "
            f"({error}); run: pip install 'mmconv[hf]'"
        ) from error
