"""The served API under load: chat beside the model alone, judgements per second, memory.

Run `python -m tests.bench.service` (some minutes), or one part of it: `chat`, `judgements`,
`memory`. The server is a process of its own; clients are coroutines of this one, over aiohttp,
which costs less of the shared cores than other clients. Nothing is asked twice: every request
differs.
"""

import argparse
import asyncio
import io
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import orjson
import psutil
import yaml
from PIL import Image

from images import ImageStore
from mmconv.core.config import ModelSpec
from mmconv.core.keys import hash_bytes
from mmconv.core.types import Message, Sampling, Text
from model_zoo.hf import open_backend
from tests.pictures import picture
from tests.tiny_checkpoints import make_checkpoint

CHAT_CLIENTS = 32
JUDGING_CLIENTS = 64
QUESTION = "What is in the picture? Name every shape and its colour, for visitor {}."
MEGABYTE = 1_000_000

Ask = Callable[[int], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What came of a load: requests, wall seconds, and each request's seconds, least first."""

    requests: int
    seconds: float
    latencies: list[float]

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    def percentile(self, share: float) -> float:
        return self.latencies[min(len(self.latencies) - 1, int(share * len(self.latencies)))]


def main() -> None:
    options = parse()
    with tempfile.TemporaryDirectory() as folder:
        for part in PARTS if options.part == "all" else [options.part]:
            asyncio.run(PARTS[part](Path(folder) / part, options))


async def chat(folder: Path, options: argparse.Namespace) -> None:
    """The tiny LLaVA asked by 32 clients, in this process and through a server, by turns."""
    checkpoint = make_checkpoint("llava", folder / "llava")
    message = {"dtype": "float32", "threads": 2}
    spec = {"provider": "hf", "model": str(checkpoint), "options": message}
    best: dict[str, Load] = {}
    for _ in range(options.rounds):
        for name, ask in (("direct", ask_directly), ("served", ask_served)):
            async with ask(spec, folder, options.tokens) as one:
                await load(one, CHAT_CLIENTS, CHAT_CLIENTS)  # Loading is not measured.
                found = await load(one, options.chats, CHAT_CLIENTS)
            tell(f"chat, {name}", found)
            if name not in best or found.rate > best[name].rate:
                best[name] = found
    print(f"served / direct: {best['served'].rate / best['direct'].rate:.3f}", flush=True)


@asynccontextmanager
async def ask_directly(spec: dict[str, Any], folder: Path, tokens: int) -> AsyncIterator[Ask]:
    """The backend without anything around it."""
    scenes = ImageStore()
    shown = scenes.add_bytes(picture(1, (120, 90)))
    model = await open_backend(ModelSpec.model_validate(spec), scenes)

    async def ask(number: int) -> None:
        parts = (shown, Text(text=QUESTION.format(number)))
        sampling = Sampling(max_tokens=tokens)
        await model.generate([Message(role="user", parts=parts)], sampling, affinity=str(number))

    yield ask
    await model.aclose()


@asynccontextmanager
async def ask_served(spec: dict[str, Any], folder: Path, tokens: int) -> AsyncIterator[Ask]:
    """The same through `/v1/chat/completions`, the picture uploaded once."""
    with serving(folder, {"tiny": spec}) as (url, _):
        async with connected(url, CHAT_CLIENTS) as session:
            data = picture(1, (120, 90))
            await post(session, "/v1/images", data)
            url_part = {"type": "image_url", "image_url": {"url": f"image:{hash_bytes(data)}"}}

            async def ask(number: int) -> None:
                text = {"type": "text", "text": QUESTION.format(number)}
                message = {"role": "user", "content": [url_part, text]}
                body = {
                    "model": "tiny",
                    "messages": [message],
                    "temperature": 0,
                    "max_tokens": tokens,
                }
                await post(session, "/v1/chat/completions", orjson.dumps(body))

            yield ask


async def judgements(folder: Path, options: argparse.Namespace) -> None:
    """ConvBench's first turn judged by the fake judge for 64 clients, each judgement another."""
    with serving(folder, {"judge": {"provider": "fake", "model": "judge"}}) as (url, server):
        async with connected(url, JUDGING_CLIENTS) as session:

            async def ask(number: int) -> None:
                await post(session, "/v1/judgements", judgement(number))

            await load(ask, 10 * JUDGING_CLIENTS, JUDGING_CLIENTS)
            before = sum(server.cpu_times()[:2])
            found = await load(ask, options.judgements, JUDGING_CLIENTS)
            spent = sum(server.cpu_times()[:2]) - before
    tell("judgements, 64 clients", found)
    print(f"server: {1000 * spent / found.requests:.2f} ms CPU per judgement", flush=True)


async def memory(folder: Path, options: argparse.Namespace) -> None:
    """The server's resident memory over many requests, and over many uploads of a megabyte."""
    models = {
        "echo": {"provider": "fake", "model": "echo"},
        "judge": {"provider": "fake", "model": "judge"},
    }
    with serving(folder, models) as (url, server):
        async with connected(url, CHAT_CLIENTS) as session:

            async def ask(number: int) -> None:
                if number % 2:
                    await post(session, "/v1/judgements", judgement(number))
                    return
                message = {"role": "user", "content": f"{number} " * 200}
                body = {"model": "echo", "messages": [message]}
                await post(session, "/v1/chat/completions", orjson.dumps(body))

            async def upload(number: int) -> None:
                await post(session, "/v1/images", draw(number))

            for what, one, clients, total in (
                ("requests", ask, CHAT_CLIENTS, options.requests),
                ("uploads of 1 MB", upload, 4, options.uploads),
            ):
                await load(one, total // 10, clients)
                early = server.memory_info().rss
                await load(one, total - total // 10, clients)
                late = server.memory_info().rss
                print(
                    f"memory after {total // 10} {what}: {early / MEGABYTE:.0f} MB, "
                    f"after {total}: {late / MEGABYTE:.0f} MB",
                    flush=True,
                )


_numbers = count()


async def load(ask: Ask, requests: int, clients: int) -> Load:
    """So many requests by so many clients, each of which waits for its answer."""
    latencies: list[float] = []
    left = iter(range(requests))

    async def one() -> None:
        for _ in left:
            started = time.perf_counter()
            await ask(next(_numbers))
            latencies.append(time.perf_counter() - started)

    started = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(clients)))
    seconds = time.perf_counter() - started
    return Load(requests=requests, seconds=seconds, latencies=sorted(latencies))


def tell(title: str, found: Load) -> None:
    print(
        f"{title:<24} {found.requests:6d} in {found.seconds:6.2f} s  {found.rate:7.1f}/s  "
        f"p50 {1000 * found.percentile(0.5):6.1f} ms  p99 {1000 * found.percentile(0.99):6.1f} ms",
        flush=True,
    )


def judgement(number: int) -> bytes:
    """A request whose answers differ from those of every other number."""
    text = f"What is said of sample {number} is long enough to weigh what a real text weighs. "
    body = {
        "judge": "judge",
        "benchmark": "convbench",
        "sample": {
            "instructions": ["What is it?"] * 3,
            "references": [text * 4] * 3,
            "caption": text * 6,
        },
        "replies": {f"turn_{turn}": text * 5 for turn in (1, 2, 3)},
        "options": {"grading": ["direct"]},
        "calls": ["direct/turn_1"],
    }
    return orjson.dumps(body)


def draw(number: int) -> bytes:
    """A PNG of noise, of about a megabyte, in which nothing is compressed."""
    noise = np.random.default_rng(number).integers(0, 256, (570, 585, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).save(file, "PNG", compress_level=0)
    return file.getvalue()


async def post(session: aiohttp.ClientSession, path: str, body: bytes) -> None:
    kind = "application/octet-stream" if path == "/v1/images" else "application/json"
    async with session.post(path, data=body, headers={"Content-Type": kind}) as answer:
        text = await answer.read()
        if answer.status not in (200, 201):
            sys.exit(f"{path}: {answer.status} {text.decode()}")


@asynccontextmanager
async def connected(url: str, clients: int) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(limit=clients)
    async with aiohttp.ClientSession(url, connector=connector) as session:
        yield session


@contextmanager
def serving(folder: Path, models: dict[str, Any]) -> Iterator[tuple[str, psutil.Process]]:
    """A server of these models in a process of its own: where it listens, and the process."""
    folder.mkdir(parents=True, exist_ok=True)
    out = tempfile.mkdtemp(dir=folder)
    settings = {"models": models, "out": out, "port": 0}
    path = Path(out) / "serve.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    with (Path(out) / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "mmconv", "serve", path], stdout=subprocess.PIPE, stderr=log
        )
    try:
        yield address(process), psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def address(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(rb" at (http://\S+)", line):
            return found[1].decode()
    sys.exit("the server ended before it listened")


PARTS = {"chat": chat, "judgements": judgements, "memory": memory}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", default="all", choices=["all", *PARTS])
    parser.add_argument("--rounds", type=int, default=3, help="of chat, direct and served by turns")
    parser.add_argument("--chats", type=int, default=640)
    parser.add_argument("--tokens", type=int, default=256, help="of an answer of chat")
    parser.add_argument("--judgements", type=int, default=5000)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--uploads", type=int, default=1000)
    return parser.parse_args()


if __name__ == "__main__":
    main()
