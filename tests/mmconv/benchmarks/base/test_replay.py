"""Replies that exist already: published judgements, and the references of the data."""

from pathlib import Path

import orjson
import pytest

from mmconv.benchmarks.base.replay import Rescoring, as_published
from mmconv.core.errors import ConfigError
from mmconv.core.types import Cell, Table
from mmconv.stats import INTERVALS
from tests.drawn_data import write_scenes
from tests.mmconv.benchmarks.base.own import write
from tests.mmconv.processes import typed


@pytest.mark.parametrize(
    ("number", "digits", "printed"),
    [
        (3.125, 2, 3.12),
        (3.375, 2, 3.38),
        # a sum that missed the tie by its last bit
        (3.1250000000000004, 2, 3.12),
        (49.77, 2, 49.77),
        (2.5, 0, 2.0),
        (66.65, 1, 66.7),
    ],
)
def test_ties_go_to_the_even_digit(number: float, digits: int, printed: float) -> None:
    cell = Cell(value=number, n=3, low=1.234567, high=None)
    made = Table(name="a", title="A", columns=("b",), rows={"r": {"b": cell}}, digits=digits)
    [table] = as_published([made])
    assert table.rows["r"]["b"] == Cell(value=printed, n=3, low=1.234567, high=None)


def test_texts_and_gaps_stay() -> None:
    cells = {"b": Cell(value="gpt"), "c": Cell(value=None, n=0, missing={"unparsed": 2})}
    made = Table(name="a", title="A", columns=("b", "c"), rows={"r": cells})
    assert as_published([made])[0].rows["r"] == cells


@pytest.mark.parametrize(
    ("cell", "own", "notes"),
    [
        (Cell(value=1.0, n=9, low=0.5, high=1.5), (), (INTERVALS,)),
        (Cell(value=1.0, n=9), (), ()),
        (Cell(value=1.0, n=9, low=0.5, high=1.5), ("Brackets hold draws.",), ()),
    ],
)
def test_brackets_are_explained(cell: Cell, own: tuple[str, ...], notes: tuple[str, ...]) -> None:
    made = Table(name="a", title="A", columns=("b",), rows={"r": {"b": cell}}, notes=own)
    [table] = Rescoring().rescored([made])
    assert table.notes == (*own, *notes)


def run(folder: Path, benchmark: str, *more: str) -> None:
    arguments = ["run", benchmark, "--out", str(folder / "runs"), "--no-page", "--candidate"]
    result = typed(*arguments, "reference", *more)
    if result.exception is not None:
        raise result.exception


def test_the_references_of_the_data_are_a_candidate(tmp_path: Path) -> None:
    """A judge that measures overlap gives them full marks."""
    data, images = write_scenes(tmp_path, 2)
    options = ["--data", str(data), "--images", str(images), "--set", "options.grading=direct"]
    options += ["--set", "options.focus_points=false"]
    run(tmp_path, "convbench", *options, "--judge", "reference/chrf")
    [folder] = (tmp_path / "runs").glob("convbench-reference-*")
    lines = (folder / "scores.jsonl").read_text(encoding="utf-8").splitlines()
    ratings = [each["value"] for each in map(orjson.loads, lines) if each["metric"] == "rating"]
    assert ratings == [10.0] * 18


def test_a_benchmark_without_references_refuses_them(tmp_path: Path) -> None:
    data = write(tmp_path / "riddles.jsonl", {"id": 1, "riddle": "Who?"})
    with pytest.raises(ConfigError, match="riddles has no references; name a model"):
        run(tmp_path, "tests.example_benchmark:Riddles", "--data", str(data))


def test_the_references_cannot_be_the_judge(tmp_path: Path) -> None:
    data, images = write_scenes(tmp_path, 1)
    options = ("--data", str(data), "--images", str(images), "--judge", "reference")
    with pytest.raises(
        ConfigError, match="is a candidate, not a judge; use --judge reference/chrf"
    ):
        run(tmp_path, "convbench", *options)
