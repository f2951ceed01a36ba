"""Judges that are no models read ConvBench's own prompts alone; other seats refuse them at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from mmconv.benchmarks.convbench.scenes import write_scenes
from mmconv.cli import commands
from mmconv.core.errors import ConfigError
from tests.mmconv.benchmarks.few_records import DATA

JUDGES = pytest.mark.parametrize("judge", ["reference/chrf", "scenes/facts"])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the test's own as the working directory."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    monkeypatch.undo()


def refused(*arguments: str) -> str:
    """What the command says when it refuses; nothing has been asked then."""
    result = CliRunner().invoke(commands, arguments)
    assert isinstance(result.exception, ConfigError), result.output
    assert not list(Path().glob("runs/*/"))
    return str(result.exception)


@JUDGES
@pytest.mark.parametrize("way", [("check",), ("run", "--dry-run"), ("run",)])
@pytest.mark.parametrize("benchmark", ["mtbench101", "fbbench"])
def test_another_benchmark_refuses_it(
    here: Path, way: tuple[str, ...], benchmark: str, judge: str
) -> None:
    data = DATA[benchmark](here)["data"]
    told = refused(*way, benchmark, "--data", data, "--candidate", "fake/echo", "--judge", judge)
    assert told.startswith(f"judge ({judge.partition('/')[2]}): ")
    assert "no system message names a task" in told


@JUDGES
def test_a_benchmark_of_ones_own_refuses_it(here: Path, judge: str) -> None:
    (here / "riddles.jsonl").write_bytes(orjson.dumps({"id": 1, "riddle": "Who?"}))
    (here / "riddles.yaml").write_text("benchmark: tests.example_benchmark:Riddles\n")
    seats = ("--candidate", "fake/echo", "--judge", judge)
    told = refused("run", "riddles.yaml", "--data", "riddles.jsonl", *seats)
    assert told.startswith("judge (")


@JUDGES
def test_it_judges_convbench_and_answers_nothing_there(here: Path, judge: str) -> None:
    write_scenes(here / "data", 1)
    data = ("convbench", "--data", "data/data.jsonl", "--images", "data/images")
    told = refused("run", *data, "--candidate", judge, "--judge", "fake/judge")
    assert told.startswith("candidate (")
    typed = ("check", *data, "--candidate", "fake/echo", "--judge", judge)
    assert CliRunner().invoke(commands, typed).exit_code == 0
