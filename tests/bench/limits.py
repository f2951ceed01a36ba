"""The whole process against a mock server with limits, in real time.

Run `python -m tests.bench.limits` (a minute and a half), or with `--all` for every limit and wait
(a quarter of an hour). Each run is ideally about 15 s long. The last column is the machine's load.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path
from urllib.request import urlopen

import orjson

from tests.bench.engine import CALLS_PER_SAMPLE, command, compile_packages, draw_data, measure
from tests.mock_server import Behaviour, mock_server
from tests.server_limits import Limits

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
            ("32 at once", Limits(caps=((0.0, 32),), retry_after=wait), 0.25, 80),
            ("30/s", Limits(rate=30, burst=30, retry_after=wait), 0.05, 20),
            ("100/s", Limits(rate=100, burst=100, retry_after=wait), 0.05, 66),
            ("10 % by chance", Limits(chance=0.1, retry_after=wait), 0.5, 75),
        ]
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="every limit and wait")
    cases = matrix() if parser.parse_args().all else SHORT
    compile_packages()
    folder = Path(tempfile.mkdtemp(prefix="mmconv-limits-"))
    draw_data(folder, max(samples for *_, samples in cases))
    print(f"{'server':16} {'wait':>5} {'ideal':>7} {'wall':>7} {'refused':>8} {'load':>5}")
    for case in cases:
        run(folder, case)
    shutil.rmtree(folder)


def run(folder: Path, case: Case) -> None:
    """Run and print one case. The wall time is that from the first request to the last answer."""
    name, limits, latency, samples = case
    calls = samples * CALLS_PER_SAMPLE
    slots = 64
    ideal = max(limits.ideal(calls, latency), calls / (1 - limits.chance) * latency / slots)
    with mock_server(Behaviour(latency=latency, limits=limits)) as url:
        measure(command(folder, url, samples))
        with urlopen(url.removesuffix("/v1") + "/stats") as answer:
            stats = orjson.loads(answer.read())
    shutil.rmtree(folder / "runs")
    wait = "none" if limits.retry_after is None else f"{limits.retry_after:g}"
    refused = stats["refused"] / stats["answered"]
    seconds = f"{ideal:7.1f} {stats['seconds']:7.1f}"
    print(f"{name:16} {wait:>5} {seconds} {refused:8.1%} {os.getloadavg()[0]:5.1f}", flush=True)


if __name__ == "__main__":
    main()
