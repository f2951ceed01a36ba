"""Checkpoints of six families on ConvBench, killed five times: the tables stay the same."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import orjson
import pytest
import yaml

from tests.drawn_data import write_scenes
from tests.mmconv.processes import committed
from tests.tiny_checkpoints import make_checkpoint

FAMILIES = ("llava", "llava-next", "idefics3", "gemma3", "deepseek-vl", "janus")

ZYGOTE = """
import json, os, sys
import torch, transformers, mmconv.cli.sweeping, mmconv.benchmarks.convbench.benchmark, model_zoo.hf
from mmconv.cli import main

for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        log, *sys.argv = json.loads(line)
        sys.stdout = sys.stderr = open(log, "w")
        main()
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    data, images = write_scenes(folder / "data", 2)
    models = [
        {"provider": "hf", "model": str(make_checkpoint(family, folder / family)), "name": family}
        for family in FAMILIES
    ]
    own = {"data": str(data), "images": str(images), "grading": ["direct"]}
    document = {
        "models": models,
        "benchmarks": [{"benchmark": "convbench", "options": own, "conditions": ["free"]}],
        "judge": "fake/judge",
        "seeds": [0, 1],
        "overrides": [{"set": {"sampling.candidate.max_tokens": 4}}],
    }
    path = folder / "sweep.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture(scope="module")
def zygote() -> Iterator[subprocess.Popen[str]]:
    """A process that has imported what takes long, and forks one for each command that it reads."""
    command = [sys.executable, "-c", ZYGOTE]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as process:
        yield process
        process.kill()


def start(zygote: subprocess.Popen[str], sweep: Path, out: Path) -> int:
    """Begin the sweep in a process of its own; returns its id."""
    assert zygote.stdin is not None and zygote.stdout is not None
    words = ["mmconv", "sweep", str(sweep), "--out", str(out), "--no-page"]
    zygote.stdin.write(f"{orjson.dumps([str(out) + '.log', *words]).decode()}\n")
    return int(zygote.stdout.readline())


def end(zygote: subprocess.Popen[str]) -> int:
    """Wait for the end of the sweep; returns its exit code."""
    assert zygote.stdout is not None
    return int(zygote.stdout.readline())


def finish(zygote: subprocess.Popen[str], sweep: Path, out: Path) -> dict[str, object]:
    """Run it to its end; returns all tables."""
    start(zygote, sweep, out)
    code, log = end(zygote), Path(f"{out}.log").read_text()
    assert code == 0, log
    assert "\n12 of 12 cells are done" in log
    files = sorted(out.rglob("tables/*.json"))
    return {str(file.relative_to(out)): orjson.loads(file.read_bytes()) for file in files}


def count_replies(out: Path) -> int:
    try:
        return committed(out)
    except sqlite3.OperationalError:  # its tables are not made yet
        return 0


@pytest.mark.timeout(600)
def test_killed_five_times_it_ends_with_the_same_tables(
    zygote: subprocess.Popen[str], sweep: Path, tmp_path: Path
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "runs"
    expected = finish(zygote, sweep, whole)
    out.mkdir()
    for replies in sorted(random.Random(0).sample(range(1, committed(whole)), 5)):
        pid = start(zygote, sweep, out)
        while count_replies(out) < replies:
            time.sleep(0.002)
        with suppress(ProcessLookupError):  # it ended before it was seen to have so many replies
            os.kill(pid, signal.SIGKILL)
        assert end(zygote) in (-signal.SIGKILL, 0), Path(f"{out}.log").read_text()
    assert finish(zygote, sweep, out) == expected
    assert committed(out) == committed(whole)
