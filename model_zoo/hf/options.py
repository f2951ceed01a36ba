"""What a user may set of provider `hf`, and the fingerprint made of it. Loads no library."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Literal

from pydantic import Field

from images.policy import Policy
from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError
from mmconv.core.keys import hash_json
from model_zoo.base import CheckpointFields
from model_zoo.chat_templates import (
    WITHOUT_TEMPLATE,
    Template,
    asks_the_date,
    find_template,
    lacks_template,
    model_type,
    name_template,
    without_template,
)
from model_zoo.checkpoints import (
    check_files,
    commit_at_hand,
    file_at_hand,
    require_sight,
)
from model_zoo.fingerprints import checkpoint_fingerprint

Kind = Literal["image-text", "text", "encoder-decoder"]

_ANSWER_VERSION = 3
"""Raised if this provider starts to answer the same request differently."""

_SPEED_ONLY = frozenset({"device_map", "max_batch_tokens", "max_batch", "threads"})


class HfOptions(CheckpointFields):
    """Options of a checkpoint that transformers runs in this process."""

    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    """The type of the weights in memory; auto is the checkpoint's own."""
    device_map: str | Mapping[str, int | str] | None = None
    """Where modules go, as transformers takes it: auto spreads them over all GPUs. By default all
    are on one GPU, or on the CPU without one."""
    attn_implementation: str | None = None
    """The attention that transformers takes: eager, sdpa, flash_attention_2, ..."""
    quantization: Literal["4bit", "8bit"] | None = None
    """Done by bitsandbytes when the weights are loaded."""
    min_pixels: int | None = Field(default=None, gt=0)
    """The least area, in pixels, that an image is scaled to before the processor gets it."""
    max_pixels: int | None = Field(default=None, gt=0)
    """The largest area, in pixels, that an image is scaled to before the processor gets it."""
    max_batch_tokens: int = Field(default=32768, gt=0)
    """Tokens in a batch at most: prompts times the longest prompt and reply."""
    max_batch: int = Field(default=64, gt=0)
    """Prompts in a batch at most."""
    chat_template: Template | None = None
    """Replaces the checkpoint's template: a file named *.jinja, a Jinja text, or plain: a
    transcript, `Question: ... Answer: ...`, for a checkpoint that has none."""
    template_kwargs: Mapping[str, Any] = Field(default_factory=dict)
    """Variables of the chat template, such as `enable_thinking: false`."""
    date: datetime.date = datetime.date(2024, 7, 26)
    """Today's date (YYYY-MM-DD) for a chat template that writes it; the default is the one that
    Llama 3's template takes without a clock."""
    kind: Literal["auto", Kind] = "auto"
    """What the checkpoint is; auto reads it from its configuration."""
    threads: int | None = Field(default=None, gt=0)
    """Threads of torch on the CPU at most."""

    def policy(self) -> Policy:
        """The image policy; raises `ConfigError` if its bounds contradict each other."""
        return Policy(max_pixels=self.max_pixels, min_pixels=self.min_pixels)

    def takes_images(self) -> bool | None:
        """Whether the model takes images by its kind; None if its configuration decides."""
        return None if self.kind == "auto" else self.kind == "image-text"


def fingerprint(spec: ModelSpec) -> str:
    """A hash of the checkpoint's content and of the options that change replies."""
    options = HfOptions.of(spec)
    fields = options.model_dump(mode="json", exclude=set(_SPEED_ONLY))
    checkpoint = checkpoint_fingerprint(spec.model, options.revision)
    return hash_json(["hf", _ANSWER_VERSION, checkpoint, fields])


def check_sight(spec: ModelSpec) -> None:
    """Raise `ConfigError` for a model that takes no images, by its options or its configuration."""
    options = HfOptions.of(spec)
    if options.takes_images() is False:
        raise ConfigError(f"it takes no images: options.kind is {options.kind}")
    if options.kind == "auto":
        require_sight(spec.model, options.revision)


def check_ready(spec: ModelSpec) -> None:
    """Raise `ConfigError` for a missing file or template, or an adapter that is left out."""
    options = HfOptions.of(spec)
    check_files(spec.model, images=options.takes_images())
    refuse_adapter(spec.model, options.revision)
    if options.chat_template is None and lacks_template(spec.model):
        require_template(spec.model, model_type(spec.model))


def refuse_adapter(model: str, revision: str | None) -> None:
    """Raise `ConfigError` for a checkpoint with an adapter, which without peft is left out."""
    file = file_at_hand(model, "adapter_config.json", revision)
    if file is not None and file.exists() and find_spec("peft") is None:
        raise ConfigError(
            f"model {model}: holds an adapter (adapter_config.json), which is left out without "
            "peft; merge it into its base (merge_and_unload of peft), remove it, or run: pip "
            "install peft"
        )


def require_template(model: str, architecture: str | None) -> None:
    """Raise `ConfigError` for a checkpoint without a template, unless its architecture has none."""
    if architecture not in WITHOUT_TEMPLATE:
        raise ConfigError(without_template(model, plain=True))


def metadata(spec: ModelSpec) -> dict[str, str]:
    """What a manifest records: the template, the date that it writes, a hub name's commit."""
    options = HfOptions.of(spec)
    template = name_template(spec.model, options.revision, options.chat_template)
    texts = {"chat_template": template}
    if asks_the_date(options.chat_template or find_template(spec.model, options.revision)):
        texts["date"] = options.date.isoformat()
    if commit := commit_at_hand(spec.model, options.revision):
        texts["commit"] = commit
    return texts
