"""A service for tests: in this process over ASGI, or as a real server in a process of its own."""

import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, ClassVar, Protocol

import httpx2
import pytest
import yaml
from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute

from mmconv.service.app import open_app
from mmconv.service.settings import Settings
from mmconv.service.state import Service
from tests.mmconv.service.loaded import start as start_server
from tests.mmconv.service.loaded import start_page

MODELS: Mapping[str, Any] = {
    "echo": {"provider": "fake", "model": "echo"},
    "slow": {"provider": "fake", "model": "slow", "options": {"seconds": 0.5}},
    "judge": {"provider": "fake", "model": "judge"},
}
"""What every service under test serves."""


class Routed(FastAPI):
    """Takes a router's routes from the first application that had it: they know of none.

    FastAPI makes the checks of all parameters anew for each, which takes longer than most tests.
    """

    made: ClassVar[dict[int, list[BaseRoute]]] = {}

    def include_router(self, router: APIRouter, **given: Any) -> None:
        if id(router) in self.made:
            self.routes.extend(self.made[id(router)])
            return
        others = len(self.routes)
        super().include_router(router, **given)
        self.made[id(router)] = self.routes[others:]


@pytest.fixture(scope="session", autouse=True)
def _routed_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mmconv.service.app.FastAPI", Routed)
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A service in this process, and a client that talks to it as HTTP would."""

    client: httpx2.AsyncClient
    shared: Service


class Serve(Protocol):
    """`await serve(field=value, ...)` opens a service with these settings, and `MODELS`."""

    async def __call__(self, **fields: Any) -> Served: ...


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Serve]:
    async with AsyncExitStack() as stack:

        async def open_one(*, models: Mapping[str, Any] = MODELS, **fields: Any) -> Served:
            fields = {"models": {**MODELS, **models}, "out": tmp_path / "out"} | fields
            settings = Settings.model_validate(fields)
            app = await stack.enter_async_context(open_app(settings))
            transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
            client = httpx2.AsyncClient(transport=transport, base_url="http://localhost")
            await stack.enter_async_context(client)
            return Served(client=client, shared=app.state.service)

        yield open_one


@pytest.fixture
async def served(serve: Serve) -> Served:
    """A service with the settings of `MODELS` and no others."""
    return await serve()


@dataclass(slots=True)
class ServerProcess:
    """A real server: uvicorn in a process of its own, on a port that was free."""

    process: ForkServerProcess
    log: Path
    url: str = ""

    @property
    def output(self) -> str:
        """What it has printed by now."""
        return self.log.read_text() if self.log.exists() else ""

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.join()

    def terminate(self) -> None:
        """Ask it to end."""
        self.process.terminate()

    def ended(self, seconds: float = 20) -> int:
        """Its exit code when it has ended."""
        self.process.join(seconds)
        assert self.process.exitcode is not None, f"it still runs after {seconds:g} s"
        return self.process.exitcode


class Servers:
    """Starts servers in one folder, which they share, and ends them all.

    Called with settings it starts one, which serves `MODELS` too; `environ` is added to the
    environment. `before` is Python that their processes run first.
    """

    def __init__(self, folder: Path, before: str = "") -> None:
        self._folder = folder
        self._before = before
        self._started: list[ServerProcess] = []

    def __call__(self, environ: Mapping[str, str] | None = None, **fields: Any) -> ServerProcess:
        return self.several(1, environ, **fields)[0]

    def several(
        self, count: int, environ: Mapping[str, str] | None = None, **fields: Any
    ) -> list[ServerProcess]:
        """So many with the same settings, started at once."""
        out = str(self._folder / "out")
        models = {**MODELS, **fields.pop("models", {})}
        begun = []
        for _ in range(count):
            path = self._folder / f"serve-{len(self._started)}.yaml"
            info = {"models": models, "out": out, "port": 0} | fields
            path.write_text(yaml.safe_dump(info))
            log = path.with_suffix(".log")
            begun.append(ServerProcess(start_server(path, log, environ or {}, self._before), log))
            self._started.append(begun[-1])
        for server in begun:
            server.url = _address(server)
        return begun

    def view(self, folder: Path) -> ServerProcess:
        """`mmconv view` of a folder."""
        return self.page("view", folder)

    def page(self, *arguments: object) -> ServerProcess:
        """A command that serves a page, with its arguments."""
        log = self._folder / f"page-{len(self._started)}.log"
        server = ServerProcess(start_page([*map(str, arguments)], log), log)
        self._started.append(server)
        server.url = _address(server)
        return server

    def end(self) -> None:
        """Kill what still runs."""
        for server in self._started:
            server.kill()
            server.process.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Servers]:
    """`start(field=value, ...)` starts a server with these settings."""
    servers = Servers(tmp_path)
    yield servers
    servers.end()


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until something that another process does is so."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def _address(server: ServerProcess) -> str:
    """Where the server says that it listens; fails if it ends before."""
    begun = " at (http://\\S+)"
    until(lambda: not server.process.is_alive() or re.search(begun, server.output) is not None)
    found = re.search(begun, server.output)
    assert found is not None, f"the server ended with {server.process.exitcode}: {server.output}"
    return found[1]
