"""A data file, a specification and a benchmark for tests that define benchmarks."""

from pathlib import Path
from typing import Any

import orjson

from images import ImageStore
from mmconv.benchmarks.base import Benchmark
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.engine.setup import build_benchmark

JUDGE = ModelSpec(provider="fake", model="judge")

RIDDLES = tuple({"id": name, "riddle": f"Who is {name}?"} for name in "abc")


def write(path: Path, *records: object) -> Path:
    """A .jsonl file of these records."""
    path.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    return path


def spec(folder: Path, kind: type[Benchmark[Any, Any]], *roles: str, **fields: Any) -> RunSpec:
    """A run over the riddles a, b and c; by default with a candidate and a judge."""
    options = fields.pop("options", {})
    if "data" not in options:
        options = {"data": str(write(folder / "riddles.jsonl", *RIDDLES)), **options}
    return RunSpec(
        benchmark=f"{kind.__module__}:{kind.__name__}",
        options=options,
        models=dict.fromkeys(roles or ("candidate", "judge"), JUDGE),
        **fields,
    )


def build(
    folder: Path,
    kind: type[Benchmark[Any, Any]],
    *roles: str,
    library: ImageStore | None = None,
    **fields: Any,
) -> Any:
    """The benchmark as a run builds it, its data and plans checked."""
    return build_benchmark(spec(folder, kind, *roles, **fields), library or ImageStore())
