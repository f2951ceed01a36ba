"""The whole process against a loopback mock server: throughput, CPU per call, memory, resuming.

A bare client that asks as many calls of the same server is measured first, so that the figures of
one machine can be told from those of another. The report as a page is written by a process of its
own, and measured apart: it is no part of a run.

Run `python -m tests.bench.engine` (577 samples x 24 calls, 50 ms, 64 connections; over a minute).
The ideal is calls x latency / connections. The dataset is drawn once into `--folder`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from compileall import compile_dir
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import orjson
from PIL import Image

from tests.mock_server import Behaviour, mock_server, read_stats

CALLS_PER_SAMPLE = 24
CONNECTIONS = 64
PACKAGES = ("mmconv", "model_zoo", "judges", "images")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One process: wall and CPU seconds, and its greatest resident memory in MB."""

    seconds: float
    cpu: float
    megabytes: float


def main() -> None:
    options = parse()
    compile_packages()
    folder = Path(options.folder or tempfile.mkdtemp(prefix="mmconv-bench-"))
    draw_data(folder, options.samples)
    calls = options.samples * CALLS_PER_SAMPLE
    ideal = calls * options.latency / CONNECTIONS
    shutil.rmtree(folder / "runs", ignore_errors=True)
    with mock_server(Behaviour(latency=options.latency)) as url:
        tell("bare client", measure(bare_client(folder, url, calls)), calls, ideal)
        bare = read_stats(url)["seconds"]
    with mock_server(Behaviour(latency=options.latency)) as url:
        tell("fresh run", measure(command(folder, url, options.samples)), calls, ideal)
        span = read_stats(url)["seconds"]
    print(f"from first request to last answer: {span:.2f} s, bare {bare:.2f} s, {span / bare:.3f}")
    # all is in the cache, so no server is needed
    tell("resumed, nothing to ask", measure(command(folder, url, options.samples)), calls, None)
    [run] = (folder / "runs").glob("convbench-*")
    tell("its page", measure([sys.executable, "-m", "mmconv", "report", str(run)]), calls, None)


def tell(title: str, measured: Measured, calls: int, ideal: float | None) -> None:
    line = (
        f"{title:<26} {measured.seconds:7.2f} s  {calls / measured.seconds:7.0f} calls/s  "
        f"{1000 * measured.cpu / calls:5.2f} ms CPU/call  {measured.megabytes:6.0f} MB"
    )
    if ideal:
        line += f"  {ideal / measured.seconds:5.2f} of the ideal ({ideal:.1f} s)"
    print(line, flush=True)


def command(folder: Path, url: str, samples: int) -> list[str]:
    model = f"{{provider: openai, model: mock, base_url: {url}, options: {{identity: mock}}}}"
    return [
        *(sys.executable, "-m", "mmconv", "run", "convbench", "--limit", str(samples), "--no-page"),
        *("--data", str(folder / "data.jsonl"), "--images", str(folder / "images")),
        *("--out", str(folder / "runs"), "--set", "options.order=random"),
        *("--set", f"models.candidate={model}", "--set", f"models.judge={model}"),
    ]


def bare_client(folder: Path, url: str, calls: int) -> list[str]:
    run = [sys.executable, "-m", "tests.bench._bare_client"]
    return [*run, url, str(folder / "images"), str(calls), str(CONNECTIONS)]


def measure(arguments: Sequence[str]) -> Measured:
    """Run a process to its end; its own CPU and memory, not its children's."""
    started = time.monotonic()
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - started
    if process.returncode:
        sys.exit(f"{' '.join(arguments)} failed:\n{output.decode()[-4000:]}")
    return Measured(
        seconds=seconds, cpu=usage.ru_utime + usage.ru_stime, megabytes=usage.ru_maxrss / 1024
    )


def compile_packages() -> None:
    """Lay bytecode beside the modules, as an installation does: a new checkout has none."""
    for package in PACKAGES:
        compile_dir(str(files(package)), quiet=1)


def draw_data(folder: Path, samples: int) -> None:
    """Write `samples` rows with everything that grading needs; 577 images of 100 to 300 kB."""
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    drawn = min(samples, 577)
    for number in range(drawn):
        path = images / f"{number}.jpg"
        if not path.exists():
            draw_image(path, number)
    with (folder / "data.jsonl").open("wb") as lines:
        for number in range(samples):
            lines.write(orjson.dumps(row(number, f"{number % drawn}.jpg")) + b"\n")


def draw_image(path: Path, seed: int) -> None:
    """Noise, which JPEG cannot shrink much: 100 to 300 kB."""
    generator = np.random.default_rng(seed)
    side = int(generator.integers(340, 600))
    noise = generator.integers(0, 256, (side, side, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path, quality=60)


def row(number: int, image: str) -> dict[str, object]:
    """A row of typical length: a caption of 500 characters, answers of 300 to 1,200."""
    text = f"What is said of sample {number} is long enough to weigh what a real text weighs. "
    return {
        "ID": number + 1,
        "image_id": image,
        "The_first_turn_instruction": f"What is shown in picture {number}?",
        "The_second_turn_instruction": f"Why does picture {number} look like that?",
        "The_third_turn_instruction": f"Write a slogan for picture {number}.",
        "instruction-conditioned-caption": text * 6,
        "first_turn_answer": text * 4,
        "second_turn_answer": text * 8,
        "third_turn_answer": text * 15,
        "third_turn_demands": "1. Is it a slogan? 2. Does it name the picture?",
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=577)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds")
    parser.add_argument("--folder", help="keep data and runs here")
    return parser.parse_args()


if __name__ == "__main__":
    main()
