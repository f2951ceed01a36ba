"""How fast `mmconv view` opens, and the memory that it takes: many runs of one folder.

python -m tests.bench.view [RUN] [--runs 200]

RUN is the folder of a finished run. By default, ConvBench is run with fake models on 577 samples.
The copies of the run have other names; their large files are links.
"""

import argparse
import asyncio
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import psutil
from playwright.async_api import Locator, Page, async_playwright

from mmconv.core.config import CANDIDATE
from mmconv.run_folder.layout import SPEC
from tests.bench.engine import draw_data
from tests.browser.conftest import CHROMIUM, FLAGS

LINKED = (".jsonl", ".parquet", ".html")
"""The suffixes of files that are not copied."""

RANKED = 10


def make_run(folder: Path) -> Path:
    """Run ConvBench with fake models on as many samples as it has."""
    draw_data(folder, 577)
    files = ["--data", str(folder / "data.jsonl"), "--images", str(folder / "images")]
    models = ["--candidate", "fake/echo", "--judge", "fake/judge"]
    command = [sys.executable, "-m", "mmconv", "run", "convbench", *files, *models]
    subprocess.run([*command, "--out", str(folder / "runs")], check=True, capture_output=True)
    [run] = (folder / "runs").glob("convbench-*")
    return run


def copy_runs(run: Path, out: Path, count: int) -> None:
    """Make this number of folders of a run, each with a model of its own."""
    for number in range(count):
        folder = out / f"{run.name}-{number:04}"
        shutil.copytree(
            run, folder, copy_function=_copy, ignore=shutil.ignore_patterns("*.samples")
        )
        start = orjson.loads((folder / SPEC).read_bytes())
        start["spec"]["models"][CANDIDATE]["name"] = f"model-{number:04}"
        (folder / SPEC).write_bytes(orjson.dumps(start))
        for path in (folder / "tables").glob("*.json"):
            name = start["spec"]["models"][CANDIDATE]["name"].encode()
            path.write_bytes(path.read_bytes().replace(_label(run).encode(), name))


def _copy(source: str, target: str) -> None:
    if source.endswith(LINKED):
        os.link(source, target)
    else:
        shutil.copy(source, target)


def _label(run: Path) -> str:
    model = orjson.loads((run / SPEC).read_bytes())["spec"]["models"][CANDIDATE]
    return str(model["name"] or model["model"])


def measure(out: Path, count: int) -> None:
    """Start the view of a folder, and open its pages."""
    started = time.monotonic()
    command = [sys.executable, "-m", "mmconv", "view", str(out), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found is not None
        used = sum(psutil.Process(server.pid).cpu_times()[:2])
        print(f"{'start of the process':24} {time.monotonic() - started:6.2f} s, CPU {used:6.2f} s")
        try:
            asyncio.run(open_pages(found[0], count, psutil.Process(server.pid)))
        finally:
            server.terminate()


async def open_pages(url: str, count: int, server: psutil.Process) -> None:
    """Time the list, a run, a comparison of two, and a leaderboard."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        page = await browser.new_page()
        listed = page.locator("tr.run td.number:not(.nought)").nth(count - 1)
        for title in ("list", "list, again"):
            await opened(page, server, title, url, listed)
        print_memory(server)
        names = await page.locator("tr.run").evaluate_all(
            "rows => rows.map((row) => row.dataset.run)"
        )
        sample, two = page.locator("#detail h3"), f"compare?runs={names[0]},{names[1]}"
        await opened(page, server, "a run", f"{url}/runs/{names[0]}#sample=2", sample)
        await opened(page, server, "two side by side", f"{url}/{two}#sample=2", sample)
        await opened(page, server, "two, again", f"{url}/{two}#sample=3", sample)
        ranked = ",".join(names[:RANKED])
        table = page.locator("#findings table").first
        name = f"leaderboard of {RANKED}"
        await opened(page, server, name, f"{url}/leaderboard?runs={ranked}", table)
        print_memory(server)
        await browser.close()


async def opened(
    page: Page, server: psutil.Process, title: str, address: str, shown: Locator
) -> None:
    """Open an address until something is shown; print the seconds, and those of the server's CPU.

    On a busy machine only the latter say much.
    """
    await page.goto("about:blank")
    started, before = time.monotonic(), sum(server.cpu_times()[:2])
    await page.goto(address)
    await shown.wait_for(state="attached", timeout=300_000)
    used = sum(server.cpu_times()[:2]) - before
    print(f"{title:24} {time.monotonic() - started:6.2f} s, CPU {used:6.2f} s")


def print_memory(server: psutil.Process) -> None:
    """Print the server's resident memory."""
    print(f"{'memory of the server':24} {server.memory_info().rss / 2**20:6.0f} MiB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--runs", type=int, default=200)
    arguments = parser.parse_args()
    with TemporaryDirectory() as made:
        run = (arguments.run or make_run(Path(made))).resolve()
        # in the run's own filesystem, or its files could not be linked
        with TemporaryDirectory(dir=run.parent.parent) as folder:
            copy_runs(run, Path(folder), arguments.runs)
            measure(Path(folder), arguments.runs)
