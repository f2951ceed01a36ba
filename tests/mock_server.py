"""A loopback chat-completions server, fast enough to measure a client against.

Run it as `python -m tests.mock_server --latency 0.05 --failure-rate 0.2 --seed 1 --log FILE`, or
in a test with `mock_server(...)`. What it answers and which requests it fails depend on nothing
but the request, the seed and how often the same request came before, so that two runs can be
compared. It speaks just enough HTTP/1.1 for that: no chunked requests, no pipelining, no TLS.
`hold(url, 40)` lets it answer 40 requests in total and keeps the others waiting, so that a test
can look at a run in the middle of its work.

A request is known by its digest: the SHA-256 of its body, in which each image stands as a thin
sample of its characters. The log holds one digest per line for every request answered with 200.
"""

import argparse
import asyncio
import hashlib
import os
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import orjson

from tests.server_limits import LimitedServer, Limits

Failing = Literal["429", "500", "drop", "hang", "malformed"]
FAILURES: tuple[Failing, ...] = get_args(Failing)

_MARKER = b";base64,"
_STRIDE = 61  # of an image's characters, every 61st enters the digest
_REASONS = {200: "OK", 404: "Not Found", 429: "Too Many Requests", 500: "Internal Server Error"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How the server behaves; times in seconds, `failure_rate` as a share of all requests.

    A hang ends in a dropped connection after `hang`. `model` is the only name served. `limits` are
    kept beside the failures: what they refuse is refused at once, and a request's tokens are those
    of its usage.
    """

    latency: float = 0.0
    failure_rate: float = 0.0
    failures: tuple[Failing, ...] = FAILURES
    seed: int = 0
    hang: float = 2.0
    retry_after: float = 0.05
    model: str = "mock"
    limits: Limits | None = None


@dataclass(slots=True, kw_only=True)
class Ledger:
    """What the server has seen and answered so far; `log` is a file descriptor or None.

    Once `allowed` requests are answered, the others wait in `held`.
    """

    behaviour: Behaviour
    log: int | None = None
    allowed: int | None = None
    held: list[Callable[[], None]] = field(default_factory=list)
    seen: Counter[bytes] = field(default_factory=Counter)
    answered: int = 0
    under_way: int = 0
    peak: int = 0
    limited: LimitedServer | None = None
    first: float = 0.0
    last: float = 0.0

    def acknowledge(self, digest: bytes) -> None:
        """Count a request that was answered in full, and log it."""
        self.answered += 1
        self.last = asyncio.get_running_loop().time()
        if self.log is not None:
            os.write(self.log, digest.hex().encode() + b"\n")

    def allow(self, number: int | None) -> None:
        """Answer so many requests in total, None for all; those held back before are tried now."""
        self.allowed = number
        held, self.held = self.held, []
        for finish in held:
            finish()

    def failure(self, digest: bytes) -> Failing | None:
        """What to fail this request with, if at all; counts that it was seen."""
        times = self.seen[digest]
        self.seen[digest] = times + 1
        chance = hashlib.sha256(b"%d:%b:%d" % (self.behaviour.seed, digest, times)).digest()
        if int.from_bytes(chance[:8]) >= self.behaviour.failure_rate * 2**64:
            return None
        return self.behaviour.failures[chance[8] % len(self.behaviour.failures)]

    def stats(self) -> bytes:
        """Counts of requests, the seconds from the first one to the last answer, CPU seconds."""
        return orjson.dumps(
            {
                "requests": self.seen.total(),
                "answered": self.answered,
                "under_way": self.under_way,
                "peak": self.peak,
                "seconds": self.last - self.first,
                "refused": self.limited.refused if self.limited is not None else 0,
                "tokens": self.limited.tokens if self.limited is not None else 0,
                "cpu_seconds": time.process_time(),
            }
        )


def slim(data: bytearray, begin: int, end: int) -> bytes:
    """The JSON between `begin` and `end` with every image's characters thinned out: still JSON."""
    parts: list[bytes | bytearray] = []
    while (at := data.find(_MARKER, begin, end)) >= 0:
        quote = data.find(b'"', at, end)
        parts += [data[begin:at], b";%d," % (quote - at), data[at + len(_MARKER) : quote : _STRIDE]]
        begin = quote
    return b"".join([*parts, data[begin:end]])


def answer(document: dict[str, Any], digest: bytes) -> str:
    """A verdict where the last message asks for one, else a sentence; by the digest."""
    asked = orjson.dumps(document["messages"][-1]["content"])
    number = int.from_bytes(digest[:4])
    if b"is better" in asked:
        return f"Both answers were read.\n\nOverall, Response {'AB'[number % 2]} is better."
    if b"Rating:" in asked:
        return f"The answer was read with care.\n\nRating: {number % 10 + 1}"
    return f"Answer {digest.hex()[:12]} to the last of {len(document['messages'])} messages."


def completion(document: dict[str, Any], size: int, digest: bytes) -> bytes:
    """The body of a chat completion."""
    text = answer(document, digest)
    message = {"role": "assistant", "content": text}
    return orjson.dumps(
        {
            "id": "chatcmpl-" + digest.hex()[:16],
            "object": "chat.completion",
            "created": 0,
            "model": document.get("model"),
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": size // 4,
                "completion_tokens": len(text) // 4,
                "total_tokens": size // 4 + len(text) // 4,
            },
        }
    )


