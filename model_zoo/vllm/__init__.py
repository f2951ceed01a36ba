"""Provider `vllm`: a checkpoint served by vLLM's own OpenAI server, which is started and stopped.

Requests go over loopback HTTP through `model_zoo.openai_api`, so vLLM may be installed in another
environment (option `python`) and is never imported here. A model with a `base_url` is a running
server like any other: provider `openai` runs it, whose options it takes. Nothing is installed or
restarted: if a server dies, the run ends with the cause from its log, and running again resumes it.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import shutil
import subprocess
import tempfile
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, Transient
from mmconv.core.keys import hash_json
from mmconv.core.protocols import Backend, ImageSource, Listen, Renderer
from mmconv.core.types import Message, Reply, Sampling
from model_zoo import hf, openai_api
from model_zoo.chat_templates import lacks_template, name_template, without_template
from model_zoo.checkpoints import check_files, commit_at_hand, require_sight
from model_zoo.fingerprints import checkpoint_fingerprint
from model_zoo.providers import ProviderFunctions, find_provider
from model_zoo.vllm.options import (
    CHANGING_REPLIES,
    CONCURRENCY,
    HOST,
    VllmOptions,
    command_line,
    processor_bounds,
)
from model_zoo.vllm.server import ServerProcess, free_port

if TYPE_CHECKING:
    from model_zoo.openai_api.client import ChatClient

_FILES_ELSEWHERE = ("--tokenizer", "--skip-tokenizer", "--hf-config-path", "--config-format")
"""Arguments by which vLLM needs other files than transformers in a checkpoint's folder."""

_PROMPT_OPTIONS = ("revision", "trust_remote_code", "chat_template", "min_pixels", "max_pixels")
_RENDERED_HERE = (
    "vLLM writes prompts by the same template with its own code. If the template takes plain text, "
    "vLLM puts line breaks between images and text, which are missing here"
)
_HAS_VLLM = "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"


class Served:
    """A backend that owns its server at `base_url`; raises `EngineDied` once that has died."""

    def __init__(self, client: ChatClient, server: ServerProcess, base_url: str) -> None:
        self._client = client
        self._server = server
        self.base_url = base_url

    @property
    def max_concurrency(self) -> int:
        """The client's own bound."""
        return self._client.max_concurrency

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        """Answer once; see `Backend`."""
        return await self._watched(self._client.generate(messages, sampling, affinity=affinity))

    async def stream(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str, listen: Listen
    ) -> Reply:
        """Answer once, and pass on the pieces of the reply."""
        answer = self._client.stream(messages, sampling, affinity=affinity, listen=listen)
        return await self._watched(answer)

    async def _watched(self, answer: Awaitable[Reply]) -> Reply:
        try:
            return await answer
        except Transient:
            # requests to a dead server would only fail every call that is still to come
            self._server.check_running()
            raise

    async def aclose(self) -> None:
        """Close the connections, then end the server."""
        try:
            await self._client.aclose()
        finally:
            await self._server.stop()


def delegate(spec: ModelSpec) -> ProviderFunctions | None:
    """The provider `openai` for a server that is running already."""
    return None if spec.base_url is None else find_provider("openai")


def fingerprint(spec: ModelSpec) -> str:
    """A hash of the weights and of the options that change replies, not of how they are run."""
    options = VllmOptions.of(spec)
    fields = options.model_dump(mode="json", include=set(CHANGING_REPLIES))
    if options.chat_template is not None:
        fields["chat_template"] = options.chat_template
    return hash_json(["vllm", checkpoint_fingerprint(spec.model, options.revision), fields])


def check_sight(spec: ModelSpec) -> None:
    """Raise `ConfigError` for a checkpoint that takes no images, by its configuration."""
    require_sight(spec.model, VllmOptions.of(spec).revision)


def check_ready(spec: ModelSpec) -> None:
    """Raise `ConfigError` for what keeps vLLM from serving the checkpoint, as far as can be seen.

    That is an interpreter that does not exist or has no vLLM, and a checkpoint's folder without its
    configuration, tokenizer, processor or chat template: without a template vLLM would refuse every
    conversation.
    """
    options = VllmOptions.of(spec)
    _check_interpreter(spec, options)
    mistral = (Path(spec.model).expanduser() / "params.json").is_file()
    if not mistral and not any(flag.startswith(_FILES_ELSEWHERE) for flag in options.extra_args):
        check_files(spec.model)
    if options.chat_template is None and lacks_template(spec.model):
        raise ConfigError(without_template(spec.model, plain=False))


