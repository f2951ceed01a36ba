"""Runs that ask no judge: a folder of judge's prompts is checked all the same.

The judged run that comes later takes the same run file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from images import Library
from mmconv.assemble import build_benchmark
from mmconv.benchmarks.convbench.scenes import write_scenes
from mmconv.config import ModelSpec, RunSpec
from mmconv.errors import ConfigError, PromptError
from mmconv.protocols import Benchmark
from tests.mmconv.benchmarks.cmteval import dialogues as cmteval
from tests.mmconv.benchmarks.fbbench import samples as fbbench
from tests.mmconv.benchmarks.mtbench101 import dialogues as mtbench101

ECHO = ModelSpec(provider="fake", model="echo")


def drawn(folder: Path) -> dict[str, Any]:
    data, images = write_scenes(folder / "scenes", 2)
    return {"data": str(data), "images": str(images)}


def stored(name: str, *records: Any) -> Callable[[Path], dict[str, Any]]:
    def write(folder: Path) -> dict[str, Any]:
        (folder / name).write_bytes(orjson.dumps(records))
        return {"data": str(folder / name)}

    return write


DATA: dict[str, Callable[[Path], dict[str, Any]]] = {
    "cmteval": stored("standard_data.json", cmteval.record("1")),
    "convbench": drawn,
    "fbbench": stored("a.json", fbbench.correction(1)),
    "mtbench101": stored("a.json", *mtbench101.records()[:2]),
}
"""Benchmark -> what writes a few records and says which options name them."""


def built(benchmark: str, folder: Path, prompts: Path | None, **seats: ModelSpec) -> Benchmark[Any]:
    spec = RunSpec(
        benchmark=benchmark,
        options={**DATA[benchmark](folder), "generate_only": True},
        seats={"candidate": ECHO, **seats},
        prompts=prompts,
    )
    return build_benchmark(spec, Library())


@pytest.mark.parametrize("benchmark", DATA)
def test_prompts_of_ones_own_are_checked_where_none_is_asked(
    tmp_path: Path, benchmark: str
) -> None:
    with pytest.raises(PromptError, match="no such folder of prompts"):
        built(benchmark, tmp_path, tmp_path / "gone")
    own = tmp_path / "own"
    own.mkdir()
    made = built(benchmark, tmp_path, own)
    assert made.facts["prompts"] == {}
    calls = made.plan(next(iter(made.load())), made.conditions[0])
    assert {call.seat for call in calls} == {"candidate"}
    (own / "joke.md").write_text("# user\nTell one.\n", encoding="utf-8")
    with pytest.raises(PromptError, match=f"{benchmark} has no prompt 'joke'"):
        built(benchmark, tmp_path, own)


def test_prompts_for_a_judge_that_takes_none_are_refused(tmp_path: Path) -> None:
    judge = ModelSpec(provider="reference", model="chrf")
    (tmp_path / "own").mkdir()
    with pytest.raises(ConfigError, match="leave out --prompts"):
        built("convbench", tmp_path, tmp_path / "own", judge=judge)
