"""`mmconv rescore` with a rescorer made here, and with the real ones over the authors' files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result

from mmconv.benchmarks.registry import RESCORED, find_rescorer
from mmconv.cli.judging import rescore_command as command
from mmconv.core.errors import ConfigError
from mmconv.core.types import Cell, Table


def rescore(files: Sequence[Path], *, skip_bad: bool = False) -> tuple[Table, ...]:
    """One row per file; the files hold a number each."""
    rows = {
        path.stem: {
            "mean": Cell(value=float(path.read_text()), n=3, missing={"unparsed": 2}),
            "judge": Cell(value="gpt-4"),
            "nothing": Cell(value=None, n=0, low=None),
        }
        for path in files
    }
    columns = ("mean", "judge", "nothing")
    faults = Table(name="faults", title="Faults", columns=("file",), rows={}, detail=True)
    overall = Table(name="overall", title="Overall", columns=columns, rows=rows, digits=2)
    return overall, faults


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mmconv.cli.judging.RESCORED", (*RESCORED, "made"))
    real = find_rescorer
    monkeypatch.setattr(
        "mmconv.cli.judging.find_rescorer", lambda name: rescore if name == "made" else real(name)
    )


def test_those_that_can_be_rescored_are_registered() -> None:
    assert all(callable(find_rescorer(name)) for name in RESCORED)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Numbers to be rounded as Python does, to the even digit; half up would be 0.13."""
    paths = [tmp_path / "b.json", tmp_path / "a.json"]
    for path, number in zip(paths, ("0.125", "2.5"), strict=True):
        path.write_text(number)
    return [str(path) for path in paths]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def test_json_is_one_object_of_rounded_values(files: list[str]) -> None:
    result = run("made", "--judgements", *files, "--format", "json")
    assert result.exit_code == 0, result.output
    document = orjson.loads(result.stdout)
    assert document == {
        "overall": {
            name: {
                "mean": {"value": value, "n": 3, "missing": {"unparsed": 2}},
                "judge": {"value": "gpt-4", "n": None, "missing": {}},
                "nothing": {"value": None, "n": 0, "missing": {}},
            }
            for name, value in (("b", 0.12), ("a", 2.5))
        },
        "faults": {},
    }
    assert list(document["overall"]) == ["b", "a"]


def test_a_file_each_may_be_given_as_an_option_of_its_own(files: list[str]) -> None:
    result = run("made", *(part for file in files for part in ("--judgements", file)))
    assert result.exit_code == 0, result.output
    assert "\nb " in result.stdout
    assert result.stdout.index("\nb ") < result.stdout.index("\na ")


def test_an_unknown_benchmark_is_told_with_the_known_ones(files: list[str]) -> None:
    result = run("other", "--judgements", files[0])
    assert isinstance(result.exception, ConfigError)
    for name in ("fbbench", "cmteval", "mtbench101", "botchat"):
        assert name in str(result.exception)


def test_a_missing_file_is_named(files: list[str]) -> None:
    for arguments in (["nowhere.json"], [files[0], "nowhere.json"]):
        result = run("made", "--judgements", *arguments)
        assert result.exit_code == 2
        assert "nowhere.json" in result.stderr
    assert run("made").exit_code == 2


AUTHORS = Path(__file__).parents[4] / "shared" / "data"

PUBLISHED = {
    "fbbench": ("judgment_Ministral-8B-Instruct-2410.jsonl", {49.77, 51.55, 50.66}),
    "cmteval": ("eval_long-text_llama3.1-8b.json", {3.84, 3.99, 3.91}),
}
"""Benchmark -> a file of the authors, and numbers that they published about it."""


@pytest.mark.parametrize("benchmark", PUBLISHED)
def test_the_authors_numbers_are_reproduced(benchmark: str) -> None:
    name, published = PUBLISHED[benchmark]
    file = AUTHORS / benchmark / name
    if not file.is_file():
        pytest.skip(f"{name} is not there")
    result = run(benchmark, "--judgements", str(file), "--format", "json")
    assert result.exit_code == 0, result.output
    document: dict[str, dict[str, dict[str, Any]]] = orjson.loads(result.stdout)
    rows = [row for table in document.values() for row in table.values()]
    assert published <= {cell["value"] for row in rows for cell in row.values()}
