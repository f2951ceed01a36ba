"""Options of a benchmark as options of the commands that run it."""

from pathlib import Path

import click
import orjson
import pytest
from click.testing import CliRunner

from mmconv.cli import commands
from mmconv.core.errors import ConfigError

DRAWN = ["--families", "clocks,shapes", "--levels", "1-2", "--n", "1", "--language", "zh"]


def mmconv(*arguments: str) -> str:
    result = CliRunner().invoke(commands, arguments, standalone_mode=False)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def run(out: Path, *arguments: str) -> Path:
    known = {*out.glob("scenes-*")}
    fixed = ("--candidate", "fake/echo", "--out", str(out), "--no-page")
    mmconv("run", "scenes", *fixed, *arguments)
    [folder] = {*out.glob("scenes-*")} - known
    return folder


def test_they_are_those_of_a_run_file(tmp_path: Path) -> None:
    folder = run(tmp_path, *DRAWN)
    lines = (folder / "scores.jsonl").read_bytes().splitlines()
    assert {orjson.loads(line)["sample"] for line in lines} == {
        f"{family}-{level}-1" for family in ("clocks", "shapes") for level in (1, 2)
    }
    typed = mmconv("show", str(folder), "clocks-1-1")
    assert "答案" in typed


def test_another_seed_draws_other_images_and_is_not_compared(tmp_path: Path) -> None:
    one, other = (run(tmp_path, *DRAWN, "--seed", seed) for seed in ("1", "2"))
    with pytest.raises(ConfigError, match="data"):
        mmconv("compare", str(one), str(other), "--out", str(tmp_path / "compared"))


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("--families", "clocks,clocks", "'clocks' is listed twice; write it once"),
        ("--levels", "2,2", "2 is listed twice; write it once"),
        ("--levels", "1-3,5", "levels must be from 1 to 10, as in 1-10 or 2,4,6"),
        ("--levels", "-3", "levels must be from 1 to 10, as in 1-10 or 2,4,6"),
        ("--levels", "a-b", "levels must be from 1 to 10, as in 1-10 or 2,4,6"),
    ],
)
def test_errors_say_what_to_write(tmp_path: Path, option: str, value: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        run(tmp_path, option, value)


def test_after_a_change_of_the_drawing_code_runs_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = run(tmp_path / "one", *DRAWN)
    monkeypatch.setattr("mmconv.benchmarks.scenes.benchmark.hash_code", lambda: "other")
    other = run(tmp_path / "other", *DRAWN)
    with pytest.raises(ConfigError, match="data"):
        mmconv("compare", str(one), str(other), "--out", str(tmp_path / "compared"))


def test_help_lists_those_of_the_named_benchmark() -> None:
    assert "How many images of each family and level." in mmconv("run", "scenes", "--help")
    assert "--families" not in mmconv("run", "--help")


def test_they_are_refused_for_another_benchmark_and_if_given_twice() -> None:
    with pytest.raises(click.NoSuchOption, match="--families"):
        mmconv("run", "convbench", "--families", "maps", "--candidate", "fake/echo")
    with pytest.raises(click.UsageError, match="given twice"):
        mmconv("run", "scenes", "--n", "1", "--n", "2", "--candidate", "fake/echo")


def test_files_and_judges_are_not_offered() -> None:
    offered = mmconv("options", "scenes")
    for name in ("data", "sheet", "skip_bad_records", "generate_only"):
        assert f"  {name} " not in offered
