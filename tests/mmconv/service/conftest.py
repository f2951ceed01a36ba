"""A service for tests: in this process over ASGI, or as a real server in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest
import yaml

from mmconv.service.app import open_app
from mmconv.service.settings import Settings
from mmconv.service.state import Service

MODELS: Mapping[str, Any] = {
    "echo": {"provider": "fake", "model": "echo"},
    "slow": {"provider": "fake", "model": "slow", "options": {"seconds": 0.5}},
    "judge": {"provider": "fake", "model": "judge"},
}
"""What a service under test serves where a test names no models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A service in this process, and a client that talks to it as HTTP would."""

    client: httpx.AsyncClient
    shared: Service


Serve: TypeAlias = Callable[..., Any]


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Serve]:
    """`await serve(field=value, ...)` opens a service with these settings."""
    async with AsyncExitStack() as stack:

        async def open_one(**fields: Any) -> Served:
            settings = Settings.model_validate({"models": MODELS, "out": tmp_path / "out"} | fields)
            app = await stack.enter_async_context(open_app(settings))
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            client = httpx.AsyncClient(transport=transport, base_url="http://localhost")
            await stack.enter_async_context(client)
            return Served(client=client, shared=app.state.service)

        yield open_one


@pytest.fixture
async def served(serve: Serve) -> Served:
    """A service with the settings of `MODELS` and no others."""
    opened = await serve()
    assert isinstance(opened, Served)
    return opened


@dataclass(slots=True)
class ServerProcess:
    """A real server: uvicorn in a process of its own, on a port that was free."""

    process: subprocess.Popen[str]
    url: str

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def terminate(self, seconds: float = 20) -> int:
        """Ask it to end; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)


class Servers:
    """Starts servers in one folder, which they share, and ends them all.

    Called with settings it starts one; `environ` is added to the environment. `before` is Python
    that their processes run first.
    """

    def __init__(self, folder: Path, before: str = "") -> None:
        self._folder = folder
        self._before = before
        self._started: list[ServerProcess] = []

    def __call__(self, environ: Mapping[str, str] | None = None, **fields: Any) -> ServerProcess:
        out = str(self._folder / "out")
        path = self._folder / f"serve-{len(self._started)}.yaml"
        path.write_text(yaml.safe_dump({"models": dict(MODELS), "out": out, "port": 0} | fields))
        with path.with_suffix(".log").open("w") as log:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    f"{self._before}\nfrom mmconv.service.command import command\ncommand()",
                    path,
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                env=os.environ | {"PYTHONUNBUFFERED": "1"} | dict(environ or {}),
                text=True,
            )
        self._started.append(ServerProcess(process, _address(process)))
        return self._started[-1]

    def end(self) -> None:
        """Kill what still runs."""
        for server in self._started:
            if server.process.poll() is None:
                server.kill()
            assert server.process.stdout is not None
            server.process.stdout.close()


Start: TypeAlias = Callable[..., ServerProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """`start(field=value, ...)` starts a server with these settings; see `Servers`."""
    servers = Servers(tmp_path)
    yield servers
    servers.end()


def _address(process: subprocess.Popen[str]) -> str:
    """Where the server says that it listens; fails if it ends before."""
    assert process.stdout is not None
    for line in process.stdout:
        found = re.search(r" at (http://\S+)", line)
        if found:
            return found[1]
    raise AssertionError(f"the server ended with {process.wait()}")
