"""The HTTP server around the application: uvicorn, with connections of ours and an end that drains.

When the process is told to end, no more connections are taken, streams end, and requests under way
have some time to finish.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import socket
from types import FrameType

import uvicorn
from uvicorn.loops.auto import auto_loop_factory

from mmconv.core.errors import ConfigError
from mmconv.engine.garbage import collect_rarely
from mmconv.service.app import open_app
from mmconv.service.http.connection import CONNECTIONS, Connection
from mmconv.service.settings import Settings
from mmconv.service.state import Service

IDLE_SECONDS = 75
"""How long a connection is kept for the next request; clients drop theirs sooner."""


class Server(uvicorn.Server):
    """Tells what requests share that the process is ending, as soon as it is told."""

    def __init__(
        self, config: uvicorn.Config, shared: Service, on_start: Callable[[str, int], None]
    ) -> None:
        super().__init__(config)
        self._shared = shared
        self._on_start = on_start
        self._loop = asyncio.get_running_loop()

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Listen, and tell where; raises `ConfigError` where that cannot be."""
        try:
            await super().startup(sockets=sockets)
        except SystemExit as error:
            place = f"{self.config.host}:{self.config.port}"
            raise ConfigError(
                f"cannot listen at {place}, as logged above: set another host or port (port 0 "
                "takes any that is free)"
            ) from error
        collect_rarely()
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        self._on_start(host, port)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End, or end at once where that was asked for before."""
        self._loop.call_soon_threadsafe(self._shared.drain)
        super().handle_exit(sig, frame)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM until the server has ended.

        uvicorn's own raises them again at that moment, and the worker has yet to drain then.
        """
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {each: signal.signal(each, self.handle_exit) for each in signals}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


def run(settings: Settings, on_start: Callable[[str, int], None]) -> None:
    """`serve` in an event loop of its own: uvloop's where it is installed."""
    _allow_files()
    with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        runner.run(serve(settings, on_start))


async def serve(settings: Settings, on_start: Callable[[str, int], None]) -> None:
    """Serve until the process is told to end; `on_start` gets the host and port that are bound.

    Raises `MmconvError` where what the settings name cannot be opened.
    """
    # Its warnings are about what single requests hold; those that are refused are logged by us.
    logging.getLogger("uvicorn.error").addFilter(lambda record: record.levelno != logging.WARNING)
    async with open_app(settings) as app:
        config = uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=[str(each) for each in settings.trusted_proxies],
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=round(settings.drain_seconds),
        )
        await Server(config, app.state.service, on_start).serve()


def _allow_files() -> None:
    """Raise the limit of open files, where it is low: a connection is one, and there are others."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * CONNECTIONS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
