"""The provider against a stand-in for vLLM; tests/real has the tests against the real one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping
from contextlib import aclosing, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from images import Library
from mmconv.config import ModelSpec
from mmconv.errors import ConfigError, Transient
from mmconv.protocols import Backend
from mmconv.values import Message, Sampling, Text
from model_zoo import openai_api
from model_zoo.vllm_options import Options
from model_zoo.vllm_server import (
    Served,
    check_ready,
    command,
    device_groups,
    facts,
    fingerprint,
    open_backend,
)
from tests.mock_server import mock_server
from tests.model_zoo.processes import alive, wait_until_gone

MESSAGES = (Message(role="user", parts=(Text(text="hello"),)),)
ROOT = Path(__file__).parents[2]


@pytest.fixture
def python(tmp_path: Path) -> str:
    """An interpreter whose vLLM is `tests.model_zoo.fake_vllm`; asked for a module, it has it."""
    script = tmp_path / "python"
    fake = Path(__file__).with_name("fake_vllm.py")
    script.write_text(f'#!/bin/sh\n[ "$1" = -c ] || exec "{sys.executable}" "{fake}" "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A folder that passes for a checkpoint where nobody loads it."""
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "qwen2_vl"}')
    (folder / "model.bin").write_bytes(b"\0" * 64)
    return folder


def model(path: Path | str, **options: Any) -> ModelSpec:
    return ModelSpec(provider="vllm", model=str(path), options=options)


async def ask(backend: Backend, affinity: str = "a") -> Any:
    reply = await backend.generate(MESSAGES, Sampling(), affinity=affinity)
    return json.loads(reply.text)


def pids(logs: Path, servers: int = 1) -> list[int]:
    """The servers and their engines, as the stand-ins wrote them into their logs."""
    found = list(logs.glob("vllm-*.log"))
    assert len(found) == servers
    return [pid for log in found for pid in json.loads(log.read_text().splitlines()[0])["pids"]]


async def test_it_starts_answers_and_leaves_nothing_behind(python: str, tmp_path: Path) -> None:
    spec = model("org/name", python=python, log_folder=str(tmp_path / "logs"))
    backend = await open_backend(spec, Library())
    assert isinstance(backend, Served)
    running = pids(tmp_path / "logs")
    assert (await ask(backend))["pid"] == running[0]
    assert alive(running) == running
    await backend.aclose()
    await backend.aclose()
    wait_until_gone(running, 2)


