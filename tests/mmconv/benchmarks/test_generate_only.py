"""Runs that ask no judge: a folder of judge's prompts is checked all the same.

The judged run that comes later takes the same run file.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest

from images import ImageStore
from mmconv.benchmarks.base import Benchmark
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.errors import ConfigError, PromptError
from mmconv.engine.setup import build_benchmark
from tests.mmconv.benchmarks.few_records import DATA

ECHO = ModelSpec(provider="fake", model="echo")
PROMPTS = Path(__file__).parents[3] / "judges" / "prompts"
BENCHMARKS = ("cmteval", "convbench", "fbbench", "mtbench101")
"""Those that have the option."""


def built(
    benchmark: str, folder: Path, prompts: Path | None, **roles: ModelSpec
) -> Benchmark[Any, Any]:
    spec = RunSpec(
        benchmark=benchmark,
        options={**DATA[benchmark](folder), "generate_only": True},
        models={"candidate": ECHO, **roles},
        prompts=prompts,
    )
    return build_benchmark(spec, ImageStore())


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_a_users_prompts_are_checked_where_none_is_asked(tmp_path: Path, benchmark: str) -> None:
    with pytest.raises(PromptError, match="no such folder of prompts"):
        built(benchmark, tmp_path, tmp_path / "gone")
    own = tmp_path / "own"
    shutil.copytree(PROMPTS / benchmark, own)
    made = built(benchmark, tmp_path, own)
    assert made.provenance["prompts"] == {}
    calls = made.calls(next(made.load()), made.conditions[0])
    assert {call.model for call in calls} == {"candidate"}
    (own / "joke.md").write_text("# user\nTell one.\n", encoding="utf-8")
    with pytest.raises(PromptError, match=f"{benchmark} has no prompt 'joke'"):
        built(benchmark, tmp_path, own)


def test_prompts_for_a_judge_that_takes_none_are_refused(tmp_path: Path) -> None:
    judge = ModelSpec(provider="reference", model="chrf")
    (tmp_path / "own").mkdir()
    with pytest.raises(ConfigError, match="leave out --prompts"):
        built("convbench", tmp_path, tmp_path / "own", judge=judge)
