"""The identity of a run: all that can change its replies, scores or tables, and nothing else.

A model counts by its fingerprint, label, system prompt and sampling. Settings that only change how
a run is executed do not count (`OPERATIONAL`, and what a fingerprint leaves out: replicas, ports,
caches). So a run goes on in its folder after `attempts` was raised or a server has moved.

Files count by their path, relative to the working directory if they are in it, so that a folder
with data and runs can move as a whole. Their content does not count: if data or prompts change in
place, the same run requests what is new. Scoring it again is refused if that would lose results
(`mmconv.report.changed_inputs`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from mmconv.benchmarks.base import Benchmark
from mmconv.benchmarks.options import file_options
from mmconv.core.config import CANDIDATE, RunSpec
from mmconv.core.keys import hash_json
from mmconv.run_folder.layout import Shard

OPERATIONAL = frozenset(
    {
        "api_key_env",  # who pays for a reply
        "price",  # what it costs: every session rewrites `summary.json`
        "max_concurrency",  # how soon it comes
        "batch",
        "replicas",
        "gpus",
        "detached",
        # whether it comes: the same run requests failed calls again
        "timeout",
        "attempts",
        "wait_for_server",
    }
)
"""The fields of a model that change no reply, score or table."""


AnyBenchmark: TypeAlias = Benchmark[Any, Any] | type[Benchmark[Any, Any]]

_NEWER = ("shuffle", "samples")
"""Fields that count only if set, so that runs without them keep their earlier names."""


def identify(
    spec: RunSpec, benchmark: AnyBenchmark, fingerprints: Mapping[str, str], shard: Shard
) -> str:
    """The run's name: benchmark, candidate, a hash of its identity, shard; fingerprints by role."""
    label = spec.models[CANDIDATE].label
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{benchmark.name}-{label}")
    part = f"-{shard.index + 1}of{shard.count}" if shard.count > 1 else ""
    return f"{name}-{_digest(spec, benchmark, fingerprints)[:8]}{part}"


def _digest(spec: RunSpec, benchmark: AnyBenchmark, fingerprints: Mapping[str, str]) -> str:
    identity = spec.model_dump(mode="json")
    for name in _NEWER:
        if identity[name] is None:
            del identity[name]
    for name in file_options(benchmark.options_type) & spec.options.keys():
        identity["options"][name] = _located(identity["options"][name])
    identity["prompts"] = _located(identity["prompts"])
    models = identity.pop("models")
    # the field's name when the first runs were named
    identity["seats"] = {
        role: {
            "model": fingerprints[role],
            "label": model.label,
            "system": model.system,
            "sampling": models[role]["sampling"],
        }
        for role, model in spec.models.items()
    }
    return hash_json(identity)


def _located(value: Any) -> Any:
    match value:
        case str():
            path, here = Path(value).resolve(), Path.cwd()
            return str(path.relative_to(here) if path.is_relative_to(here) else path)
        case list():
            return [_located(each) for each in value]
        case dict():
            return {name: _located(each) for name, each in value.items()}
    return value
