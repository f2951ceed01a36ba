from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from mmconv.errors import ConfigError
from model_zoo.server_process import ServerProcess, free_ports
from tests.model_zoo.processes import children, wait_for_children, wait_until_gone

SLEEP = [sys.executable, "-c", "import time; time.sleep(300)"]
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('deaf', flush=True); time.sleep(300)"
)


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


async def test_the_end_of_the_log_is_told_when_a_server_ends(tmp_path: Path) -> None:
    code = "import os, sys; print(os.environ['GREETING'], flush=True); sys.exit(3)"
    server = ServerProcess(
        "small", [sys.executable, "-c", code], log=tmp_path / "log", env={"GREETING": "good day"}
    )
    with pytest.raises(ConfigError) as caught:
        await server.wait_until_healthy(f"http://127.0.0.1:{free_ports(1)[0]}/health", 20)
    assert str(caught.value) == (
        "small: the server ended with exit code 3. The end of its log:\ngood day\n"
        f"The whole log is {tmp_path / 'log'}"
    )
    await server.stop()


async def test_a_signal_is_told_as_a_shell_tells_it(tmp_path: Path) -> None:
    code = "import os; os.kill(os.getpid(), 9)"
    server = ServerProcess("short", [sys.executable, "-c", code], log=tmp_path / "log", env={})
    with pytest.raises(ConfigError, match="exit code 137"):
        await server.wait_until_healthy(f"http://127.0.0.1:{free_ports(1)[0]}/health", 20)
    await server.stop()


def test_free_ports_differ() -> None:
    assert len(set(free_ports(50))) == 50


def test_what_ignores_the_request_to_end_is_killed() -> None:
    code = "import sys; from model_zoo import leash; leash.GRACE = 0.3; leash.run(sys.argv[1:])"
    with subprocess.Popen(
        [sys.executable, "-c", code, sys.executable, "-c", STUBBORN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"deaf\n"
        pids = [child.pid for child in psutil.Process(holder.pid).children()]
        begun = time.monotonic()
        holder.communicate(timeout=10)
        assert 0.2 < time.monotonic() - begun < 5
        wait_until_gone(pids, 1)
