"""Provider `vllm`: a checkpoint served by vLLM's own OpenAI server, which is started and stopped.

Requests go over loopback HTTP through `model_zoo.openai_api`, so vLLM may live in an environment
of its own (option `python`) and is never imported here. A model with a `base_url` is a running
server, and then all is as with provider `openai`, the options too. Nothing is installed or
restarted: a server that dies ends the run with the cause in its log, and running again resumes it.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Any

import orjson

from mmconv.core.config import ModelSpec, environment
from mmconv.core.errors import BackendError, ConfigError, Transient
from mmconv.core.keys import hash_json
from mmconv.core.protocols import Backend, ImageSource, Renderer
from mmconv.core.types import Message, Reply, Sampling
from model_zoo import hf, openai_api
from model_zoo.chat_templates import lacks_template, name_template, read_template, without_template
from model_zoo.checkpoints import (
    LONGEST,
    SHORTEST,
    area_bounds,
    check_files,
    checkpoint_fingerprint,
    commit_at_hand,
    is_local,
    require_sight,
)
from model_zoo.replicas import Replicas
from model_zoo.server_process import ServerProcess, free_ports
from model_zoo.vllm_options import CHANGING_REPLIES, TEMPLATE_FLAG, VllmOptions, read_options

HOST = "127.0.0.1"
CONCURRENCY = 128
"""Requests under way per data-parallel rank of a server, where the model file gives no number."""

_DEVICES = "CUDA_VISIBLE_DEVICES"
_DEVICE_FILES = Path("/dev")
_OVER_NODES = ("--nnodes", "--distributed-executor-backend", "--data-parallel-")
"""Arguments by which vLLM may use GPUs of other machines."""

_FILES_ELSEWHERE = ("--tokenizer", "--skip-tokenizer", "--hf-config-path", "--config-format")
"""Arguments by which vLLM needs other files than transformers in a checkpoint's folder."""

_OF_PROMPTS = ("revision", "trust_remote_code", "chat_template", "min_pixels", "max_pixels")
_WRITTEN_HERE = (
    "vLLM writes prompts by the same template but by itself; where that takes plain text, it puts "
    "line breaks between pictures and text, which are missing here"
)
_HAS_VLLM = "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"


class Served:
    """A backend whose server belongs to it; raises `ConfigError` once that server has died.

    `base_url` is where the server answers, for whoever wants to ask it beside this backend. A
    `temporary` folder goes with the server where all went well.
    """

    def __init__(
        self, client: Backend, server: ServerProcess, base_url: str, temporary: Path | None
    ) -> None:
        self._client = client
        self._server = server
        self._temporary = temporary
        self.base_url = base_url

    @property
    def max_concurrency(self) -> int:
        """The client's own bound."""
        return self._client.max_concurrency

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        """Answer once; see `Backend`."""
        try:
            return await self._client.generate(messages, sampling, affinity=affinity)
        except Transient:
            self._temporary = None  # its log may tell why
            # asking a dead server again would only fail every call that is still to come
            self._server.check_running()
            raise

    async def aclose(self) -> None:
        """Close the connections, then end the server."""
        try:
            await self._client.aclose()
        finally:
            await self._server.stop()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


def fingerprint(spec: ModelSpec) -> str:
    """A name for the weights and for the options that change replies, not for how they are run.

    What is served at a `base_url` cannot be seen; its fingerprint is that of provider `openai`.
    """
    if spec.base_url is not None:
        return openai_api.fingerprint(spec.model_copy(update={"provider": "openai"}))
    options = read_options(spec)
    given = options.model_dump(mode="json", include=set(CHANGING_REPLIES))
    if (template := read_template(options.chat_template)) is not None:
        given["chat_template"] = template
    return hash_json(["vllm", checkpoint_fingerprint(spec.model, options.revision), given])


def check_key(spec: ModelSpec) -> None:
    """Raise `ConfigError` where the server at `spec.base_url` needs a key that is not set."""
    if spec.base_url is not None:
        openai_api.check_key(spec)


def check_sight(spec: ModelSpec) -> None:
    """Raise `ConfigError` for a checkpoint that takes no images, by its configuration."""
    if spec.base_url is None:
        require_sight(spec.model, read_options(spec).revision)


def check_ready(spec: ModelSpec) -> None:
    """Raise `ConfigError` for what keeps vLLM from serving the checkpoint, as far as can be seen.

    That is an interpreter that is not there or has no vLLM, and a checkpoint's folder without its
    configuration, tokenizer, processor or chat template: without the last, vLLM would refuse every
    conversation.
    """
    if spec.base_url is not None:
        return
    options = read_options(spec)
    _check_startable(spec, options)
    mistral = (Path(spec.model).expanduser() / "params.json").is_file()
    if not mistral and not any(each.startswith(_FILES_ELSEWHERE) for each in options.extra_args):
        check_files(spec.model)
    if options.chat_template is None and lacks_template(spec.model):
        raise ConfigError(without_template(spec.model, plain=False))


