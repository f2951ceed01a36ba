"""What Ray costs, and what it brings: models in actors against the same model in this process.

`python -m tests.bench.ray` prints seconds without start-up. Pocket works on drawn images, with one
thread in either place. The sleeping model takes 50 ms for a reply and one call at a time, so that
two actors are measured and not the two cores.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from images import ImageStore
from mmconv.core.config import ModelSpec
from mmconv.core.types import Image, Message, Sampling, Text
from model_zoo.providers import provider_of
from tests.drawn_data import write_scenes

QUESTION = Text(text="List every shape in the image.")
POCKET: dict[str, Any] = {"provider": "pocket", "model": "scenes", "options": {"threads": 1}}
SLEEPING: dict[str, Any] = {
    "provider": "fake",
    "model": "slow",
    "max_concurrency": 1,
    "options": {"seconds": 0.05},
}


async def measure(fields: dict[str, Any], images: ImageStore, shown: list[Image]) -> float:
    """Seconds for a question about each image, once all replicas have loaded the model."""
    spec = ModelSpec.model_validate(fields)
    async with aclosing(await provider_of(spec).open_backend(spec, images)) as backend:
        members = getattr(backend, "_members", ())
        while not all(member.capacity for member in members):  # noqa: ASYNC110 - only a bench
            await asyncio.sleep(0.1)

        async def ask(image: Image) -> None:
            message = Message(role="user", parts=(image, QUESTION))
            async with room:
                await backend.generate((message,), Sampling(max_tokens=64), affinity=image.sha256)

        room = asyncio.Semaphore(backend.max_concurrency)
        await asyncio.gather(*map(ask, shown[:4]))
        started = time.perf_counter()
        await asyncio.gather(*map(ask, shown))
        return time.perf_counter() - started


async def compare(images: ImageStore, shown: list[Image]) -> None:
    process = await measure(POCKET, images, shown)
    actor = await measure({**POCKET, "replicas": 1}, images, shown)
    print(f"pocket: {process:.2f} s in process, {actor:.2f} s in an actor: {actor / process:.2f}")
    one = await measure({**SLEEPING, "replicas": 1}, images, shown)
    two = await measure({**SLEEPING, "replicas": 2}, images, shown)
    print(f"sleeping: {one:.2f} s in one actor, {two:.2f} s in two: {one / two:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=100, help="images")
    count = parser.parse_args().n
    with TemporaryDirectory() as folder:
        _, drawn = write_scenes(Path(folder), count)
        images = ImageStore()
        shown = [images.add_file(str(path)) for path in sorted(drawn.glob("*.png"))]
        asyncio.run(compare(images, shown))


if __name__ == "__main__":
    main()
