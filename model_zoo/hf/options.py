"""What a user may tell the provider, and the fingerprint made of what changes replies.

Nothing is loaded here: no torch, no transformers, no weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from mmconv.config import ModelSpec, validate
from mmconv.errors import ConfigError
from mmconv.keys import hash_json
from model_zoo.checkpoints import checkpoint_fingerprint, is_local, require_sight

Kind = Literal["image-text", "text", "encoder-decoder"]

_ANSWER_VERSION = 1
"""Raised when this provider starts to answer the same request otherwise."""

_SPEED_ONLY = frozenset({"device_map", "max_batch_tokens", "max_batch", "threads"})


class HfOptions(BaseModel):
    """Options of the provider hf.

    `dtype` "auto" is the checkpoint's own. `device_map` None spreads the model over the GPUs that
    are there, or takes the CPU. `quantization` is by bitsandbytes. `revision` is a hub commit;
    `trust_remote_code` needs one for hub names. Images are scaled into `min_pixels` and
    `max_pixels` before the processor sees them. A batch holds at most `max_batch` prompts and
    `max_batch_tokens` tokens (prompts times the longest prompt and reply). `chat_template` is a
    Jinja text, or a file named *.jinja, in place of the checkpoint's. `kind` is read off the
    checkpoint's configuration. `threads` bounds torch's threads on the CPU.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    device_map: str | Mapping[str, int | str] | None = None
    attn_implementation: str | None = None
    quantization: Literal["4bit", "8bit"] | None = None
    revision: str | None = None
    trust_remote_code: bool = False
    min_pixels: int | None = Field(default=None, gt=0)
    max_pixels: int | None = Field(default=None, gt=0)
    max_batch_tokens: int = Field(default=32768, gt=0)
    max_batch: int = Field(default=64, gt=0)
    chat_template: str | None = None
    kind: Literal["auto"] | Kind = "auto"
    threads: int | None = Field(default=None, gt=0)

    def template_text(self) -> str | None:
        """The chat template's text, read from its file if it is one; raises `ConfigError`."""
        if self.chat_template is None or not self.chat_template.endswith(".jinja"):
            return self.chat_template
        try:
            return Path(self.chat_template).expanduser().read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"chat_template {self.chat_template}: {error.strerror or error}"
            ) from error


def read_options(spec: ModelSpec) -> HfOptions:
    """The options of `spec`; a `ConfigError` lists every one that is wrong."""
    options = validate(HfOptions, spec.options, f"model {spec.label}: options")
    if options.trust_remote_code and options.revision is None and not is_local(spec.model):
        raise ConfigError(
            f"model {spec.label}: trust_remote_code runs code from the hub; pin it by options."
            "revision (a commit hash of the model's repository)"
        )
    return options


def fingerprint(spec: ModelSpec) -> str:
    """A hash of the checkpoint's content and of the options that change replies."""
    options = read_options(spec)
    told = options.model_dump(mode="json", exclude=set(_SPEED_ONLY))
    told["chat_template"] = options.template_text()
    checkpoint = checkpoint_fingerprint(spec.model, options.revision)
    return hash_json(["hf", _ANSWER_VERSION, checkpoint, told])


def check_sight(spec: ModelSpec) -> None:
    """Raise `ConfigError` for a model that takes no images, by its options or its configuration."""
    options = read_options(spec)
    if options.kind in ("text", "encoder-decoder"):
        raise ConfigError(f"it takes no images: options.kind is {options.kind}")
    if options.kind == "auto":
        require_sight(spec.model, options.revision)
