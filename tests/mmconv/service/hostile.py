"""What the tests of hostile clients share: raw connections, and a bystander of the attack."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
import psutil

from tests.mmconv.service.conftest import ServerProcess

SLOWEST = 2.0
"""Seconds of CPU that the server's event loop may use while it answers an ordinary request."""

ORDINARY: dict[str, Any] = {"model": "echo", "messages": [{"role": "user", "content": "hello"}]}


def open_client(server: ServerProcess) -> httpx2.Client:
    """A client that connects anew for every request, as strangers do."""
    # Without certificates to read, it is there at once.
    headers = {"Connection": "close"}
    return httpx2.Client(base_url=f"{server.url}/v1", headers=headers, timeout=30, verify=False)


def show(reference: str) -> dict[str, Any]:
    """A chat request with an image."""
    image = {"type": "image_url", "image_url": {"url": reference}}
    return {"model": "echo", "messages": [{"role": "user", "content": [image]}]}


class Bystander:
    """Sends ordinary requests from its start to its end, and watches the server's memory.

    At the end all must have been answered, none slowly, and memory have stayed below
    `most` bytes. Time is the CPU's of the server's main thread, which other work of the machine
    does not change; a loop that sleeps is found by the client's timeout.
    """

    def __init__(self, server: ServerProcess, most: int = 1_000_000_000) -> None:
        self._server = server
        self._most = most
        self._process = psutil.Process(server.process.pid)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on)
        self.seconds: list[float] = []
        self.failures: list[str] = []
        self.peak = 0

    def __enter__(self) -> Bystander:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        assert not self.failures
        assert self.seconds
        assert max(self.seconds) < SLOWEST, sorted(self.seconds)[-5:]
        assert self.peak < self._most, f"{self.peak:,} bytes"

    def _go_on(self) -> None:
        with open_client(self._server) as client:
            # At least one is sent after the attack.
            while not self._over.is_set():
                self._ask(client)
                time.sleep(0.02)
            self._ask(client)

    def _ask(self, client: httpx2.Client) -> None:
        began = self._loop_seconds()
        try:
            answer = client.post("chat/completions", json=ORDINARY)
            if answer.status_code != 200:
                self.failures.append(f"{answer.status_code}: {answer.text}")
        except httpx2.HTTPError as error:
            self.failures.append(repr(error))
        self.seconds.append(self._loop_seconds() - began)
        self.peak = max(self.peak, self._process.memory_info().rss)

    def _loop_seconds(self) -> float:
        threads = {thread.id: thread for thread in self._process.threads()}
        loop = threads[self._process.pid]
        return loop.user_time + loop.system_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer read from a socket; `status` is 0 where none came."""

    status: int
    body: bytes


def connect(server: ServerProcess, seconds: float = 20) -> socket.socket:
    """A connection whose calls fail after so many seconds."""
    place = urlsplit(server.url)
    return socket.create_connection((place.hostname, place.port), timeout=seconds)


def read_answer(connection: socket.socket) -> Answer:
    """The answer to the only request of a connection, read to its end."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65_536)
        if not piece:
            return Answer(status=0, body=data)
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    found = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    assert found, head
    while len(body) < int(found[1]):
        piece = connection.recv(65_536)
        assert piece, "the answer is cut off"
        body += piece
    return Answer(status=int(head.split()[1]), body=body)


def exchange(server: ServerProcess, data: bytes) -> Answer:
    """The answer to bytes that need not be HTTP."""
    with connect(server) as connection:
        connection.sendall(data)
        return read_answer(connection)


def check_refusal(status: int, body: bytes, *statuses: int) -> None:
    """A refusal with one of these statuses, in our shape, that tells nothing of the server."""
    assert status in statuses, (status, body[:500])
    error = json.loads(body)["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"]
    assert "Traceback" not in error["message"]
    assert "site-packages" not in error["message"]
    assert "/out/" not in error["message"]


def gone(connection: socket.socket) -> bool:
    """Whether the server has closed the connection, after all that it had sent."""
    try:
        while connection.recv(65_536):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True
