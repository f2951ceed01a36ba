"""What a user may tell the provider `vllm`. Nothing is started here."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from mmconv.core.config import ModelSpec, validate
from model_zoo.chat_templates import PLAIN, Template
from model_zoo.checkpoints import require_pinned

TEMPLATE_FLAG = "--chat-template"


class VllmOptions(BaseModel):
    """Options of a checkpoint that vLLM serves; what is not set is vLLM's own choice."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    tensor_parallel_size: int = Field(default=1, gt=0)
    """GPUs that share every layer."""
    data_parallel_size: int = Field(default=1, gt=0)
    """Copies of the model behind one server."""
    dtype: str | None = None
    """What weights are loaded as: auto, bfloat16, float16, float32."""
    max_model_len: int | None = Field(default=None, gt=0)
    """Tokens that prompt and reply have room for together."""
    limit_images: int | None = Field(default=None, ge=0)
    """Images in a prompt at most."""
    min_pixels: int | None = Field(default=None, gt=0)
    """The least area of an image: it is scaled before it is sent, and the processor is told."""
    max_pixels: int | None = Field(default=None, gt=0)
    """The largest area of an image: it is scaled before it is sent, and the processor is told."""
    gpu_memory_utilization: float | None = Field(default=None, gt=0, le=1)
    """The share of a GPU's memory that vLLM takes."""
    enforce_eager: bool = False
    """Starts sooner and runs slower: no CUDA graphs are made."""
    enable_prefix_caching: bool = True
    """Keeps what was computed of a conversation for its next turn."""
    quantization: str | None = None
    """A method that vLLM knows, such as fp8 or bitsandbytes."""
    revision: str | None = None
    """A commit of the model's repository on the hub."""
    trust_remote_code: bool = False
    """Runs code that the checkpoint brings; a hub name needs a revision with it."""
    chat_template: Template | None = None
    """In place of the checkpoint's: a file named *.jinja, or a Jinja text."""
    replicas: int = Field(default=1, gt=0)
    """Servers that are started, each on GPUs of its own."""
    gpus_per_replica: int | None = Field(default=None, gt=0)
    """GPUs of each of them; else as many as its parallel sizes need."""
    python: str = sys.executable
    """The interpreter that has vLLM."""
    env: Mapping[str, str] = Field(default_factory=dict)
    """Added to the server's environment; it tells no models apart, so that what changes replies
    belongs elsewhere."""
    extra_args: tuple[str, ...] = ()
    """Added to the server's command line; a file that is named there counts by its name."""
    guided_json: bool = True
    """Holds replies to a call's JSON schema, where it has one."""
    extra_body: Mapping[str, Any] = Field(default_factory=dict)
    """Added to every request, and wins over what stands there."""
    startup_seconds: float = Field(default=900.0, gt=0)
    """How long a server may take until it answers."""
    log_folder: Path | None = None
    """Where the servers' logs stay; else a new temporary folder."""

    @field_validator("python")
    @classmethod
    def _expand_home(cls, python: str) -> str:
        return str(Path(python).expanduser())

    @field_validator("chat_template")
    @classmethod
    def _is_no_transcript(cls, template: str | None) -> str | None:
        if template == PLAIN:
            raise ValueError("vLLM writes no plain transcript; name a file that does")
        return template

    @field_validator("extra_args")
    @classmethod
    def _name_no_template(cls, arguments: tuple[str, ...]) -> tuple[str, ...]:
        # vLLM takes its flags with underscores, too.
        flags = (argument.partition("=")[0].replace("_", "-") for argument in arguments)
        if TEMPLATE_FLAG in flags:
            raise ValueError("a chat template belongs in options.chat_template: its text counts")
        return arguments


CHANGING_REPLIES = (
    "dtype",
    # decides which rotary factors a long-context checkpoint takes
    "max_model_len",
    "min_pixels",
    "max_pixels",
    "quantization",
    "trust_remote_code",
    "extra_args",
    "guided_json",
    "extra_body",
)


def read_options(spec: ModelSpec) -> VllmOptions:
    """The options of `spec`; a `ConfigError` lists every one that is wrong."""
    options = validate(VllmOptions, spec.options, f"model {spec.label}: options")
    if options.trust_remote_code:
        require_pinned(spec, options.revision)
    return options