def facts(spec: ModelSpec) -> dict[str, str]:
    """What a run's manifest tells of the model: its chat template, and a hub name's commit."""
    if spec.base_url is not None:
        return {}
    options = read_options(spec)
    told = {"chat_template": name_template(spec.model, options.revision, options.chat_template)}
    if commit := commit_at_hand(spec.model, options.revision):
        told["commit"] = commit
    return told


def open_renderer(spec: ModelSpec, images: ImageSource) -> Renderer | None:
    """Load what writes prompts about as vLLM does (see its note), by transformers in this process.

    None for a server at `spec.base_url`. Raises as `model_zoo.hf.open_renderer` does.
    """
    if spec.base_url is not None:
        return None
    options = read_options(spec)
    known = options.model_dump(include=set(_OF_PROMPTS), exclude_none=True)
    known["date"] = datetime.datetime.now(datetime.UTC).astimezone().date()
    own = spec.model_copy(update={"provider": "hf", "options": known})
    size = _processor_bounds(spec, options).get("size")
    return replace(hf.open_renderer(own, images), size=size, complete=True, note=_WRITTEN_HERE)


def guides_output(spec: ModelSpec) -> bool:
    """Whether the server holds replies to a call's JSON schema."""
    if spec.base_url is not None:
        return openai_api.guides_output(spec)
    return read_options(spec).guided_json


async def probe(spec: ModelSpec) -> tuple[str, ...] | None:
    """The names of the models served at `spec.base_url`, or None if a server is yet to be started.

    Raises as `openai_api.probe` does.
    """
    return None if spec.base_url is None else await openai_api.probe(spec)


async def open_backend(spec: ModelSpec, images: ImageSource) -> Backend:
    """Start the servers and wait until they answer, or attach to the one at `spec.base_url`.

    Raises `ConfigError`, with the root cause in the server's log, if it cannot be started.
    """
    if spec.base_url is not None:
        attached = spec.model_copy(update={"provider": "openai"})
        return await openai_api.open_backend(attached, images)
    options = read_options(spec)
    devices = device_groups(options)
    await asyncio.to_thread(check_ready, spec)
    instance = f"mmconv-{token_hex(8)}"
    servers: list[tuple[ServerProcess, ModelSpec]] = []
    served: list[Served] = []
    async with AsyncExitStack() as undo:
        for port, gpus in zip(free_ports(options.replicas), devices, strict=True):
            url = f"http://{HOST}:{port}/v1"
            asking = _client_spec(spec, options, url)
            client = await openai_api.open_backend(asking, images)
            undo.push_async_callback(client.aclose)
            server = _start(spec, options, port, instance, gpus)
            undo.push_async_callback(server.stop)
            servers.append((server, asking))
            temporary = server.log.parent if options.log_folder is None else None
            served.append(Served(client, server, url, temporary))
        await _wait_for_all(servers, instance, options.startup_seconds)
        undo.pop_all()
    return served[0] if len(served) == 1 else Replicas(served)


