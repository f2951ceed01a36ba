"""A real server in a process of its own: what only sockets and signals show."""

import inspect
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mmconv.service.server import Connection, Server
from tests.mmconv.service.conftest import ServerProcess, Servers, until
from tests.mmconv.service.hostile import connect
from tests.mmconv.service.run_settings import drawn, request

SLOWER = {"provider": "fake", "model": "slow", "options": {"seconds": 1.5}}
STUCK = {"provider": "fake", "model": "slow", "options": {"seconds": 60}}
ONE_CALL = {"queued_calls": 1}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One for all tests that leave it as it was."""
    servers = Servers(tmp_path_factory.mktemp("server"))
    yield servers(models={"stuck": STUCK}, limits=ONE_CALL)
    servers.end()


def says(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": "echo", "messages": [{"role": "user", "content": text}]} | fields


def status(server: ServerProcess, path: str = "health") -> int:
    """What a connection of its own gets; 0 where the server takes none."""
    try:
        return httpx2.get(f"{server.url}/{path}", verify=False).status_code
    except httpx2.TransportError:
        return 0


def ask(server: ServerProcess, **fields: Any) -> httpx2.Response:
    url = f"{server.url}/v1/chat/completions"
    return httpx2.post(url, json=says("hello", **fields), timeout=20, verify=False)


def is_busy(server: ServerProcess) -> bool:
    """Whether the one call that may be under way is."""
    return ask(server).status_code == 429


def insist(server: ServerProcess, model: str) -> httpx2.Response:
    """Ask until the call is the one that may be under way; what comes of it."""
    deadline = time.monotonic() + 10
    while (answer := ask(server, model=model)).status_code == 429:
        assert time.monotonic() < deadline
    return answer


def test_a_port_that_is_taken_is_told(server: ServerProcess, tmp_path: Path) -> None:
    options = ["--port", str(urlsplit(server.url).port), "--out", str(tmp_path)]
    code = "from mmconv.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", code, "serve", "--model", "fake/echo", *options],
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    assert "cannot listen at 127.0.0.1:" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_request_under_way_ends_before_the_server_does(start: Servers) -> None:
    server = start(models={"slower": SLOWER}, limits=ONE_CALL)
    with ThreadPoolExecutor() as threads:
        asking = threads.submit(insist, server, "slower")
        until(lambda: is_busy(server))
        server.terminate()
        until(lambda: status(server) == 0)
        answer = asking.result()
    assert answer.json()["choices"][0]["message"]["content"] == "hello"
    assert server.ended() == 0


def test_the_command_serves_and_an_idle_server_ends_at_once(tmp_path: Path) -> None:
    options = ["--model", "fake/echo", "--port", "0", "--out", str(tmp_path)]
    command = [sys.executable, "-m", "mmconv", "serve", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            info = re.search(r"^Serving fake/echo at (http://\S+)", process.stdout.readline())
            assert info is not None
            assert httpx2.get(f"{info[1]}/health").status_code == 200
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
            assert time.monotonic() - began < 5
        finally:
            process.kill()


def test_a_server_does_not_wait_for_ever(start: Servers) -> None:
    server = start(models={"stuck": STUCK}, limits=ONE_CALL, drain_seconds=1)
    with ThreadPoolExecutor() as threads:
        asking = threads.submit(insist, server, "stuck")
        until(lambda: is_busy(server))
        began = time.monotonic()
        server.terminate()
        assert server.ended() == 0
        assert time.monotonic() - began < 10
        answer = asking.result()
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "draining"


def test_requests_and_runs_have_one_time_to_end(start: Servers, tmp_path: Path) -> None:
    server = start(models={"stuck": STUCK}, data=drawn(tmp_path), limits=ONE_CALL, drain_seconds=4)
    with ThreadPoolExecutor() as threads:
        body = request(models={"candidate": "stuck", "judge": "stuck"})
        run = httpx2.post(f"{server.url}/v1/runs", json=body).raise_for_status().json()["id"]
        until(lambda: f"run {run}: started" in server.output)
        threads.submit(insist, server, "stuck")
        until(lambda: is_busy(server))
        began = time.monotonic()
        server.terminate()
        assert server.ended() == 0
        assert time.monotonic() - began < 7.5


def test_a_stream_that_outlasts_the_drain_ends_as_its_protocol_does(tmp_path: Path) -> None:
    servers = Servers(
        tmp_path, "from mmconv.service import streams; streams.PATIENCE_SECONDS = 0.2"
    )
    server = servers(models={"stuck": STUCK}, drain_seconds=1)
    body = says("hello", model="stuck", stream=True)
    url = f"{server.url}/v1/chat/completions"
    lines: list[str] = []
    with httpx2.stream("POST", url, json=body, timeout=20) as answer:
        for line in answer.iter_lines():
            if line and not lines:
                server.terminate()
            lines += [line] if line.startswith("data: ") else []
    assert json.loads(lines[-2].removeprefix("data: "))["error"]["code"] == "draining"
    assert lines[-1] == "data: [DONE]"
    assert server.ended() == 0
    assert "Traceback" not in server.output
    servers.end()


@pytest.mark.parametrize("streamed", [False, True])
def test_a_client_that_goes_takes_its_call_with_it(server: ServerProcess, streamed: bool) -> None:
    url = f"{server.url}/v1/chat/completions"
    with pytest.raises(httpx2.ReadTimeout):
        httpx2.post(url, json=says("hello", model="stuck", stream=streamed), timeout=0.3)
    until(lambda: not is_busy(server))
    assert ask(server).status_code == 200


def test_an_upgrade_that_is_asked_for_is_not_logged(server: ServerProcess) -> None:
    asked = {"Connection": "Upgrade", "Upgrade": "websocket"}
    assert httpx2.get(f"{server.url}/health", headers=asked).status_code == 200
    assert "pgrade" not in server.output
    assert "pip install" not in server.output


def test_more_connections_than_there_may_be_are_refused(tmp_path: Path) -> None:
    servers = Servers(tmp_path, "from mmconv.service import server; server.CONNECTIONS = 5")
    server = servers()
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(connect(server))
        until(lambda: status(server) == 503)
        assert httpx2.get(f"{server.url}/health").json()["error"]["code"] == "busy"
    until(lambda: status(server) == 200)
    servers.end()


def test_no_private_name_of_uvicorn_is_used() -> None:
    """An update of uvicorn may change those, and nothing would say so."""
    for ours, theirs in ((Connection, HttpToolsProtocol), (Server, uvicorn.Server)):
        used = set(ours.__dict__) | set(re.findall(r"self\.(\w+)", inspect.getsource(ours)))
        known = set(vars(theirs)) | set(re.findall(r"self\.(\w+)", inspect.getsource(theirs)))
        assert {name for name in used & known if re.match("_(?!_)", name)} == set()
