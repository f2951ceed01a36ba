"""`mmconv options`: what a benchmark can be told, from the models that read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from mmconv.benchmarks.base import Benchmark
from mmconv.benchmarks.registry import TITLES
from mmconv.benchmarks.shared.options import Description, describe
from mmconv.cli.shared.field_lists import PREFIX, Entry, print_sections, tell_fields
from mmconv.cli.shared.run_options import NAMED
from mmconv.core.config import YAML_FILES, read_document
from mmconv.core.errors import ConfigError
from mmconv.engine.setup import find_benchmark


@click.command(name="options", epilog=NAMED)
@click.argument("benchmark", metavar="BENCHMARK|MODULE:CLASS|RUN.yaml")
def command(benchmark: str) -> None:
    """List a benchmark's seats, conditions and options, with values, defaults and meanings.

    A run file stands for its benchmark, MODULE:CLASS for one of your own. What every run has
    besides (limit, trials, seed, sampling by seat) is in `mmconv run --help`.
    """
    print_sections(_sections(_described(benchmark)))


def _described(target: str) -> Description:
    """The description of a benchmark of ours, of a class of one's own, or of a run file's.

    Raises `ConfigError` where there is none.
    """
    name = target
    if target.endswith(YAML_FILES):
        document = read_document(Path(target))
        if "benchmark" not in document:
            raise ConfigError(f"{target}: benchmark is needed and not set")
        name = str(document["benchmark"])
    if name in TITLES or ":" not in name:
        return describe(name)
    builder = find_benchmark(name)
    if isinstance(builder, type) and issubclass(builder, Benchmark):
        return builder.describe()
    raise ConfigError(f"{name} is not a subclass of mmconv.benchmarks.base.Benchmark")


def _sections(described: Description) -> Iterator[tuple[str, Sequence[Entry]]]:
    yield "Seats, --set seats.NAME=MODEL", list(described.seats.items())
    conditions = f"Conditions, --conditions LIST  [default: {described.unnamed}]"
    yield conditions, list(described.conditions.items())
    heading = f"Options, --set {PREFIX}NAME=VALUE, or {PREFIX.rstrip('.')}: in a run file"
    yield heading, tell_fields(described.options)
