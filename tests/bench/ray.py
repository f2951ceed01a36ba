"""What Ray costs, and what it brings: models in actors against the same model in this process.

`python -m tests.bench.ray` prints seconds without start-up. Pocket works on drawn images, with one
thread in either place. The sleeping model takes 50 ms for a reply and one call at a time, so that
two actors are measured and not the two cores.

A sweep of five models then shares eight GPUs that Ray is told of. Each model answers one call a
second. Nothing fits next to the largest one, so the best schedule is that one and then the longest
other. The time of the sweep includes the start of all actors, but not of Ray.
"""

import argparse
import asyncio
import time
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import ray

from images import ImageStore
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.types import Image, Message, Sampling, Text
from mmconv.engine.matrix import Cell
from mmconv.engine.run import Place
from mmconv.engine.sweep import Sweep
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

GPUS = 8
SWEPT = {"eight": (8, 1.0), "four": (4, 1.5), "two": (2, 1.25), "one": (1, 1.0), "uno": (1, 0.75)}
"""The GPUs of each model, and its calls as a share of those of `eight`."""


async def measure(fields: dict[str, Any], images: ImageStore, shown: list[Image]) -> float:
    """Seconds for a question about each image, once all replicas have loaded the model."""
    spec = ModelSpec.model_validate(fields)
    async with aclosing(await provider_of(spec).open_backend(spec, images)) as backend:
        actors, lives = (getattr(backend, name, ()) for name in ("_actors", "_lives"))
        while len(lives) < len(actors):  # noqa: ASYNC110 - only a bench
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


async def sweep(folder: Path, calls: int) -> None:
    """Time a sweep against its best schedule."""
    data = folder / "riddles.jsonl"
    rows = [{"id": str(number), "riddle": f"What is {number}?"} for number in range(2 * calls)]
    data.write_bytes(b"\n".join(map(orjson.dumps, rows)))
    cells = []
    for name, (gpus, share) in SWEPT.items():
        fields = {"provider": "fake", "model": "slow", "options": {"seconds": 1}}
        # without a prompt of its own it would share the replies of the others
        own = {"name": name, "system": name, "replicas": 1, "gpus": gpus, "max_concurrency": 1}
        spec = RunSpec.model_validate(
            {
                "benchmark": "tests.example_benchmark:Riddles",
                "options": {"data": str(data)},
                "models": {"candidate": fields | own, "judge": "fake/judge"},
                "limit": round(share * calls),
            }
        )
        cells.append(Cell(model=name, benchmark="riddles", seed=None, spec=spec))
    place = Place(out=folder / "runs")
    swept = Sweep(cells, place, page=False, shortfall=lambda _: None, report=lambda _: None)
    ray.init("local", num_gpus=GPUS, num_cpus=1, include_dashboard=False, log_to_driver=False)
    started = time.perf_counter()
    await swept.run()
    seconds = time.perf_counter() - started
    ray.shutdown()
    assert all(state.status == "done" for state in swept.cells), swept.cells
    best = calls + max(
        round(share * calls) for name, (_, share) in SWEPT.items() if name != "eight"
    )
    print(f"sweep: {seconds:.1f} s, best schedule {best} s: {seconds / best:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=100, help="images")
    parser.add_argument("--calls", type=int, default=40, help="calls of the largest model swept")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        _, drawn = write_scenes(Path(folder), options.n)
        images = ImageStore()
        shown = [images.add_file(str(path)) for path in sorted(drawn.glob("*.png"))]
        asyncio.run(compare(images, shown))
        asyncio.run(sweep(Path(folder), options.calls))


if __name__ == "__main__":
    main()
