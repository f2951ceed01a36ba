"""A model server in its own processes: started, waited for, stopped, never left behind.

`model_zoo.vllm` knows what the server is and how to query it; this module knows only the form of
vLLM's log. The server runs under `model_zoo.vllm.process_guard`, so that it ends with this process.
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
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mmconv.core.errors import ConfigError, EngineDied
from model_zoo.vllm import process_guard

if TYPE_CHECKING:
    import aiohttp

POLL_SECONDS = 0.2
TAIL_LINES = 10
CAUSE_LINES = 10
CAUSE_CHARACTERS = 1000

_RECORD = re.compile(
    r"(?:\((?P<process>\S+) pid=\d+\) )?"
    r"(?:(?P<level>[A-Z]+) \d\d-\d\d \d\d:\d\d:\d\d (?P<place>\[[^\]]*\]) ?)?(?P<text>.*)"
)
"""A line of vLLM's log: `(EngineCore pid=12) ERROR 11-24 00:33:36 [core.py:1510] text`."""

_TRACEBACK = "Traceback (most recent call last):"
_PLAIN = re.compile(r"\S+\.py: error: |.* (?:died|exited) unexpectedly")
"""Causes without a traceback: wrong `extra_args` (by argparse), and a process that was killed."""

_HANDLING = "During handling of the above exception"
_FOLLOWS = re.compile(r"See (?:root cause|stack trace)|EngineDeadError")
"""Exceptions by which vLLM's processes only report that another one has failed."""

_KILLED = "; the system may have killed it for lack of memory (see dmesg)"
_NOISE = re.compile(
    r"nanobind: |\s*- leaked |\S+:\d+: \w*Warning|Process \S+:$|    For further info"
)
"""Lines that libraries print, at times by the hundred, after the exception of a dying server."""


class ServerProcess:
    """One running server, called `name` in messages; `env` adds to our environment."""

    def __init__(
        self, name: str, command: Sequence[str], *, log: Path, env: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-I", process_guard.__file__, *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **env},
                start_new_session=True,
            )

    async def wait_until_healthy(self, url: str, seconds: float) -> None:
        """Return once `url` answers 200; `ConfigError` if the server ends or is too slow."""
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
        """Raise `EngineDied`, with the root cause in the log, if the server has ended."""
        if self._process.poll() is None:
            return
        ended = f"ended with exit code {self._process.returncode}"
        with self.log.open(encoding="utf-8", errors="replace") as lines:
            cause = root_cause(lines)
        if not cause:
            raise EngineDied(str(self._failure(ended)))
        raise EngineDied(f"{self.name}: the server {ended}: {cause}\nIts log: {self.log}")

    async def stop(self) -> None:
        """End the server and all its processes; returns when they are gone. Safe to call twice."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await asyncio.to_thread(self._process.wait)

    def _failure(self, problem: str) -> ConfigError:
        with self.log.open(encoding="utf-8", errors="replace") as lines:
            text = (line for line in lines if not _NOISE.match(line))
            tail = "".join(deque(text, maxlen=TAIL_LINES)).rstrip()
        return ConfigError(
            f"{self.name}: the server {problem}. The last lines of its log:\n{tail}\n"
            f"Its log: {self.log}"
        )


def root_cause(log: Iterable[str]) -> str:
    """The exception that ended a server, with its message; empty if the log shows none.

    That is the first one of the engine's processes: the API server fails because they did. If they
    raised none, it is the last one of the API server, which may have survived others.
    """
    engine: list[str] = []
    server: list[str] = []
    for process, lines in _exceptions(log):
        message = "\n".join(lines[:CAUSE_LINES]).partition(" [type=")[0][:CAUSE_CHARACTERS]
        if message and not _FOLLOWS.search(message):
            (engine if process and process != "APIServer" else server).append(message)
    cause = engine[0] if engine else server[-1] if server else ""
    return f"{cause.rstrip('.')}{_KILLED}" if "unexpectedly" in cause else cause


def _exceptions(log: Iterable[str]) -> list[tuple[str | None, list[str]]]:
    exceptions: list[tuple[str | None, list[str]]] = []
    latest: dict[tuple[str | None, str | None], list[str]] = {}
    for line in log:
        record = _RECORD.match(line)
        assert record is not None  # it matches any text
        source, text = (record["process"], record["place"]), record["text"]
        message = latest.get(source)
        if _PLAIN.match(text):
            exceptions.append((record["process"], [text]))
        elif record["level"] in ("DEBUG", "INFO", "WARNING"):
            continue
        elif text == _TRACEBACK:
            latest[source] = []
            exceptions.append((record["process"], latest[source]))
        elif message is None:
            continue
        elif text.startswith(_HANDLING):
            message.clear()  # what was handled is not the cause
        elif message and (not text or _NOISE.match(text)):
            message.append("")  # ends it
        elif (message and message[-1]) or (not message and not text.startswith((" ", "\t"))):
            message.append(text)
    return [(process, [line for line in message if line]) for process, message in exceptions]


def free_port() -> int:
    """A TCP port that nothing listens on at the moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


async def _answers(session: aiohttp.ClientSession, url: str) -> bool:
    import aiohttp

    try:
        async with session.get(url) as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False
