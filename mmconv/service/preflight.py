"""What the settings alone tell, before anything is served: what cannot work, and what may not yet.

No data are read and no model is loaded. Models' own options and checkpoints are checked where they
are opened (`mmconv.service.models.pool`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mmconv.core.config import RunSpec
from mmconv.core.documents import nearest
from mmconv.core.errors import ConfigError
from mmconv.engine.setup import check_keys, find_benchmark
from mmconv.service.errors.validation import plainly
from mmconv.service.runs.requests import description, open_options
from mmconv.service.settings import DataSpec, Settings


def check_settings(settings: Settings) -> tuple[str, ...]:
    """What is missing now and may be there by the time it is needed: data files, models' keys.

    Raises `ConfigError` that lists what can never work: benchmarks and options that there are not.
    """
    faults = [
        f"  data.{name}.{fault}" for name, data in settings.data.items() for fault in _faults(data)
    ]
    if faults:
        raise ConfigError("\n".join(["wrong settings", *faults]))
    return (*_missing_files(settings), *_missing_keys(settings))


def _faults(data: DataSpec) -> Iterator[str]:
    """What is wrong with a data set, as its field below the data set's name, and words."""
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
            yield from _of_option(problem, data.benchmark)


def _of_option(problem: Any, benchmark: str) -> Iterator[str]:
    """The problem, unless a run's own options may yet mend it."""
    place = problem["loc"]
    if not place or (problem["type"] == "missing" and place[0] in open_options(benchmark)):
        return
    name = ".".join(str(step) for step in ("options", *place))
    if problem["type"] == "missing":
        yield f"{name} is needed and not set"
    elif problem["type"] == "extra_forbidden":
        known = description(benchmark)
        fields = [] if known is None else list(known.options.model_fields)
        hint = nearest(str(place[0]), fields) if len(place) == 1 else ""
        yield f"{name}: {benchmark} has no such option{hint}"
    else:
        yield f"{name}: {plainly(problem)}"


def _missing_files(settings: Settings) -> Iterator[str]:
    for name, data in settings.data.items():
        for option, path in _paths(data):
            if not path.exists():
                yield (
                    f"data.{name}.options.{option}: {path} is not there; runs of {name} are refused"
                    " until it is"
                )


def _paths(data: DataSpec) -> Iterator[tuple[str, Path]]:
    """The files and folders that a data set's options name."""
    known = description(data.benchmark)
    files = () if known is None else set(known.options.model_fields) - open_options(data.benchmark)
    for option, value in data.options.items():
        if option in files:
            several: Iterable[Any] = value if isinstance(value, list | tuple) else [value]
            yield from ((option, Path(each)) for each in several if isinstance(each, str | Path))


def _missing_keys(settings: Settings) -> Iterator[str]:
    """One line for each key that is not set, with the models that need it."""
    spec = RunSpec(benchmark="", seats=settings.models)
    try:
        check_keys(spec, settings.models)
    except ConfigError as error:
        yield from (f"models.{line}" for line in str(error).splitlines())
