"""A model server in processes of its own: started, waited for, stopped, never left behind.

What the server is, and how it is asked, is not known here; `model_zoo.vllm_server` says both. The
server runs under `model_zoo.leash`, so that it ends with this process however this process ends.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from mmconv.errors import ConfigError
from model_zoo import leash

if TYPE_CHECKING:
    import aiohttp

POLL_SECONDS = 0.2
TAIL_LINES = 40

_OF_LEAKS = re.compile(r"nanobind: |\s*- leaked ")
"""What a library prints by the hundred when a server dies, after the line that says why."""


class ServerProcess:
    """One running server; `name` stands in messages, `log` takes what the server prints.

    `env` is added to this process's own environment.
    """

    def __init__(
        self, name: str, command: Sequence[str], *, log: Path, env: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-I", leash.__file__, *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **env},
                start_new_session=True,
            )

    async def wait_until_healthy(self, url: str, seconds: float) -> None:
        """Return once `url` answers 200; `ConfigError` if the server ends first or is too slow.

        A server that has ended is told even if another answers in its place.
        """
        import aiohttp

        deadline = time.monotonic() + seconds
        limit = aiohttp.ClientTimeout(total=5)
        async with aiohttp.ClientSession(timeout=limit) as session:
            while True:
                healthy = await _answers(session, url)
                self.check_running()
                if healthy:
                    return
                if time.monotonic() > deadline:
                    raise self._failure(
                        f"was not ready after {seconds:g} s (startup_seconds may be raised)"
                    )
                await asyncio.sleep(POLL_SECONDS)

    def check_running(self) -> None:
        """Raise `ConfigError`, with the end of the log, if the server has ended."""
        if self._process.poll() is not None:
            raise self._failure(f"ended with exit code {self._process.returncode}")

    async def stop(self) -> None:
        """End the server and all its processes; returns when they are gone. Safe to call twice."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await asyncio.to_thread(self._process.wait)

    def _failure(self, what: str) -> ConfigError:
        with self.log.open(encoding="utf-8", errors="replace") as lines:
            told = (line for line in lines if not _OF_LEAKS.match(line))
            tail = "".join(deque(told, maxlen=TAIL_LINES)).rstrip()
        return ConfigError(
            f"{self.name}: the server {what}. The end of its log:\n{tail}\n"
            f"The whole log is {self.log}"
        )


def free_ports(count: int) -> list[int]:
    """So many different TCP ports that nothing listens on at the moment."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


async def _answers(session: aiohttp.ClientSession, url: str) -> bool:
    import aiohttp

    try:
        async with session.get(url) as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False