def response(status: int, body: bytes, *headers: str) -> bytes:
    """A whole HTTP response with a JSON body."""
    lines = [
        f"HTTP/1.1 {status} {_REASONS[status]}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def error(message: str) -> bytes:
    """An error body of the shape that OpenAI's servers send."""
    return orjson.dumps({"error": {"message": message, "type": "mock", "code": None}})


class Connection(asyncio.BufferedProtocol):
    """One client connection: reads a request, answers it, reads the next into the same buffer."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.data = bytearray(65536)
        self.filled = 0
        self.begin = 0
        self.end = 0
        self.arrived = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; asyncio hands a TCP server nothing else."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Where the next bytes go: behind those already there."""
        return memoryview(self.data)[self.filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Answer as soon as the request is there as a whole."""
        self.filled += nbytes
        if not self.end:
            self._read_head()
        if self.end and self.filled >= self.end:
            self.arrived = asyncio.get_running_loop().time()
            route = bytes(self.data[:64]).split(b" HTTP", 1)[0]
            body = slim(self.data, self.begin, self.end)
            size = self.end - self.begin
            self.filled = self.begin = self.end = 0
            self._answer(route, body, size)

    def _read_head(self) -> None:
        blank = self.data.find(b"\r\n\r\n", 0, self.filled)
        if blank < 0:
            return
        _, found, rest = self.data[:blank].lower().partition(b"content-length:")
        self.begin = blank + 4
        self.end = self.begin + (int(rest.split(b"\r\n", 1)[0]) if found else 0)
        if self.end > len(self.data):
            # asyncio still holds a view of the old buffer, so it cannot grow in place
            larger = bytearray(self.end)
            larger[: self.filled] = self.data[: self.filled]
            self.data = larger

    def _answer(self, route: bytes, body: bytes, size: int) -> None:
        match route:
            case b"POST /v1/chat/completions":
                self._complete(body, size)
            case b"GET /v1/models":
                names = [{"id": self.ledger.behaviour.model, "object": "model"}]
                self.transport.write(response(200, orjson.dumps({"object": "list", "data": names})))
            case b"GET /stats":
                self.transport.write(response(200, self.ledger.stats()))
            case _ if route.startswith(b"POST /hold/"):
                number = route.rpartition(b"/")[2]
                self.ledger.allow(int(number) if number != b"none" else None)
                self.transport.write(response(200, self.ledger.stats()))
            case _:
                self.transport.write(response(404, error("no such route")))

    def _complete(self, body: bytes, size: int) -> None:
        ledger = self.ledger
        ledger.first = ledger.first or self.arrived
        digest = hashlib.sha256(body).digest()
        reply = completion(orjson.loads(body), size, digest)
        headers: list[str] = []
        if ledger.limited is not None:
            # the reply ends with its usage, the total last
            tokens = int(reply.rsplit(b":", 1)[1].rstrip(b"}"))
            is_admitted = ledger.limited.admit(self.arrived, tokens)
            headers = ledger.limited.headers(self.arrived)
            if not is_admitted:
                wait = ledger.limited.limits.retry_after
                headers += [] if wait is None else [f"Retry-After: {wait}"]
                self.transport.write(response(429, error("too many requests"), *headers))
                return
        ledger.under_way += 1
        ledger.peak = max(ledger.peak, ledger.under_way)
        failing = ledger.failure(digest)
        if failing is None:
            self._later(ledger.behaviour.latency, response(200, reply, *headers), digest)
        elif failing == "drop":
            self._later(ledger.behaviour.latency, b"")
        elif failing == "hang":
            self._later(ledger.behaviour.hang, b"")
        else:
            self._later(ledger.behaviour.latency, self._failed(failing))

    def _failed(self, failing: Failing) -> bytes:
        if failing == "429":
            wait = f"Retry-After: {self.ledger.behaviour.retry_after}"
            return response(429, error("too many requests"), wait)
        if failing == "500":
            return response(500, error("something broke"))
        return response(200, b'{"choices": [{"message"')

    def _later(self, seconds: float, data: bytes, digest: bytes | None = None) -> None:
        if seconds:
            asyncio.get_running_loop().call_at(self.arrived + seconds, self._finish, data, digest)
        else:
            self._finish(data, digest)

    def _finish(self, data: bytes, digest: bytes | None) -> None:
        ledger = self.ledger
        if ledger.allowed is not None and ledger.answered >= ledger.allowed:
            ledger.held.append(lambda: self._finish(data, digest))
            return
        ledger.under_way -= 1
        if ledger.limited is not None:
            ledger.limited.finish()
        if not data:
            self.transport.abort()
        elif not self.transport.is_closing():
            self.transport.write(data)
            if digest is not None:
                ledger.acknowledge(digest)


async def serve(behaviour: Behaviour, port: int, log: Path | None) -> None:
    """Serve on the loopback interface until killed; prints the base URL first."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    descriptor = os.open(log, flags, 0o644) if log else None
    limited = LimitedServer(behaviour.limits) if behaviour.limits is not None else None
    ledger = Ledger(behaviour=behaviour, log=descriptor, limited=limited)
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(ledger), "127.0.0.1", port, backlog=4096
    )
    host, bound = server.sockets[0].getsockname()[:2]
    sys.stdout.write(f"http://{host}:{bound}/v1\n")
    sys.stdout.flush()
    await server.serve_forever()


@contextmanager
def mock_server(behaviour: Behaviour = Behaviour(), *, log: Path | None = None) -> Iterator[str]:
    """Run the server in a process of its own and yield its base URL."""
    command = [sys.executable, "-m", "tests.mock_server", *_arguments(behaviour)]
    if log is not None:
        command += ["--log", str(log.absolute())]
    root = Path(__file__).parent.parent
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            if not url:
                raise RuntimeError(f"the mock server ended with {process.wait()}")
            yield url
        finally:
            process.kill()


def hold(url: str, number: int | None) -> None:
    """Let the server at `url` answer `number` requests in total; None: all, those held too."""
    route = f"{url.removesuffix('/v1')}/hold/{'none' if number is None else number}"
    with urllib.request.urlopen(urllib.request.Request(route, method="POST")) as response:
        assert response.status == 200


def read_stats(url: str) -> dict[str, Any]:
    """What the server at `url` has counted: see `Ledger.stats`."""
    with urllib.request.urlopen(f"{url.removesuffix('/v1')}/stats") as response:
        stats: dict[str, Any] = orjson.loads(response.read())
    return stats


def _arguments(behaviour: Behaviour) -> list[str]:
    return [
        f"--latency={behaviour.latency}",
        f"--failure-rate={behaviour.failure_rate}",
        f"--failures={','.join(behaviour.failures)}",
        f"--seed={behaviour.seed}",
        f"--hang={behaviour.hang}",
        f"--retry-after={behaviour.retry_after}",
        f"--model={behaviour.model}",
        *([f"--limits={orjson.dumps(behaviour.limits).decode()}"] if behaviour.limits else []),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line; its defaults are those of `Behaviour`."""
    default = Behaviour()
    parser = argparse.ArgumentParser(description="A loopback chat-completions server.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path, default=None)
    parser.add_argument("--latency", type=float, default=default.latency)
    parser.add_argument("--failure-rate", type=float, default=default.failure_rate)
    parser.add_argument("--failures", default=",".join(default.failures))
    parser.add_argument("--seed", type=int, default=default.seed)
    parser.add_argument("--hang", type=float, default=default.hang)
    parser.add_argument("--retry-after", type=float, default=default.retry_after)
    parser.add_argument("--model", default=default.model)
    parser.add_argument("--limits", type=lambda text: Limits(**orjson.loads(text)), default=None)
    given = vars(parser.parse_args(arguments))
    port, log = given.pop("port"), given.pop("log")
    names = given.pop("failures").split(",")
    unknown = set(names) - set(FAILURES)
    if unknown:
        parser.error(f"--failures: {', '.join(sorted(unknown))}; choose from {', '.join(FAILURES)}")
    asyncio.run(serve(Behaviour(failures=tuple(names), **given), port, log))


if __name__ == "__main__":
    main()
