"""What a user may set of provider `vllm`, and the command line made of it. Starts nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from pydantic import Field, field_validator

from mmconv.core.config import ModelSpec, Replicas
from model_zoo.base import CheckpointFields
from model_zoo.chat_templates import PLAIN, Template
from model_zoo.checkpoints import LONGEST, SHORTEST, area_bounds, is_local

HOST = "127.0.0.1"
CONCURRENCY = 128
"""Requests under way per data-parallel rank of a server, if the model file gives no number."""


class VllmOptions(CheckpointFields):
    """Options of a checkpoint that vLLM serves; vLLM chooses for itself what is not set."""

    tensor_parallel_size: int = Field(default=1, gt=0)
    """GPUs that share every layer."""
    pipeline_parallel_size: int = Field(default=1, gt=0)
    """GPUs, or groups of them, that have a part of the layers each."""
    data_parallel_size: int = Field(default=1, gt=0)
    """Copies of the model behind one server."""
    dtype: str | None = None
    """What weights are loaded as: auto, bfloat16, float16, float32."""
    max_model_len: int | None = Field(default=None, gt=0)
    """Tokens of prompt and reply together at most."""
    limit_images: int | None = Field(default=None, ge=0)
    """Images in a prompt at most."""
    min_pixels: int | None = Field(default=None, gt=0)
    """The least area of an image: applied before sending, and passed to the processor."""
    max_pixels: int | None = Field(default=None, gt=0)
    """The largest area of an image: applied before sending, and passed to the processor."""
    gpu_memory_utilization: float | None = Field(default=None, gt=0, le=1)
    """The share of a GPU's memory that vLLM takes."""
    enforce_eager: bool = False
    """Starts sooner and runs slower: no CUDA graphs are built."""
    enable_prefix_caching: bool = True
    """Caches what was computed of a conversation for its next turn."""
    quantization: str | None = None
    """A method that vLLM knows, such as fp8 or bitsandbytes."""
    chat_template: Template | None = None
    """Replaces the checkpoint's template: a file named *.jinja, or a Jinja text."""
    replicas: Replicas | None = None
    """The same as `replicas` of the model file: servers in Ray actors, each on its own GPUs."""
    python: str = sys.executable
    """The interpreter that has vLLM."""
    env: Mapping[str, str] = Field(default_factory=dict)
    """Added to the server's environment. It is not part of the fingerprint, so options that change
    replies belong elsewhere."""
    extra_args: tuple[str, ...] = ()
    """Added to the server's command line; a file that is named there counts by its name."""
    guided_json: bool = True
    """Holds replies to a call's JSON schema, if it has one."""
    extra_body: Mapping[str, Any] = Field(default_factory=dict)
    """Added to every request; overrides other fields."""
    startup_seconds: float = Field(default=900.0, gt=0)
    """How long a server may take until it answers."""
    log_folder: Path | None = None
    """Where the servers' logs stay; by default a new temporary folder."""

    @field_validator("python")
    @classmethod
    def _expand_home(cls, python: str) -> str:
        return str(Path(python).expanduser())

    @field_validator("chat_template")
    @classmethod
    def _refuse_transcript(cls, template: str | None) -> str | None:
        if template == PLAIN:
            raise ValueError("vLLM writes no plain transcript; name a file that does")
        return template


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


def command_line(
    spec: ModelSpec, options: VllmOptions, port: int, template: Path | None
) -> list[str]:
    """The command that serves the model under `spec.label`; `template` is a file."""
    images = None if options.limit_images is None else {"image": options.limit_images}
    values = {
        "--model": str(Path(spec.model).expanduser()) if is_local(spec.model) else spec.model,
        "--host": HOST,
        "--port": port,
        "--tensor-parallel-size": options.tensor_parallel_size,
        "--pipeline-parallel-size": options.pipeline_parallel_size,
        "--data-parallel-size": options.data_parallel_size,
        "--dtype": options.dtype,
        "--max-model-len": options.max_model_len,
        "--limit-mm-per-prompt": _json(images),
        "--mm-processor-kwargs": _json(processor_bounds(spec, options)),
        "--gpu-memory-utilization": options.gpu_memory_utilization,
        "--quantization": options.quantization,
        "--chat-template": template,
        "--revision": options.revision,
    }
    caching = "enable" if options.enable_prefix_caching else "no-enable"
    switches = {
        f"--{caching}-prefix-caching": True,
        "--disable-uvicorn-access-log": True,
        "--enforce-eager": options.enforce_eager,
        "--trust-remote-code": options.trust_remote_code,
    }
    line = [options.python, "-m", "vllm.entrypoints.openai.api_server"]
    line += ["--served-model-name", spec.label]
    for flag, value in values.items():
        if value is not None:
            line += [flag, str(value)]
    line += [flag for flag, on in switches.items() if on]
    return [*line, *options.extra_args]


def _json(value: Mapping[str, Any] | None) -> str | None:
    return orjson.dumps(value).decode() if value else None


def processor_bounds(spec: ModelSpec, options: VllmOptions) -> dict[str, Any]:
    """The bounds of an image's area as the checkpoint's processor takes them.

    Processors of areas call them `size`, which has to hold both. Other processors get the old
    names: vLLM translates these, or leaves them out.
    """
    bounds = options.model_dump(include={"min_pixels", "max_pixels"}, exclude_none=True)
    defaults = area_bounds(spec.model, options.revision) if bounds else None
    if defaults is None:
        return bounds
    least = options.min_pixels or min(defaults[SHORTEST], options.max_pixels or defaults[SHORTEST])
    most = options.max_pixels or max(defaults[LONGEST], least)
    return {"size": {SHORTEST: least, LONGEST: most}}
