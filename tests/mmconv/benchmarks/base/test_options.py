"""Descriptions of benchmarks: complete, and true to what a benchmark really takes.

And options that hold several values, as run files and the command line write them.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import TypeAdapter, ValidationError

from images import ImageStore
from mmconv.benchmarks.base import ImageOptions
from mmconv.benchmarks.options import (
    Several,
    describe,
    file_options,
    options_in_force,
    read_options,
)
from mmconv.benchmarks.registry import TITLES
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.errors import ConfigError
from mmconv.engine.setup import build_benchmark

NAMES: TypeAdapter[tuple[str, ...]] = TypeAdapter(Several[Literal["a", "b"]])
FAKE = ModelSpec(provider="fake", model="echo")

each_benchmark = pytest.mark.parametrize("benchmark", TITLES)


def test_what_is_not_shipped_is_not_described() -> None:
    with pytest.raises(ConfigError, match="no options of 'chess' are known; there are: botchat, "):
        describe("chess")


def meanings(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for group in (schema, *schema.get("$defs", {}).values()):
        for name, options in group["properties"].items():
            yield name, options.get("description", "")


@each_benchmark
def test_every_option_has_a_sentence(benchmark: str) -> None:
    for name, meaning in meanings(describe(benchmark).options.model_json_schema()):
        assert re.fullmatch(r"[A-Z][^\n]{10,95}\.", meaning), name


def run(benchmark: str, folder: Path, **fields: Any) -> RunSpec:
    """A run that names what is needed, whatever lies there."""
    needed = {
        name: str(folder)
        for name, field in describe(benchmark).options.model_fields.items()
        if field.is_required()
    }
    roles = {"candidate": FAKE, "judge": FAKE}
    return RunSpec(**{"benchmark": benchmark, "options": needed, "models": roles, **fields})


@pytest.mark.parametrize("benchmark", [name for name in TITLES if "judge" in describe(name).roles])
def test_grading_needs_a_judge(benchmark: str, tmp_path: Path) -> None:
    alone = run(benchmark, tmp_path, models={"candidate": FAKE})
    message = r"needs a judge: name one( \(.+\))?, or give --no-judge$"
    with pytest.raises(ConfigError, match=message):
        build_benchmark(alone, ImageStore())


@each_benchmark
def test_its_conditions_are_those_that_a_run_can_name(benchmark: str, tmp_path: Path) -> None:
    named = run(benchmark, tmp_path, conditions=("no such",))
    with pytest.raises(ConfigError, match="there are: ") as caught:
        build_benchmark(named, ImageStore())
    listed = str(caught.value).rpartition("there are: ")[2]
    assert listed.split(", ") == list(describe(benchmark).conditions)


@each_benchmark
def test_a_misspelt_option_points_to_the_list(benchmark: str) -> None:
    given = {"max_tokesn": 1}
    with pytest.raises(ConfigError) as caught:
        read_options(describe(benchmark).options, given, benchmark)
    message = str(caught.value)
    assert "max_tokesn is not a field here; did you mean max_tokens?" in message
    assert message.endswith(f"\n`mmconv options {benchmark}` lists them.")


@pytest.mark.parametrize("benchmark", TITLES)
def test_what_is_in_force_is_every_option_but_names_of_files(benchmark: str) -> None:
    kind = describe(benchmark).options
    given = {name: "a" for name, field in kind.model_fields.items() if field.is_required()}
    in_force = options_in_force(benchmark, {**given, "max_tokens": 7})
    assert in_force.keys() == kind.model_fields.keys() - file_options(kind)
    assert in_force["max_tokens"] == 7


def test_of_a_benchmark_of_ones_own_no_options_are_told() -> None:
    assert options_in_force("riddles.py:Riddles", {"data": "a.jsonl"}) == {}


def test_options_that_name_files_are_known_by_their_types() -> None:
    assert {name: set(file_options(describe(name).options)) for name in TITLES} == {
        "convbench": {"data", "images", "annotations", "positions"},
        "dialogue": {"data", "images"},
        "mtbench101": {"data"},
        "botchat": {"data", "opponents"},
        "fbbench": {"data"},
        "cmteval": {"data", "references"},
        "scenes": set(),
    }
    assert file_options(ImageOptions) == {"data", "images"}


@pytest.mark.parametrize("written", ["a,b", "a, b", ["a", "b"], ("a", "b")])
def test_a_list_may_be_written_with_commas(written: Any) -> None:
    assert NAMES.validate_python(written) == ("a", "b")


def test_one_value_may_stand_alone() -> None:
    assert NAMES.validate_python("a") == ("a",)
    assert TypeAdapter(Several[int]).validate_python(8) == (8,)
    assert TypeAdapter(Several[int]).validate_python("8,16") == (8, 16)
    assert TypeAdapter(Several[Path]).validate_python("runs/x") == (Path("runs/x"),)


def test_another_value_is_refused() -> None:
    with pytest.raises(ValidationError, match="'a' or 'b'"):
        NAMES.validate_python("a,c")
