"""What a user may tell the provider, and the fingerprint made of what changes replies.

Nothing is loaded here: no torch, no transformers, no weights.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mmconv.core.config import ModelSpec, validate
from mmconv.core.errors import ConfigError
from mmconv.core.keys import hash_json
from model_zoo.chat_templates import (
    ASKED_PLAINLY,
    Template,
    asks_the_date,
    find_template,
    lacks_template,
    model_type,
    name_template,
    read_template,
    without_template,
)
from model_zoo.checkpoints import (
    check_files,
    checkpoint_fingerprint,
    commit_at_hand,
    file_at_hand,
    require_pinned,
    require_sight,
)

Kind = Literal["image-text", "text", "encoder-decoder"]

_ANSWER_VERSION = 3
"""Raised when this provider starts to answer the same request otherwise."""

_SPEED_ONLY = frozenset({"device_map", "max_batch_tokens", "max_batch", "threads"})


class HfOptions(BaseModel):
    """Options of a checkpoint that transformers runs in this process."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    """What weights are loaded as; auto is the checkpoint's own."""
    device_map: str | Mapping[str, int | str] | None = None
    """Where modules go, as transformers takes it; else over all GPUs that are there, or the CPU."""
    attn_implementation: str | None = None
    """The attention that transformers takes: eager, sdpa, flash_attention_2, ..."""
    quantization: Literal["4bit", "8bit"] | None = None
    """By bitsandbytes, as the weights are loaded."""
    revision: str | None = None
    """A commit of the model's repository on the hub."""
    trust_remote_code: bool = False
    """Runs code that the checkpoint brings; a hub name needs a revision with it."""
    min_pixels: int | None = Field(default=None, gt=0)
    """The least area that an image is scaled to before the processor gets it."""
    max_pixels: int | None = Field(default=None, gt=0)
    """The largest area that an image is scaled to before the processor gets it."""
    max_batch_tokens: int = Field(default=32768, gt=0)
    """Tokens in a batch at most: prompts times the longest prompt and reply."""
    max_batch: int = Field(default=64, gt=0)
    """Prompts in a batch at most."""
    chat_template: Template | None = None
    """In place of the checkpoint's: a file named *.jinja, a Jinja text, or plain: a transcript,
    `Question: ... Answer: ...`, for a checkpoint that has none."""
    template_kwargs: Mapping[str, Any] = Field(default_factory=dict)
    """Variables of the chat template, such as `enable_thinking: false`."""
    date: datetime.date = datetime.date(2024, 7, 26)
    """The day (YYYY-MM-DD) that is today to a chat template that asks; the default is that which
    Llama 3's takes where it has no clock."""
    kind: Literal["auto", Kind] = "auto"
    """What the checkpoint is; auto reads it off its configuration."""
    threads: int | None = Field(default=None, gt=0)
    """Threads of torch on the CPU at most."""


def read_options(spec: ModelSpec) -> HfOptions:
    """The options of `spec`; a `ConfigError` lists every one that is wrong."""
    options = validate(HfOptions, spec.options, f"model {spec.label}: options")
    if options.trust_remote_code:
        require_pinned(spec, options.revision)
    return options


def fingerprint(spec: ModelSpec) -> str:
    """A hash of the checkpoint's content and of the options that change replies."""
    options = read_options(spec)
    told = options.model_dump(mode="json", exclude=set(_SPEED_ONLY))
    told["chat_template"] = read_template(options.chat_template)
    checkpoint = checkpoint_fingerprint(spec.model, options.revision)
    return hash_json(["hf", _ANSWER_VERSION, checkpoint, told])


def check_sight(spec: ModelSpec) -> None:
    """Raise `ConfigError` for a model that takes no images, by its options or its configuration."""
    options = read_options(spec)
    if takes_images(options) is False:
        raise ConfigError(f"it takes no images: options.kind is {options.kind}")
    if options.kind == "auto":
        require_sight(spec.model, options.revision)


def takes_images(options: HfOptions) -> bool | None:
    """Whether the options say that the model takes images; None if its configuration decides."""
    return None if options.kind == "auto" else options.kind == "image-text"


def check_ready(spec: ModelSpec) -> None:
    """Raise `ConfigError` for a checkpoint's folder that lacks a file or a template that it needs.

    And for one with an adapter that would be left out.
    """
    options = read_options(spec)
    check_files(spec.model, images=takes_images(options))
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
    """Raise `ConfigError` for a checkpoint without a template, unless it is one to be asked so."""
    if architecture not in ASKED_PLAINLY:
        raise ConfigError(without_template(model, plain=True))


def facts(spec: ModelSpec) -> dict[str, str]:
    """What a run's manifest tells of the model: which chat template writes its conversations.

    And on which day, where it asks for one, and of a hub name which commit is at hand.
    """
    options = read_options(spec)
    given = read_template(options.chat_template)
    told = {"chat_template": name_template(spec.model, options.revision, given)}
    if asks_the_date(given or find_template(spec.model, options.revision)):
        told["date"] = options.date.isoformat()
    if commit := commit_at_hand(spec.model, options.revision):
        told["commit"] = commit
    return told
