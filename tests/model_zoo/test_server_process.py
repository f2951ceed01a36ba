import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from mmconv.core.errors import ConfigError
from model_zoo.vllm.server import ServerProcess, free_port, root_cause
from tests.model_zoo.processes import alive, children, wait_for_children, wait_until_gone

SLEEP = [sys.executable, "-c", "import time; time.sleep(300)"]
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('ready', flush=True); time.sleep(300)"
)
ENGINE = """
import pathlib, signal, sys, time

def clean_up(*_):
    time.sleep(1)
    pathlib.Path(sys.argv[1]).touch()
    sys.exit()

signal.signal(signal.SIGTERM, clean_up)
print("ready", flush=True)
time.sleep(300)
"""
SERVER = """
import subprocess, sys

engine = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]], stdout=subprocess.PIPE)
engine.stdout.readline()
print("ready", flush=True)
sys.argv[3] == "ends" or engine.wait()
"""
"""A server with an engine that needs a second to clean up, and that ends by itself or is ended."""


def start(command: list[str], log: Path) -> ServerProcess:
    """A server, once it is ready."""
    server = ServerProcess("group", command, log=log, env={})
    while "ready" not in log.read_text():
        server.check_running()
        time.sleep(0.02)
    return server


def guard_of(started: set[int]) -> int:
    """The one of these processes that is our own child."""
    [guard] = started & {child.pid for child in psutil.Process().children()}
    return guard


async def test_stopping_ends_the_process_and_can_be_repeated(tmp_path: Path) -> None:
    before = children()
    server = ServerProcess("sleeper", SLEEP, log=tmp_path / "new" / "log", env={})
    started = wait_for_children(2, before)
    server.check_running()
    await server.stop()
    await server.stop()
    with pytest.raises(ConfigError, match="sleeper: the server ended"):
        server.check_running()
    wait_until_gone(started, 1)


@pytest.mark.parametrize("server", ["ends", "is ended"])
async def test_what_a_server_leaves_is_waited_for(tmp_path: Path, server: str) -> None:
    before = children()
    cleaned, log = tmp_path / "cleaned", tmp_path / "log"
    command = [sys.executable, "-c", SERVER, ENGINE, str(cleaned), server]
    running = start(command, log)
    started = children() - before
    await running.stop()
    assert cleaned.exists()
    wait_until_gone(started, 10)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_guard_that_ends_ends_the_server(tmp_path: Path, number: signal.Signals) -> None:
    before = children()
    cleaned, log = tmp_path / "cleaned", tmp_path / "log"
    command = [sys.executable, "-c", SERVER, ENGINE, str(cleaned), "is ended"]
    running = start(command, log)
    started = children() - before
    os.kill(guard_of(started), number)
    await running.stop()
    assert cleaned.exists()
    wait_until_gone(started, 10)


async def test_a_log_without_an_exception_is_shown_to_its_end(tmp_path: Path) -> None:
    code = "import os; print(os.environ['GREETING'], flush=True); os.kill(os.getpid(), 9)"
    server = ServerProcess(
        "small", [sys.executable, "-c", code], log=tmp_path / "log", env={"GREETING": "good day"}
    )
    with pytest.raises(ConfigError) as caught:
        await server.wait_until_healthy(f"http://127.0.0.1:{free_port()}/health", 20)
    assert str(caught.value) == (
        "small: the server ended with exit code 137. The last lines of its log:\ngood day\n"
        f"Its log: {tmp_path / 'log'}"
    )
    await server.stop()


async def test_what_a_library_says_of_leaks_hides_no_cause(tmp_path: Path) -> None:
    leaks = "print('nanobind: leaked 99 types!', *[' - leaked type x'] * 99, sep=chr(10))"
    code = f"print('EngineDeadError: killed'); {leaks}"
    server = ServerProcess("small", [sys.executable, "-c", code], log=tmp_path / "log", env={})
    with pytest.raises(ConfigError, match="EngineDeadError: killed\nIts log"):
        await server.wait_until_healthy(f"http://127.0.0.1:{free_port()}/health", 20)
    await server.stop()


def record(process: str, place: str, *lines: str, level: str = "ERROR") -> list[str]:
    """Lines as vLLM 0.32 logs them."""
    return [f"({process} pid=7) {level} 11-24 00:33:36 [{place}] {line}" for line in lines]


TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "x.py", line 1, in f',
    "    f(",
    "      ^",
)
NO_START = (
    *("Process EngineCore:", *TRACEBACK, "RuntimeError: init failed in a background process."),
    *(*TRACEBACK, "RuntimeError: Engine core initialization failed. See root cause above."),
)
LOGS = {
    "RuntimeError: start (0) + length (160) exceeds dimension size (128).": [
        *record(
            "APIServer", "base.py:280", "Multi-modal warmup failed", *TRACEBACK, level="WARNING"
        ),
        *record(
            "Worker_TP0", "multiproc_executor.py:953", "WorkerProc failed to start.", *TRACEBACK
        ),
        # records of two workers interleave
        *record("Worker_TP1", "multiproc_executor.py:953", *TRACEBACK),
        *record(
            "Worker_TP0",
            "multiproc_executor.py:953",
            "RuntimeError: start (0) + length (160) exceeds dimension size (128).",
        ),
        "Loading safetensors checkpoint shards:   0% Completed | 0/1 [00:00<?, ?it/s]",
        *record("Worker_TP1", "multiproc_executor.py:953", "RuntimeError: of the other worker"),
        *record("EngineCore", "core.py:1510", *TRACEBACK, "Exception: See stack trace for it."),
        *NO_START,
    ],
    "pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
    "  Value error, max_model_len (10000000) is greater": [
        *TRACEBACK,
        "pydantic_core.ValidationError: 1 validation error for ModelConfig",
        "  Value error, max_model_len (10000000) is greater [type=value_error, input_value=Args]",
        "    For further information visit https://errors.pydantic.dev/2.14/v/value_error",
        "/usr/lib/resource_tracker.py:254: UserWarning: leaked shared_memory objects",
    ],
    "Worker proc VllmWorker-0 died unexpectedly (exit code: None), shutting down executor; the "
    "system may have killed it for lack of memory (see dmesg)": [
        # a request that failed, long before
        *record("APIServer", "serving_chat.py:20", *TRACEBACK, "TypeError: can only join strings"),
        *record(
            "EngineCore",
            "multiproc_executor.py:315",
            "Worker proc VllmWorker-0 died unexpectedly (exit code: None), shutting down executor.",
        ),
        *record("EngineCore", "core.py:1512", *TRACEBACK, "RuntimeError: cancelled"),
        *record(
            "APIServer", "async_llm.py:906", *TRACEBACK, "x.EngineDeadError: EngineCore failed"
        ),
    ],
    "api_server.py: error: unrecognized arguments: --no-such-flag": [
        "usage: api_server.py [-h]",
        "api_server.py: error: unrecognized arguments: --no-such-flag",
    ],
    "ValueError: unknown architecture": [
        *record("EngineCore", "core.py:1510", *TRACEBACK, "KeyError: 'llama9'", ""),
        *record("EngineCore", "core.py:1510", "During handling of the above exception, another"),
        *record("EngineCore", "core.py:1510", *TRACEBACK, "ValueError: unknown architecture"),
    ],
    "": ["INFO:     Started server process [1]", "(APIServer pid=7) all is well"],
}


@pytest.mark.parametrize("cause", LOGS)
def test_the_root_cause_is_the_first_exception_of_the_engine(cause: str) -> None:
    assert root_cause(f"{line}\n" for line in LOGS[cause]) == cause


async def test_a_server_that_has_ended_is_told_even_if_another_answers(tmp_path: Path) -> None:
    server = ServerProcess("late", SLEEP, log=tmp_path / "log", env={})
    await server.stop()

    async def stranger(_request: web.Request) -> web.Response:
        return web.Response()

    app = web.Application()
    app.router.add_get("/health", stranger)
    async with TestServer(app) as other:
        with pytest.raises(ConfigError, match="late: the server ended with exit code"):
            await server.wait_until_healthy(str(other.make_url("/health")), 20)


@pytest.mark.parametrize(
    "command", [[STUBBORN], [SERVER, STUBBORN, "", "ends"]], ids=["server", "engine that is left"]
)
def test_what_ignores_the_request_to_end_is_killed(command: list[str]) -> None:
    code = "import sys; from model_zoo.vllm import process_guard as guard; "
    code += "guard.GRACE = 0.5; guard.run(sys.argv[1:])"
    with subprocess.Popen(
        [sys.executable, "-c", code, sys.executable, "-c", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        pids = [child.pid for child in psutil.Process(holder.pid).children(recursive=True)]
        begun = time.monotonic()
        holder.communicate()
        assert time.monotonic() - begun > 0.2
        assert not alive(pids)
