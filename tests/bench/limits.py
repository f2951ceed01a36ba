"""The whole process against a mock server with limits, in real time.

Run `python -m tests.bench.limits` (a minute and a half), or with `--all` for every limit and wait
(a quarter of an hour). Each run is ideally about 15 s long. `--times 3` prints medians of three
runs, and takes three times as long. The last columns say which bar was missed, and the machine's
load. `--inspect PYTHON`, of an environment that `.ci/inspect_env.sh` made, has Inspect ask the same
servers for as many calls.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median
from urllib.request import urlopen

import orjson

from tests.bench.engine import CALLS_PER_SAMPLE, command, compile_packages, draw_data, measure
from tests.mock_server import Behaviour, mock_server
from tests.server_limits import Limits

SLOTS = 64
INSPECT_CLIENT = str(Path(__file__).with_name("_inspect_client.py"))

Case = tuple[str, Limits, float, int]
"""A name, the limits, the latency in seconds, and the samples."""

SHORT: list[Case] = [
    ("no limit", Limits(), 0.5, 80),
    ("32 at once", Limits(caps=((0.0, 32),), retry_after=1.0), 0.25, 80),
    ("100/s", Limits(rate=100, burst=100, retry_after=1.0), 0.05, 66),
    ("10 % by chance", Limits(chance=0.1, retry_after=1.0), 0.5, 75),
]


def matrix() -> list[Case]:
    """Every limit with every wait."""
    cases: list[Case] = []
    for wait in (0.0, 0.2, 1.0, 5.0, None):
        cases += [
            ("8 at once", Limits(caps=((0.0, 8),), retry_after=wait), 0.1, 50),
            ("16 at once", Limits(caps=((0.0, 16),), retry_after=wait), 0.1, 100),
            ("32 at once", Limits(caps=((0.0, 32),), retry_after=wait), 0.25, 80),
            ("30/s", Limits(rate=30, burst=30, retry_after=wait), 0.05, 20),
            ("100/s", Limits(rate=100, burst=100, retry_after=wait), 0.05, 66),
            ("300/s", Limits(rate=300, burst=300, retry_after=wait), 0.05, 200),
            ("10 % by chance", Limits(chance=0.1, retry_after=wait), 0.5, 75),
        ]
    halved, doubled = ((0.0, 32), (8.0, 16)), ((0.0, 8), (8.0, 16))
    block = Limits(rate=100, burst=100, block=1.0, retry_after=1.0)
    return [
        *cases,
        ("32, then 16", Limits(caps=halved, retry_after=1.0), 0.1, 150),
        ("8, then 16", Limits(caps=doubled, retry_after=1.0), 0.1, 80),
        ("100/s, blocks", block, 0.05, 66),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="every limit and wait")
    parser.add_argument("--inspect", metavar="PYTHON", help="measure Inspect in this environment")
    parser.add_argument("--times", type=int, default=1, help="runs of each case; their medians")
    options = parser.parse_args()
    cases = matrix() if options.all else SHORT
    started = time.monotonic()
    compile_packages()
    folder = Path(tempfile.mkdtemp(prefix="mmconv-limits-"))
    draw_data(folder, max(samples for *_, samples in cases))
    print("server           wait   client   ideal     bar    wall  refused  missed         load")
    for name, limits, latency, samples in cases:
        calls = samples * CALLS_PER_SAMPLE
        by_chance = limits.chance / (1 - limits.chance)
        served = (1 + by_chance) * calls * latency / SLOTS
        ideal = max(limits.ideal(calls, latency), served)
        bar = 1.25 * ideal + 2 * (limits.retry_after or 0.0) + 1.5
        most_refused = by_chance + (0.15 if limits.retry_after is None else 0.10)
        wait = "none" if limits.retry_after is None else f"{limits.retry_after:g}"
        for client in ("mmconv", "Inspect") if options.inspect else ("mmconv",):
            ask = [options.inspect, INSPECT_CLIENT] if client == "Inspect" else []
            runs = [run(folder, limits, latency, samples, ask) for _ in range(options.times)]
            seconds, refused = (median(values) for values in zip(*runs, strict=True))
            missed = ["wall"] * (seconds > bar) + ["refused"] * (refused > most_refused)
            print(
                f"{name:16} {wait:>5} {client:>8} {ideal:7.1f} {bar:7.1f} {seconds:7.1f} "
                f"{refused:8.1%}  {', '.join(missed) or '-':13} {os.getloadavg()[0]:5.1f}",
                flush=True,
            )
    shutil.rmtree(folder)
    print(f"{(time.monotonic() - started) / 60:.0f} minutes")


def run(
    folder: Path, limits: Limits, latency: float, samples: int, inspect: list[str]
) -> tuple[float, float]:
    """What the server saw of mmconv, or of Inspect if its command is given."""
    with mock_server(Behaviour(latency=latency, limits=limits)) as url:
        if inspect:
            measure([*inspect, url, str(samples * CALLS_PER_SAMPLE), str(SLOTS)])
        else:
            measure(command(folder, url, samples))
            shutil.rmtree(folder / "runs")
        return seen_by_server(url)


def seen_by_server(url: str) -> tuple[float, float]:
    """Seconds from the first request to the last answer, and refusals for each answer."""
    with urlopen(url.removesuffix("/v1") + "/stats") as answer:
        stats = orjson.loads(answer.read())
    return stats["seconds"], stats["refused"] / stats["answered"]


if __name__ == "__main__":
    main()
