"""What makes two runs the same run: all that can change replies, scores or tables, and no more.

A model counts as its fingerprint, which names all that can change what it says, and by what only a
run adds: label, system prompt, sampling. How a run is carried out is no part of it (`OPERATIONAL`,
and what a provider leaves out of a fingerprint: replicas, ports, caches), so that a run goes on in
its folder after `attempts` were raised or a server has moved that `options.identity` names.

Files count as where they lie, however that is typed: as seen from the working directory where they
are in it, so that a folder with its data and runs may move as a whole, else from the root. Their
content is not looked at: where data or prompts have changed in place, the same run asks what is new
and its tables are those of today, while scoring it again is refused where that would cost it
results (`mmconv.report.changed_inputs`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mmconv.benchmarks.base import Benchmark as BaseBenchmark
from mmconv.benchmarks.registry import TITLES
from mmconv.benchmarks.shared.options import describe, file_options
from mmconv.core.config import CANDIDATE, RunSpec
from mmconv.core.keys import hash_json
from mmconv.core.protocols import Benchmark
from mmconv.run_folder.layout import Shard

OPERATIONAL = frozenset(
    {
        "api_key_env",  # who pays for a reply
        "price",  # what it costs: `summary.json` is written anew by every session
        "max_concurrency",  # how soon it comes
        # Whether it comes: what failed is asked again by the same run.
        "timeout",
        "attempts",
        "wait_for_server",
    }
)
"""The fields of a model that change no reply, score or table."""


_NEWER = ("shuffle", "samples")
"""Fields that count only where they are set: runs without them keep the names that they had."""


def identify(
    spec: RunSpec, benchmark: Benchmark[Any], fingerprints: Mapping[str, str], shard: Shard
) -> str:
    """Benchmark, candidate and a hash of what the run is; shards are told apart.

    `fingerprints` are those of the models, by seat.
    """
    label = spec.seats[CANDIDATE].label
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{benchmark.name}-{label}")
    part = f"-{shard.index + 1}of{shard.count}" if shard.count > 1 else ""
    return f"{name}-{_digest(spec, benchmark, fingerprints)[:8]}{part}"


def depends_on_folder(spec: RunSpec, benchmark: Benchmark[Any]) -> bool:
    """Whether files lie in the working directory, so that elsewhere others are named alike."""
    located = (_located(spec.options[name]) for name in _file_names(spec, benchmark))
    return any(not Path(path).is_absolute() for each in located for path in _leaves(each))


def _digest(spec: RunSpec, benchmark: Benchmark[Any], fingerprints: Mapping[str, str]) -> str:
    told = spec.model_dump(mode="json")
    for name in _NEWER:
        if told[name] is None:
            del told[name]
    for name in _file_names(spec, benchmark):
        told["options"][name] = _located(told["options"][name])
    told["prompts"] = _located(told["prompts"])
    told["seats"] = {
        seat: {
            "model": fingerprints[seat],
            "label": model.label,
            "system": model.system,
            "sampling": told["seats"][seat]["sampling"],
        }
        for seat, model in spec.seats.items()
    }
    return hash_json(told)


def _file_names(spec: RunSpec, benchmark: Benchmark[Any]) -> frozenset[str]:
    """The options given that name files or folders; a benchmark from elsewhere may not tell."""
    if spec.benchmark in TITLES:
        return file_options(describe(spec.benchmark).options) & spec.options.keys()
    if isinstance(benchmark, BaseBenchmark):
        return file_options(benchmark.describe().options) & spec.options.keys()
    return frozenset()


def _located(value: Any) -> Any:
    """Paths, or lists of them or mappings to them, as where they lie; what is not set stays so."""
    match value:
        case str():
            path, here = Path(value).resolve(), Path.cwd()
            return str(path.relative_to(here) if path.is_relative_to(here) else path)
        case list():
            return [_located(each) for each in value]
        case dict():
            return {name: _located(each) for name, each in value.items()}
    return value


def _leaves(located: Any) -> Iterator[str]:
    match located:
        case str():
            yield located
        case list():
            for each in located:
                yield from _leaves(each)
        case dict():
            yield from _leaves([*located.values()])