def command(
    spec: ModelSpec, options: VllmOptions, port: int, instance: str, template: Path | None
) -> list[str]:
    """The command line that serves the model on a loopback port under `spec.label`.

    The server also goes by `instance`, which tells it from others. `template` is the file that
    holds the text of `options.chat_template`.
    """
    images = None if options.limit_images is None else {"image": options.limit_images}
    values = {
        "--model": str(Path(spec.model).expanduser()) if is_local(spec.model) else spec.model,
        "--host": HOST,
        "--port": port,
        "--tensor-parallel-size": options.tensor_parallel_size,
        "--data-parallel-size": options.data_parallel_size,
        "--dtype": options.dtype,
        "--max-model-len": options.max_model_len,
        "--limit-mm-per-prompt": _json(images),
        "--mm-processor-kwargs": _json(_processor_bounds(spec, options)),
        "--gpu-memory-utilization": options.gpu_memory_utilization,
        "--quantization": options.quantization,
        TEMPLATE_FLAG: template,
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
    line += ["--served-model-name", spec.label, instance]
    for flag, value in values.items():
        if value is not None:
            line += [flag, str(value)]
    line += [flag for flag, on in switches.items() if on]
    return [*line, *options.extra_args]


def device_groups(options: VllmOptions) -> list[dict[str, str]]:
    """For each replica, the environment that gives it its GPUs; empty where one server takes all.

    GPUs are those of `CUDA_VISIBLE_DEVICES` if it is set (by a batch system, say), else those of
    this machine, as far as they can be seen. Raises `ConfigError` if there are too few.
    """
    each = options.gpus_per_replica or options.tensor_parallel_size * options.data_parallel_size
    needed = each * options.replicas
    visible = options.env.get(_DEVICES) or environment(_DEVICES, "")
    devices = visible.split(",") if visible else [str(number) for number in range(needed)]
    present = len(devices) if visible else _count_gpus() or needed
    single = options.replicas == 1 and options.gpus_per_replica is None
    spread = single and any(each.startswith(_OVER_NODES) for each in options.extra_args)
    if present < needed and not spread:
        parallel = ("tensor_parallel_size", "data_parallel_size")
        names = ("replicas", *(("gpus_per_replica",) if options.gpus_per_replica else parallel))
        sizes = [name for name in names if getattr(options, name) > 1]
        what = " and ".join(f"{name}={getattr(options, name)}" for name in sizes)
        shows = f"{_DEVICES}={visible} shows" if visible else "this machine has"
        raise ConfigError(
            f"{what} {'need' if len(sizes) > 1 else 'needs'} {needed} GPUs, but {shows} {present}; "
            f"lower {' or '.join(sizes)}"
        )
    if single:
        return [{}]
    return [{_DEVICES: ",".join(devices[first : first + each])} for first in range(0, needed, each)]


def _count_gpus() -> int:
    """NVIDIA's GPUs that this machine shows; 0 where that cannot be seen."""
    return len(list(_DEVICE_FILES.glob("nvidia[0-9]*")))


def _start(
    spec: ModelSpec, options: VllmOptions, port: int, instance: str, gpus: Mapping[str, str]
) -> ServerProcess:
    """Start a server, its chat template in a file beside its log: a command line has bounds."""
    folder = options.log_folder or Path(tempfile.mkdtemp(prefix="mmconv-vllm-"))
    file = None
    if (template := read_template(options.chat_template)) is not None:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"vllm-{port}.jinja"
        file.write_text(template, encoding="utf-8")
    return ServerProcess(
        spec.label,
        command(spec, options, port, instance, file),
        log=folder / f"vllm-{port}.log",
        env={**options.env, **gpus},
    )


async def _wait_for_all(
    servers: Sequence[tuple[ServerProcess, ModelSpec]], instance: str, seconds: float
) -> None:
    try:
        async with asyncio.TaskGroup() as tasks:
            for server, asking in servers:
                tasks.create_task(_wait_for(server, asking, instance, seconds))
    except* ConfigError as failures:
        raise failures.exceptions[0] from None


async def _wait_for(
    server: ServerProcess, asking: ModelSpec, instance: str, seconds: float
) -> None:
    """Return once the server answers at the address of `asking`, and not another in its place."""
    url = str(asking.base_url)
    await server.wait_until_healthy(f"{url.removesuffix('/v1')}/health", seconds)
    try:
        names = await openai_api.probe(asking)
    except BackendError as error:
        raise ConfigError(f"{server.name}: {url} does not tell what it serves: {error}") from error
    if instance not in names:
        raise ConfigError(
            f"{server.name}: another server took the address {url} meanwhile; run again"
        )


def _check_startable(spec: ModelSpec, options: VllmOptions) -> None:
    if shutil.which(options.python) is None:
        raise ConfigError(
            f"model {spec.label}: option python: {options.python!r} is no program; "
            "give the interpreter of the environment that vLLM is installed in"
        )
    # In the environment that the server gets: it may name folders of packages.
    found = subprocess.run(
        [options.python, "-c", _HAS_VLLM],
        env={**os.environ, **options.env},
        capture_output=True,
        check=False,
    )
    if found.returncode:
        raise ConfigError(
            f"model {spec.label}: {options.python} has no vLLM; run: pip install 'mmconv[vllm]', "
            "or name the interpreter that has it in options.python"
        )


def _client_spec(spec: ModelSpec, options: VllmOptions, url: str) -> ModelSpec:
    """The spec by which `model_zoo.openai_api` talks to the server at `url`."""
    passed_on = {"min_pixels", "max_pixels", "guided_json", "extra_body"}
    changes = {
        "provider": "openai",
        "model": spec.label,
        "base_url": url,
        "max_concurrency": spec.max_concurrency or CONCURRENCY * options.data_parallel_size,
        "options": options.model_dump(include=passed_on, exclude_none=True),
    }
    return spec.model_copy(update=changes)


def _processor_bounds(spec: ModelSpec, options: VllmOptions) -> dict[str, Any]:
    """The bounds of an image's area as the checkpoint's processor takes them.

    Processors of areas call them `size`, which has to hold both. To others they mean nothing, so
    that what is not known gets their old names: vLLM translates these, or leaves them out.
    """
    given = options.model_dump(include={"min_pixels", "max_pixels"}, exclude_none=True)
    own = area_bounds(spec.model, options.revision) if given else None
    if own is None:
        return given
    least = options.min_pixels or min(own[SHORTEST], options.max_pixels or own[SHORTEST])
    return {"size": {SHORTEST: least, LONGEST: options.max_pixels or max(own[LONGEST], least)}}


def _json(value: Mapping[str, Any] | None) -> str | None:
    return orjson.dumps(value).decode() if value else None
