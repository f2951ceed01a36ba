"""What a benchmark of one's own declares beside its methods: names, scales, options, code."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import Field

from images import ImageStore
from judges import parse_prompt
from mmconv.benchmarks.base import Fields, FileOptions, ImageOptions
from mmconv.cli import commands
from mmconv.core.errors import ConfigError, DataError
from mmconv.core.keys import hash_file
from mmconv.core.types import Call
from mmconv.engine.setup import build_benchmark
from tests import example_benchmark
from tests.example_benchmark import Riddles
from tests.mmconv.benchmarks.base.own import build, spec


class ShotOptions(FileOptions):
    """One field more."""

    shots: int = Field(default=2, ge=0)
    """How many examples stand before a riddle."""


class Shots(Riddles):
    options = ShotOptions
    run_options: ShotOptions

    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        asked = Fields({**sample, "riddle": "? " * self.run_options.shots + sample["riddle"]})
        return super().plan(asked, condition)


ASK = parse_prompt("# user\n{{riddle}}", "ask")


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ({"conditions": ("free", "free")}, "names of conditions are 'free', 'free': none may be"),
        ({"conditions": ("free", "")}, "names of conditions are 'free', ''"),
        ({"image_fields": ("riddle",), "options": ImageOptions}, "names of fields and image_field"),
        ({"prompts": (ASK, ASK)}, "names of prompts are 'ask', 'ask'"),
        ({"prompts": ("# user\nhello",)}, r"write parse_prompt\('# user\\nhello', NAME\)"),
        ({"notes": "beware"}, r"notes is 'beware', and no tuple: write \('beware',\)"),
        ({"least": "errors"}, r"least is 'errors', and no tuple"),
        ({"name": "my quiz/a"}, "name is 'my quiz/a', and files are named after it"),
        ({"scale": 1}, r"scale holds 1: write \(lowest, highest\), or a mapping of every metric"),
        ({"scale": (1, 1)}, r"scale holds \(1, 1\)"),
        ({"scale": {"fit": ("1", "10")}}, r"scale holds \('1', '10'\)"),
        ({"image_fields": ("a",), "options": ShotOptions}, "is ShotOptions, which is no ImageOpti"),
    ],
)
def test_what_cannot_be_declared_is_refused(
    tmp_path: Path, declared: dict[str, Any], told: str
) -> None:
    kind = type("Odd", (Riddles,), declared)
    with pytest.raises(ConfigError, match=rf"^Odd.*{told}"):
        kind(spec(tmp_path, Riddles), ImageStore())


def test_options_of_ones_own_are_checked_and_told(tmp_path: Path) -> None:
    shots = build(tmp_path, Shots, options={"shots": 3})
    first, *_ = shots.load()
    answer, _ = shots.plan(first, "free")
    assert answer.messages[0].text == "? ? ? Who is a?"
    with pytest.raises(ConfigError, match="shots: Input should be greater than or equal to 0"):
        build(tmp_path, Shots, options={"shots": -1})
    listed = CliRunner().invoke(commands, ["options", f"{__name__}:Shots"]).output
    assert "How many examples stand before a riddle." in listed


def test_the_files_of_ones_own_code_are_among_the_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Path(__file__)
    base = Path(inspect.getfile(example_benchmark))
    assert build(tmp_path, Shots).facts["code"] == {
        own.name: hash_file(own),
        base.name: hash_file(base),
    }
    assert build(tmp_path, Riddles).facts["code"] == {base.name: hash_file(base)}
    typed = ModuleType("typed_into_a_notebook")
    monkeypatch.setitem(sys.modules, typed.__name__, typed)
    monkeypatch.setattr(Shots, "__module__", typed.__name__)
    assert Shots(spec(tmp_path, Shots), ImageStore()).facts["code"] == {base.name: hash_file(base)}


def test_columns_that_nothing_reads_are_told_where_one_is_missing(tmp_path: Path) -> None:
    built = spec(tmp_path, Riddles)
    data = tmp_path / "riddles.jsonl"
    data.write_text('{"ID": 1, "riddel": "Who?", "id": 1}\n', encoding="utf-8")
    with pytest.raises(DataError) as caught:
        build_benchmark(built, ImageStore())
    assert "Every record needs id, riddle.\nColumns that nothing reads: ID, riddel." in str(
        caught.value
    )


def test_a_class_can_be_run_without_a_file(tmp_path: Path) -> None:
    data = str(spec(tmp_path, Riddles).options["data"])
    typed = ["check", "tests.example_benchmark:Riddles", "--data", data]
    seats = ["--candidate", "fake/echo", "--judge", "fake/judge", "--out", str(tmp_path / "runs")]
    result = CliRunner().invoke(commands, [*typed, *seats])
    assert result.exit_code == 0, result.exception
    assert "3 samples under free: data in order" in result.output


def test_one_condition_that_is_no_list_is_told_as_it_is_written(tmp_path: Path) -> None:
    run = tmp_path / "run.yaml"
    run.write_text("benchmark: tests.example_benchmark:Riddles\nconditions: free\n")
    result = CliRunner().invoke(commands, ["check", str(run), "--candidate", "fake/echo"])
    assert "conditions is a list: write [free]" in str(result.exception)