def metadata(spec: ModelSpec) -> dict[str, str]:
    """What a run's manifest records of the model: its chat template, and a hub name's commit."""
    options = VllmOptions.of(spec)
    template = name_template(spec.model, options.revision, options.chat_template)
    commit = commit_at_hand(spec.model, options.revision)
    return {"chat_template": template} | ({"commit": commit} if commit else {})


def open_renderer(spec: ModelSpec, images: ImageSource) -> Renderer:
    """Write prompts by transformers, nearly as vLLM does; raises as hf's `open_renderer`."""
    options = VllmOptions.of(spec)
    shared = options.model_dump(include=set(_PROMPT_OPTIONS), exclude_none=True)
    shared["date"] = datetime.datetime.now(datetime.UTC).astimezone().date()
    local = spec.model_copy(update={"provider": "hf", "options": shared})
    size = processor_bounds(spec, options).get("size")
    return replace(hf.open_renderer(local, images), size=size, complete=True, note=_RENDERED_HERE)


def guides_output(spec: ModelSpec) -> bool:
    """Whether the server holds replies to a call's JSON schema."""
    return VllmOptions.of(spec).guided_json


extra_fields = openai_api.extra_fields


async def open_backend(spec: ModelSpec, images: ImageSource) -> Backend:
    """Start the server and wait until it answers; with `replicas`, one in each Ray actor.

    Raises `ConfigError`, with the root cause in the server's log, if it cannot be started.
    """
    options = VllmOptions.of(spec)
    if options.replicas is not None:
        # an option of this provider from before all models had replicas
        from model_zoo import ray

        changes = {"replicas": spec.replicas or options.replicas}
        return await ray.open_backend(spec.model_copy(update=changes), images)
    await asyncio.to_thread(check_ready, spec)
    port = free_port()
    url = f"http://{HOST}:{port}/v1"
    client_spec = _client_spec(spec, options, url)
    async with AsyncExitStack() as undo:
        client = await openai_api.open_backend(client_spec, images)
        undo.push_async_callback(client.aclose)
        server = _start(spec, options, port)
        undo.push_async_callback(server.stop)
        await server.wait_until_healthy(f"http://{HOST}:{port}/health", options.startup_seconds)
        undo.pop_all()
    return Served(client, server, url)


def _client_spec(spec: ModelSpec, options: VllmOptions, url: str) -> ModelSpec:
    passed_on = {"min_pixels", "max_pixels", "guided_json", "extra_body"}
    changes = {
        "provider": "openai",
        "model": spec.label,
        "base_url": url,
        "max_concurrency": spec.max_concurrency or CONCURRENCY * options.data_parallel_size,
        "options": options.model_dump(include=passed_on, exclude_none=True),
    }
    return spec.model_copy(update=changes)


def _start(spec: ModelSpec, options: VllmOptions, port: int) -> ServerProcess:
    """Start a server, its chat template in a file next to its log: a command line has bounds."""
    folder = options.log_folder or Path(tempfile.mkdtemp(prefix="mmconv-vllm-"))
    file = None
    if options.chat_template is not None:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"vllm-{port}.jinja"
        file.write_text(options.chat_template, encoding="utf-8")
    return ServerProcess(
        spec.label,
        command_line(spec, options, port, file),
        log=folder / f"vllm-{port}.log",
        env=options.env,
    )


def _check_interpreter(spec: ModelSpec, options: VllmOptions) -> None:
    if shutil.which(options.python) is None:
        raise ConfigError(
            f"model {spec.label}: option python: {options.python!r} is not a program; "
            "give the interpreter of the environment that vLLM is installed in"
        )
    # In the environment that the server gets: it may name folders of packages.
    process = subprocess.run(
        [options.python, "-c", _HAS_VLLM],
        env={**os.environ, **options.env},
        capture_output=True,
        check=False,
    )
    if process.returncode:
        raise ConfigError(
            f"model {spec.label}: {options.python} has no vLLM; run: pip install 'mmconv[vllm]', "
            "or name the interpreter that has it in options.python"
        )
