"""The least that a client of the engine bench's mock server can do, to compare mmconv with.

It asks as many calls over as many connections, a quarter of them with an image, by aiohttp with
bodies that are ready to send: no conversations, no keys, no store, no tables. `engine.py` runs it
as `python -m tests.bench._bare_client URL IMAGES CALLS CONNECTIONS`.
"""

import asyncio
import base64
import sys
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import aiohttp
import orjson

PROMPT = "What a judge is asked weighs some kilobytes. " * 130


def main() -> None:
    url, images, calls, connections = sys.argv[1:]
    text = body([{"type": "text", "text": PROMPT}])
    # More than a processor's cache holds: reading it back from memory is a part of sending it.
    shown = cycle([body([image_part(path)]) for path in sorted(Path(images).iterdir())[:64]])
    bodies = (text if number % 4 else next(shown) for number in range(int(calls)))
    asyncio.run(ask(f"{url}/chat/completions", bodies, int(connections)))


async def ask(url: str, bodies: Iterator[bytes], connections: int) -> None:
    """Send all bodies, and read the text of every answer."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections), cookie_jar=aiohttp.DummyCookieJar()
    ) as session:

        async def work() -> None:
            for each in bodies:
                async with session.post(url, data=each) as answer:
                    document = orjson.loads(await answer.read())
                if not document["choices"][0]["message"]["content"]:
                    sys.exit("an answer was empty")

        async with asyncio.TaskGroup() as group:
            for _ in range(connections):
                group.create_task(work())


def body(parts: list[dict[str, object]]) -> bytes:
    """A request of one user message."""
    return orjson.dumps({"model": "mock", "messages": [{"role": "user", "content": parts}]})


def image_part(path: Path) -> dict[str, object]:
    """A JPEG file as a data URI."""
    encoded = base64.b64encode(path.read_bytes()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{encoded}"}}


if __name__ == "__main__":
    main()
