"""Check the settings before serving: errors that never go away, and warnings about what is missing.

No data is read and no model is loaded. Models' own options and checkpoints are checked when they
are opened (`mmconv.service.model_pool`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mmconv.core.config import RunSpec
from mmconv.core.documents import nearest
from mmconv.core.errors import ConfigError
from mmconv.engine.setup import check_keys, find_benchmark
from mmconv.service.errors import plainly
from mmconv.service.runs.requests import description, open_options
from mmconv.service.settings import DataSpec, Settings


def check_settings(settings: Settings) -> tuple[str, ...]:
    """Warnings about data files and models' keys that are missing and may be added later.

    Raises `ConfigError` that lists unknown benchmarks and options.
    """
    faults = [
        f"  data.{name}.{fault}" for name, data in settings.data.items() for fault in _faults(data)
    ]
    if faults:
        raise ConfigError("\n".join(["wrong settings", *faults]))
    return (*_missing_files(settings), *_missing_keys(settings))


def _faults(data: DataSpec) -> Iterator[str]:
    """Errors of a dataset, each as its field below the dataset's name and a message."""
    try:
        find_benchmark(data.benchmark)
    except ConfigError as error:
        yield f"benchmark: {error}"
        return
    known = description(data.benchmark)
    if known is None:
        return
    try:
        known.options.model_validate(data.options)
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            yield from _option_fault(problem, data.benchmark, [*known.options.model_fields])


def _option_fault(problem: Any, benchmark: str, fields: list[str]) -> Iterator[str]:
    """The error, unless a run's own options can fix it."""
    place = problem["loc"]
    if not place or (problem["type"] == "missing" and place[0] in open_options(benchmark)):
        return
    name = ".".join(str(step) for step in ("options", *place))
    if problem["type"] == "missing":
        yield f"{name} is needed and not set"
    elif problem["type"] == "extra_forbidden":
        hint = nearest(str(place[0]), fields) if len(place) == 1 else ""
        yield f"{name}: {benchmark} has no such option{hint}"
    else:
        yield f"{name}: {plainly(problem)}"


def _missing_files(settings: Settings) -> Iterator[str]:
    for name, data in settings.data.items():
        known = description(data.benchmark)
        if known is None:
            continue
        files = known.options.model_fields.keys() - open_options(data.benchmark)
        for option, value in data.options.items():
            for path in value if isinstance(value, list | tuple) else [value]:
                if option in files and isinstance(path, str | Path) and not Path(path).exists():
                    yield (
                        f"data.{name}.options.{option}: {path} does not exist; runs of {name} are "
                        "refused until it does"
                    )


def _missing_keys(settings: Settings) -> Iterator[str]:
    """One line for each key that is not set, with the models that need it."""
    spec = RunSpec(benchmark="", models=settings.models)
    try:
        check_keys(spec, settings.models)
    except ConfigError as error:
        yield from (f"models.{line}" for line in str(error).splitlines())
