"""A run and its cache made by an earlier version: the folder `older_run`, made at cadbde9.

`FOLDER` in its spec.json stands for the folder that it was run in.
"""

import re
import shutil
from pathlib import Path

import orjson
import pytest

from tests.mmconv.processes import succeed

OLDER = Path(__file__).parent / "older_run"
RUN = Path("runs") / "convbench-echo-95a4cf12"
COMMAND = "run convbench --data scenes/data.jsonl --images scenes/images"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the older run, as the working directory."""
    folder = tmp_path / "older"
    shutil.copytree(OLDER, folder)
    spec = folder / RUN / "spec.json"
    spec.write_text(spec.read_text().replace("FOLDER", str(folder)))
    monkeypatch.chdir(folder)
    return folder


def call(command: str) -> str:
    result = succeed(*command.split())
    return result.output


def is_reused(output: str) -> bool:
    """Whether every call had a cached reply."""
    counts = re.search(r"^(\d+) calls, 0.0/s, (\d+) replies reused", output, re.MULTILINE)
    return counts is not None and counts[1] == counts[2]


def scores(folder: Path) -> list[object]:
    lines = (folder / "scores.jsonl").read_bytes().splitlines()
    return sorted((orjson.loads(line) for line in lines), key=str)


def test_it_is_resumed_under_its_name_without_a_request(here: Path) -> None:
    before = scores(RUN)
    output = call(f"{COMMAND} --candidate fake/echo --judge fake/judge --store runs/store.sqlite")
    assert is_reused(output)
    assert [path.name for path in Path("runs").iterdir() if path.is_dir()] == [RUN.name]
    assert scores(RUN) == before


def test_its_run_file_is_accepted(here: Path) -> None:
    Path("run.yaml").write_text(
        "benchmark: convbench\n"
        "options: {data: scenes/data.jsonl, images: scenes/images}\n"
        "seats: {candidate: fake/echo, judge: fake/failing}\n"
    )
    run = "run run.yaml --store runs/store.sqlite"
    assert is_reused(call(f"{run} --set seats.judge=fake/judge"))


def test_its_folder_is_scored_reported_compared_ranked_and_shown(here: Path) -> None:
    before = scores(RUN)
    assert is_reused(call(f"score {RUN}"))
    assert scores(RUN) == before
    assert (here / call(f"report {RUN}").splitlines()[-1]).is_file()
    shutil.copytree(RUN, "runs/other")
    assert "Scores: echo (other) minus echo (95a4cf12)" in call(f"compare {RUN} runs/other")
    assert "ConvBench, direct (1-10)" in call(f"leaderboard {RUN} runs/other")
    assert "turn_3" in call(f"show {RUN} 1")
