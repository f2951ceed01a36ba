"""A data file and a specification for benchmarks of one's own that tests define."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from images import ImageStore
from mmconv.benchmarks.base import FileBenchmark
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.engine.setup import build_benchmark

JUDGE = ModelSpec(provider="fake", model="judge")


def spec(folder: Path, kind: type[FileBenchmark], *seats: str, **fields: Any) -> RunSpec:
    """A run over the riddles a, b and c; by default a candidate and a judge are seated."""
    data = folder / "riddles.jsonl"
    data.write_bytes(
        b"\n".join(orjson.dumps({"id": name, "riddle": f"Who is {name}?"}) for name in "abc")
    )
    options = {"data": str(data), **fields.pop("options", {})}
    everyone = dict.fromkeys(seats or ("candidate", "judge"), JUDGE)
    name = f"{kind.__module__}:{kind.__name__}"
    return RunSpec(benchmark=name, options=options, seats=everyone, **fields)


def build(folder: Path, kind: type[FileBenchmark], *seats: str, **fields: Any) -> Any:
    """The benchmark as a run builds it, its plans checked."""
    return build_benchmark(spec(folder, kind, *seats, **fields), ImageStore())