async def test_a_failed_start_shows_the_end_of_the_log(python: str, tmp_path: Path) -> None:
    spec = model("org/broken", python=python, log_folder=str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        await open_backend(spec, Library())
    lines = str(caught.value).splitlines()
    assert lines[0] == "broken: the server ended with exit code 1. The end of its log:"
    assert lines[1:-1] == [f"line {number} of the log" for number in range(21, 60)] + [
        "no weights here"
    ]
    assert lines[-1].startswith(f"The whole log is {tmp_path / 'vllm-'}")


async def test_a_slow_start_is_given_up(python: str, tmp_path: Path) -> None:
    spec = model("org/slow", python=python, log_folder=str(tmp_path), startup_seconds=1.5)
    with pytest.raises(ConfigError, match=r"was not ready after 1\.5 s \(startup_seconds may be"):
        await open_backend(spec, Library())
    wait_until_gone(pids(tmp_path), 2)


async def test_an_interrupted_start_leaves_nothing_behind(python: str, tmp_path: Path) -> None:
    spec = model("org/slow", python=python, log_folder=str(tmp_path), replicas=2)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(open_backend(spec, Library()), 1.5)
    wait_until_gone(pids(tmp_path, servers=2), 2)


async def test_a_server_that_dies_ends_the_run(python: str, tmp_path: Path) -> None:
    spec = model("org/mortal", python=python, log_folder=str(tmp_path))
    async with aclosing(await open_backend(spec, Library())) as backend:
        with pytest.raises(ConfigError, match=r"ended with exit code 9(.|\n)*the engine died"):
            for _ in range(100):
                with suppress(Transient):
                    await ask(backend)
                await asyncio.sleep(0.05)
    wait_until_gone(pids(tmp_path), 2)


async def test_replicas_have_gpus_of_their_own(python: str, tmp_path: Path) -> None:
    spec = model(
        "org/name",
        python=python,
        log_folder=str(tmp_path),
        replicas=2,
        gpus_per_replica=2,
        env={"CUDA_VISIBLE_DEVICES": "4,5,6,7"},
    )
    async with aclosing(await open_backend(spec, Library())) as backend:
        assert backend.max_concurrency == 2 * (128 + 128 // 8)
        assert (await ask(backend))["gpus"] == "4,5"
    wait_until_gone(pids(tmp_path, servers=2), 2)


def test_no_server_outlives_a_killed_parent(python: str, tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from images import Library\n"
        "from mmconv.config import ModelSpec\n"
        "from model_zoo.vllm_server import open_backend\n"
        "async def main():\n"
        "    options = {'python': sys.argv[1], 'log_folder': sys.argv[2]}\n"
        "    spec = ModelSpec(provider='vllm', model='org/name', options=options)\n"
        "    backend = await open_backend(spec, Library())\n"
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


async def test_a_base_url_is_used_as_it_is(python: str) -> None:
    with mock_server() as url:
        spec = ModelSpec(provider="vllm", model="mock", base_url=url)
        async with aclosing(await open_backend(spec, Library())) as backend:
            reply = await backend.generate(MESSAGES, Sampling(), affinity="a")
    assert reply.text.startswith("Answer ")
    same = ModelSpec(provider="openai", model="mock", base_url=url)
    assert fingerprint(spec) == openai_api.fingerprint(same)
    with pytest.raises(ConfigError, match="tensor_parallel_size"):
        await open_backend(
            spec.model_copy(update={"options": {"tensor_parallel_size": 2}}), Library()
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"tensor_parallel": 2},
            r"model name: options.*\n.*tensor_parallel is no field.*tensor_parallel_size",
        ),
        ({"gpu_memory_utilization": 1.5}, "gpu_memory_utilization"),
        ({"python": "no-such-python"}, "'no-such-python' is no program"),
        ({"trust_remote_code": True}, "pin it with the option revision"),
        (
            {"replicas": 3, "env": {"CUDA_VISIBLE_DEVICES": "0,1"}},
            "3 replicas of 1 GPUs need 3, but CUDA_VISIBLE_DEVICES=0,1 shows 2",
        ),
    ],
)
async def test_wrong_options_are_told(options: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        await open_backend(model("org/name", **options), Library())


async def test_an_interpreter_without_vllm_is_told_before_it_is_started(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -I "$@"\n')
    bare.chmod(bare.stat().st_mode | stat.S_IXUSR)
    spec = model("org/name", python=str(bare), log_folder=str(tmp_path / "logs"))
    told = rf"model name: {bare} has no vLLM; .*'mmconv\[vllm\]'.*options\.python$"
    with pytest.raises(ConfigError, match=told):
        await open_backend(spec, Library())
    assert not (tmp_path / "logs").exists()


def test_vllm_is_looked_for_in_the_servers_environment(tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text("raise SystemExit('imported')")
    check_ready(model("org/name", env={"PYTHONPATH": str(tmp_path)}))


def test_a_folder_without_a_chat_template_is_refused(python: str, checkpoint: Path) -> None:
    (checkpoint / "tokenizer_config.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"has no chat template, .*options\.chat_template$"):
        check_ready(model(checkpoint, python=python))
    given: list[dict[str, Any]] = [
        {"chat_template": "{{ messages }}"},
        {"extra_args": ["--chat-template=own.jinja"]},
    ]
    for options in given:
        check_ready(model(checkpoint, python=python, **options))
    with pytest.raises(ConfigError, match="writes no plain transcript"):
        check_ready(model(checkpoint, python=python, chat_template="plain"))


def test_a_chat_template_is_passed_on_and_counts_by_its_text(checkpoint: Path) -> None:
    file = checkpoint.parent / "own.jinja"
    file.write_text("{{ messages }}")
    options = {"chat_template": str(file)}
    line = command(model(checkpoint, **options), Options(**options), 8000)
    assert dict(pairwise(line))["--chat-template"] == "{{ messages }}"
    before = fingerprint(model(checkpoint, **options)), facts(model(checkpoint, **options))
    assert before[0] != fingerprint(model(checkpoint))
    file.write_text("{{ messages }} ")
    assert fingerprint(model(checkpoint, **options)) != before[0]
    assert facts(model(checkpoint, **options)) != before[1]
    assert facts(ModelSpec(provider="vllm", model="m", base_url="http://node:8000/v1")) == {}


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
    line = command(spec, Options(**options), 8000)
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
    line = command(model(checkpoint, **given), Options(**given), 8000)
    told = json.loads(dict(pairwise(line))["--mm-processor-kwargs"])
    assert told == {"size": {"shortest_edge": size[0], "longest_edge": size[1]}}
    assert "--mm-processor-kwargs" not in command(model(checkpoint), Options(), 8000)


def test_what_is_not_said_is_left_to_vllm() -> None:
    line = command(model("org/name"), Options(), 8000)
    flags = {word for word in line if word.startswith("--")}
    assert flags == {
        "--model",
        "--served-model-name",
        "--host",
        "--port",
        "--tensor-parallel-size",
        "--data-parallel-size",
        "--enable-prefix-caching",
        "--disable-uvicorn-access-log",
    }


def test_gpus_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert device_groups(Options()) == [{}]
    groups = device_groups(Options(replicas=2, tensor_parallel_size=2, data_parallel_size=2))
    assert [group["CUDA_VISIBLE_DEVICES"] for group in groups] == ["0,1,2,3", "4,5,6,7"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b,GPU-c")
    groups = device_groups(Options(replicas=3))
    assert [group["CUDA_VISIBLE_DEVICES"] for group in groups] == ["GPU-a", "GPU-b", "GPU-c"]


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
