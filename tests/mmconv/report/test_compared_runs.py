"""What is told of runs whose settings differ."""

from __future__ import annotations

from pathlib import Path

from mmconv.config import ModelSpec, RunSpec
from mmconv.report.compared_runs import other_settings
from mmconv.report.layout import Manifest
from mmconv.report.saved_run import FinishedRun


def run(label: str, benchmark: str) -> FinishedRun:
    """A run whose every option is its label."""
    options = dict.fromkeys(("data", "images", "references", "subsets"), label)
    candidate = ModelSpec(provider="fake", model="echo")
    return FinishedRun(
        folder=Path(label),
        label=label,
        spec=RunSpec(benchmark=benchmark, options=options, seats={"candidate": candidate}),
        manifest=Manifest(
            run=label,
            benchmark=benchmark,
            conditions=("free",),
            samples=1,
            seed=0,
            models={"candidate": "echo"},
            facts={},
            notes=(),
            mmconv="0",
            python="3",
            packages={},
        ),
        summary=None,
        tables=(),
    )


def told(benchmark: str) -> list[str]:
    return [each.split()[1] for each in other_settings(run("a", benchmark), run("b", benchmark))]


def test_where_files_lie_is_no_setting() -> None:
    assert told("cmteval") == ["images:", "subsets:"]


def test_a_benchmark_of_ones_own_has_files_as_file_benchmarks_do() -> None:
    assert told("mine.doubts:Doubts") == ["references:", "subsets:"]
