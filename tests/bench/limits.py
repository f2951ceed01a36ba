"""The whole process against a mock server with limits, in real time.

Run `python -m tests.bench.limits` (a minute and a half), or with `--all` for every limit and wait
(a quarter of an hour). Each run is ideally about 15 s long. `--times 3` prints medians of three
runs, and takes three times as long. The last columns say which bar was missed, and the machine's
load. `--inspect PYTHON`, of an environment that `.ci/inspect_env.sh` made, has Inspect ask the same
servers for as many calls.
"""

import argparse
import functools
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import median

from tests.bench.engine import CALLS_PER_SAMPLE, command, compile_packages, draw_data, measure
from tests.mock_server import Behaviour, mock_server, read_stats
from tests.server_limits import Limits

SLOTS = 64
TOKENS = 1_200_000.0
"""A second: about 100 calls, since the mock server counts the characters of images too."""

INSPECT_CLIENT = str(Path(__file__).with_name("_inspect_client.py"))

Case = tuple[str, Limits, float, int, int]
"""A name, the limits, the latency in seconds, the samples of a process, and how many processes."""

SHORT: list[Case] = [
    ("no limit", Limits(), 0.5, 80, 1),
    ("32 at once", Limits(caps=((0.0, 32),), retry_after=1.0), 0.25, 80, 1),
    ("100/s", Limits(rate=100, burst=100, retry_after=1.0), 0.05, 66, 1),
    ("10 % by chance", Limits(chance=0.1, retry_after=1.0), 0.5, 75, 1),
]


def matrix() -> list[Case]:
    """Every limit with every wait."""
    cases: list[Case] = []
    for wait in (0.0, 0.2, 1.0, 5.0, None):
        cases += [
            ("8 at once", Limits(caps=((0.0, 8),), retry_after=wait), 0.1, 50, 1),
            ("16 at once", Limits(caps=((0.0, 16),), retry_after=wait), 0.1, 100, 1),
            ("32 at once", Limits(caps=((0.0, 32),), retry_after=wait), 0.25, 80, 1),
            ("30/s", Limits(rate=30, burst=30, retry_after=wait), 0.05, 20, 1),
            ("100/s", Limits(rate=100, burst=100, retry_after=wait), 0.05, 66, 1),
            ("300/s", Limits(rate=300, burst=300, retry_after=wait), 0.05, 200, 1),
            ("10 % by chance", Limits(chance=0.1, retry_after=wait), 0.5, 75, 1),
        ]
    halved, doubled = ((0.0, 32), (8.0, 16)), ((0.0, 8), (8.0, 16))
    block = Limits(rate=100, burst=100, block=1.0, retry_after=1.0)
    tokens = Limits(tokens=TOKENS, token_burst=TOKENS, retry_after=1.0)
    return [
        *cases,
        ("32, then 16", Limits(caps=halved, retry_after=1.0), 0.1, 150, 1),
        ("8, then 16", Limits(caps=doubled, retry_after=1.0), 0.1, 80, 1),
        ("100/s, blocks", block, 0.05, 66, 1),
        ("tokens", tokens, 0.05, 66, 1),
        ("tokens, headers", replace(tokens, headers=True), 0.05, 66, 1),
        ("16 at once", Limits(caps=((0.0, 16),), retry_after=1.0), 0.1, 50, 2),
        ("100/s", Limits(rate=100, burst=100, retry_after=1.0), 0.05, 33, 2),
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
    draw_data(folder, max(samples for *_, samples, _ in cases))
    print(
        "server          procs  wait   client   ideal     bar    wall  refused  missed         load"
    )
    for name, limits, latency, samples, processes in cases:
        calls = samples * CALLS_PER_SAMPLE * processes
        by_chance = limits.chance / (1 - limits.chance)
        served = (1 + by_chance) * calls * latency / (SLOTS * processes)
        most_refused = by_chance + (0.15 if limits.retry_after is None else 0.10)
        wait = "none" if limits.retry_after is None else f"{limits.retry_after:g}"
        for client in ("mmconv", "Inspect") if options.inspect else ("mmconv",):
            commands = functools.partial(commands_of, client, options.inspect, samples, processes)
            runs = [run(folder, limits, latency, commands) for _ in range(options.times)]
            seconds, refused, tokens = (median(values) for values in zip(*runs, strict=True))
            ideal = max(limits.ideal(calls, latency, tokens), served)
            bar = 1.25 * ideal + 2 * (limits.retry_after or 0.0) + 1.5
            missed = ["wall"] * (seconds > bar) + ["refused"] * (refused > most_refused)
            print(
                f"{name:16} {processes:4} {wait:>5} {client:>8} {ideal:7.1f} {bar:7.1f} "
                f"{seconds:7.1f} {refused:8.1%}  {', '.join(missed) or '-':13} "
                f"{os.getloadavg()[0]:5.1f}",
                flush=True,
            )
    shutil.rmtree(folder)
    print(f"{(time.monotonic() - started) / 60:.0f} minutes")


def commands_of(
    client: str, inspect: str, samples: int, processes: int, folder: Path, url: str
) -> list[list[str]]:
    """The command lines of so many processes of mmconv, with a cache each, or of Inspect."""
    if client == "Inspect":
        return [
            [inspect, INSPECT_CLIENT, url, str(samples * CALLS_PER_SAMPLE), str(SLOTS)]
        ] * processes
    line = command(folder, url, samples)
    out = line.index("--out") + 1
    return [
        [*line[:out], str(folder / "runs" / f"{number}"), *line[out + 1 :]]
        for number in range(processes)
    ]


def run(
    folder: Path, limits: Limits, latency: float, commands: Callable[[Path, str], list[list[str]]]
) -> tuple[float, float, float]:
    """What the server saw of the processes that these commands start."""
    with mock_server(Behaviour(latency=latency, limits=limits)) as url:
        with ThreadPoolExecutor() as pool:
            list(pool.map(measure, commands(folder, url)))
        shutil.rmtree(folder / "runs", ignore_errors=True)
        return seen_by_server(url)


def seen_by_server(url: str) -> tuple[float, float, float]:
    """Seconds from the first request to the last answer, refusals for each answer, and tokens."""
    stats = read_stats(url)
    return stats["seconds"], stats["refused"] / stats["answered"], stats["tokens"]


if __name__ == "__main__":
    main()
