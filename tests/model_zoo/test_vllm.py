"""The provider vllm against a fake server (tests/real has the real one), and its command line."""

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import aclosing, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from images import ImageStore
from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, EngineDied, Transient
from mmconv.core.protocols import Backend
from mmconv.core.types import Sampling
from model_zoo import openai_api
from model_zoo.providers import provider_of
from model_zoo.vllm import Served, check_ready, fingerprint, metadata, open_backend
from model_zoo.vllm.options import VllmOptions, command_line
from model_zoo.vllm.server import ServerProcess
from tests.messages import user
from tests.mock_server import mock_server
from tests.model_zoo.processes import alive, wait_until_gone
from tests.model_zoo.vllm_support import model

MESSAGES = (user("hello"),)
ROOT = Path(__file__).parents[2]


@pytest.fixture
def python(tmp_path: Path) -> str:
    """An interpreter whose vLLM is `tests.model_zoo.fake_vllm`; asked for a module, it has it."""
    script = tmp_path / "python"
    fake = Path(__file__).with_name("fake_vllm.py")
    script.write_text(f'#!/bin/sh\n[ "$1" = -c ] || exec "{sys.executable}" "{fake}" "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


async def ask(backend: Backend, affinity: str = "a") -> Any:
    reply = await backend.generate(MESSAGES, Sampling(), affinity=affinity)
    return json.loads(reply.text)


def pids(logs: Path) -> list[int]:
    """The server and its engine, as the stand-in wrote them into its log."""
    [log] = logs.glob("vllm-*.log")
    found: list[int] = json.loads(log.read_text().splitlines()[0])["pids"]
    return found


def wait_for_logs(folder: Path, servers: int) -> None:
    """Return once so many stand-ins have written who they are; fails if that takes too long."""
    deadline = time.monotonic() + 60
    while sum(b"\n" in log.read_bytes() for log in folder.glob("vllm-*.log")) < servers:
        assert time.monotonic() < deadline
        time.sleep(0.02)


async def test_it_starts_answers_and_leaves_nothing_behind(python: str, tmp_path: Path) -> None:
    spec = model("org/name", python=python, log_folder=str(tmp_path / "logs"))
    backend = await open_backend(spec, ImageStore())
    assert isinstance(backend, Served)
    running = pids(tmp_path / "logs")
    assert (await ask(backend))["pid"] == running[0]
    assert alive(running) == running
    await backend.aclose()
    await backend.aclose()
    wait_until_gone(running, 2)


async def test_a_failed_start_shows_the_root_cause_and_the_log(python: str, tmp_path: Path) -> None:
    spec = model("org/broken", python=python, log_folder=str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        await open_backend(spec, ImageStore())
    first, second = str(caught.value).splitlines()
    assert first == "broken: the server ended with exit code 1: RuntimeError: no weights here"
    assert second.startswith(f"Its log: {tmp_path / 'vllm-'}")


async def test_a_slow_start_is_given_up(
    python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = ServerProcess.wait_until_healthy

    async def wait_once_started(server: ServerProcess, url: str, seconds: float) -> None:
        await asyncio.to_thread(wait_for_logs, tmp_path, 1)
        await wait(server, url, seconds)

    monkeypatch.setattr(ServerProcess, "wait_until_healthy", wait_once_started)
    spec = model("org/slow", python=python, log_folder=str(tmp_path), startup_seconds=0.5)
    with pytest.raises(ConfigError, match=r"was not ready after 0\.5 s \(startup_seconds may be"):
        await open_backend(spec, ImageStore())
    wait_until_gone(pids(tmp_path), 2)


async def test_an_interrupted_start_leaves_nothing_behind(python: str, tmp_path: Path) -> None:
    spec = model("org/slow", python=python, log_folder=str(tmp_path))
    opening = asyncio.create_task(open_backend(spec, ImageStore()))
    await asyncio.to_thread(wait_for_logs, tmp_path, 1)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    wait_until_gone(pids(tmp_path), 2)


async def test_a_server_that_dies_ends_the_run(python: str, tmp_path: Path) -> None:
    spec = model("org/mortal", python=python, log_folder=str(tmp_path))
    async with aclosing(await open_backend(spec, ImageStore())) as backend:
        with pytest.raises(EngineDied, match=r"ended with exit code 9(.|\n)*the engine died"):
            for _ in range(100):
                with suppress(Transient):
                    await ask(backend)
                await asyncio.sleep(0.05)
    wait_until_gone(pids(tmp_path), 2)


def test_no_server_outlives_a_killed_parent(python: str, tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from images import ImageStore\n"
        "from mmconv.core.config import ModelSpec\n"
        "from model_zoo.vllm import open_backend\n"
        "async def main():\n"
        "    options = {'python': sys.argv[1], 'log_folder': sys.argv[2]}\n"
        "    spec = ModelSpec(provider='vllm', model='org/name', options=options)\n"
        "    backend = await open_backend(spec, ImageStore())\n"
        "    print('open', flush=True)\n"
        "    await asyncio.sleep(300)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, python, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"open\n"
        running = pids(tmp_path)
        assert alive(running) == running
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    wait_until_gone(running, 5)


async def test_a_running_server_is_one_of_provider_openai() -> None:
    with mock_server() as url:
        spec = ModelSpec(provider="vllm", model="mock", base_url=url)
        running = provider_of(spec)
        async with aclosing(await running.open_backend(spec, ImageStore())) as backend:
            reply = await backend.generate(MESSAGES, Sampling(), affinity="a")
    assert reply.text.startswith("Answer ")
    same = ModelSpec(provider="openai", model="mock", base_url=url)
    assert running.fingerprint(spec) == openai_api.fingerprint(same)
    assert running.metadata(spec) == {}
    assert running.open_renderer(spec, ImageStore()) is None
    with pytest.raises(ConfigError, match="tensor_parallel_size"):
        running.fingerprint(spec.model_copy(update={"options": {"tensor_parallel_size": 2}}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"tensor_parallel": 2},
            r"model name: options.*\n.*tensor_parallel is not a field.*tensor_parallel_size",
        ),
        ({"gpu_memory_utilization": 1.5}, "gpu_memory_utilization"),
        ({"python": "no-such-python"}, "'no-such-python' is not a program"),
        ({"trust_remote_code": True}, r"pin it by options\.revision"),
    ],
)
async def test_wrong_options_are_told(options: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        await open_backend(model("org/name", **options), ImageStore())


async def test_an_interpreter_without_vllm_is_told_before_it_is_started(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -I "$@"\n')
    bare.chmod(bare.stat().st_mode | stat.S_IXUSR)
    spec = model("org/name", python=str(bare), log_folder=str(tmp_path / "logs"))
    message = rf"model name: {bare} has no vLLM; .*'mmconv\[vllm\]'.*options\.python$"
    with pytest.raises(ConfigError, match=message):
        await open_backend(spec, ImageStore())
    assert not (tmp_path / "logs").exists()


def test_vllm_is_looked_for_in_the_servers_environment(tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text("raise SystemExit('imported')")
    check_ready(model("org/name", env={"PYTHONPATH": str(tmp_path)}))


def test_a_folder_without_a_chat_template_is_refused(python: str, tmp_path: Path) -> None:
    checkpoint = tmp_path / "weights"
    checkpoint.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (checkpoint / name).write_text("{}")
    with pytest.raises(ConfigError, match=r"has no chat template, .*options\.chat_template$"):
        check_ready(model(checkpoint, python=python))
    check_ready(model(checkpoint, python=python, chat_template="{{ messages }}"))
    with pytest.raises(ConfigError, match="writes no plain transcript"):
        check_ready(model(checkpoint, python=python, chat_template="plain"))


def test_a_folder_without_a_file_that_vllm_needs_is_refused(python: str, tmp_path: Path) -> None:
    """vLLM serves a checkpoint without tokenizer files, and fails at each conversation."""
    (tmp_path / "config.json").write_text('{"vision_config": {}, "model_type": "qwen2_vl"}')
    spec = model(tmp_path, python=python, chat_template="{{ messages }}")
    missing = rf"^{tmp_path}: missing tokenizer \(tokenizer\.json or tokenizer\.model\); copy it"
    with pytest.raises(ConfigError, match=missing):
        check_ready(spec)
    elsewhere = {**spec.options, "extra_args": ["--tokenizer=org/other"]}
    check_ready(spec.model_copy(update={"options": elsewhere}))
    (tmp_path / "params.json").write_text("{}")
    check_ready(spec)


async def test_the_server_gets_its_chat_template_as_a_file(python: str, tmp_path: Path) -> None:
    text = "{% for message in messages %}<｜User｜>{{ message }}{% endfor %}"
    spec = model("org/name", python=python, log_folder=str(tmp_path / "logs"), chat_template=text)
    async with aclosing(await open_backend(spec, ImageStore())):
        [log] = (tmp_path / "logs").glob("*.log")
        line = json.loads(log.read_text().splitlines()[0])["arguments"]
    assert dict(pairwise(line))["--chat-template"] == str(log.with_suffix(".jinja"))
    assert log.with_suffix(".jinja").read_text(encoding="utf-8") == text


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A folder that passes for a checkpoint where nobody loads it."""
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "qwen2_vl"}')
    (folder / "model.bin").write_bytes(b"\0" * 64)
    return folder


def test_a_chat_template_counts_by_its_text(checkpoint: Path) -> None:
    file = checkpoint.parent / "own.jinja"
    file.write_text("{{ messages }}")
    options = {"chat_template": str(file)}
    before = fingerprint(model(checkpoint, **options)), metadata(model(checkpoint, **options))
    assert before[0] != fingerprint(model(checkpoint))
    file.write_text("{{ messages }} ")
    assert fingerprint(model(checkpoint, **options)) != before[0]
    assert metadata(model(checkpoint, **options)) != before[1]


FLAGS = {
    "--model": "org/name",
    "--served-model-name": "name",
    "--host": "127.0.0.1",
    "--port": "8000",
    "--tensor-parallel-size": "2",
    "--dtype": "bfloat16",
    "--max-model-len": "4096",
    "--limit-mm-per-prompt": '{"image":3}',
    "--mm-processor-kwargs": '{"max_pixels":1003520}',
    "--revision": "0123abc",
}


def test_options_become_flags() -> None:
    options = {
        "tensor_parallel_size": 2,
        "dtype": "bfloat16",
        "max_model_len": 4096,
        "limit_images": 3,
        "max_pixels": 1003520,
        "enforce_eager": True,
        "enable_prefix_caching": False,
        "revision": "0123abc",
        "trust_remote_code": True,
        "extra_args": ["--swap-space", "2"],
        "python": "/opt/vllm/bin/python",
    }
    spec = model("org/name", **options)
    line = command_line(spec, VllmOptions(**options), 8000, None)
    assert line[:3] == ["/opt/vllm/bin/python", "-m", "vllm.entrypoints.openai.api_server"]
    assert dict(pairwise(line)).items() >= FLAGS.items()
    assert {"--no-enable-prefix-caching", "--enforce-eager", "--trust-remote-code"} <= set(line)
    assert line[-2:] == ["--swap-space", "2"]


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ({"max_pixels": 50176}, (3136, 50176)),
        ({"min_pixels": 784}, (784, 12845056)),
        ({"min_pixels": 784, "max_pixels": 50176}, (784, 50176)),
        ({"max_pixels": 784}, (784, 784)),
        ({"min_pixels": 20_000_000}, (20_000_000, 20_000_000)),
    ],
)
def test_a_processor_of_areas_gets_both_bounds_by_its_own_names(
    checkpoint: Path, given: dict[str, int], size: tuple[int, int]
) -> None:
    own = {"min_pixels": 3136, "max_pixels": 12845056, "merge_size": 2}
    (checkpoint / "preprocessor_config.json").write_text(json.dumps(own))
    line = command_line(model(checkpoint, **given), VllmOptions(**given), 8000, None)
    options = json.loads(dict(pairwise(line))["--mm-processor-kwargs"])
    assert options == {"size": {"shortest_edge": size[0], "longest_edge": size[1]}}
    line = command_line(model(checkpoint), VllmOptions(), 8000, None)
    assert "--mm-processor-kwargs" not in line


def test_the_fingerprint_names_what_changes_replies(checkpoint: Path) -> None:
    plain = fingerprint(model(checkpoint))
    assert plain == fingerprint(model(checkpoint))
    same: list[dict[str, Any]] = [
        {"replicas": 4, "tensor_parallel_size": 2, "gpu_memory_utilization": 0.5},
        {"python": "/elsewhere/python", "env": {"A": "b"}, "log_folder": "logs"},
        {"enforce_eager": True, "enable_prefix_caching": False, "limit_images": 9},
    ]
    assert {fingerprint(model(checkpoint, **each)) for each in same} == {plain}
    different: list[dict[str, Any]] = [
        {"dtype": "float16"},
        {"max_model_len": 4096},
        {"max_pixels": 50176},
        {"quantization": "fp8"},
        {"extra_args": ["--kv-cache-dtype", "fp8"]},
        {"extra_body": {"top_k": 1}},
        {"guided_json": False},
    ]
    assert len({plain, *(fingerprint(model(checkpoint, **each)) for each in different)}) == 8
    (checkpoint / "config.json").write_text('{"model_type": "other"}')
    assert fingerprint(model(checkpoint)) != plain
