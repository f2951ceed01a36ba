"""A sweep file and its cells: every model with every benchmark and seed, as ordinary runs.

A cell is the specification that `mmconv run` would have of the same run, so both have one folder.
The conditions of a benchmark are those of each run, since they are compared within a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field

from mmconv.benchmarks.options import describe
from mmconv.benchmarks.registry import TITLES
from mmconv.core.config import (
    CANDIDATE,
    YAML_FILES,
    RunSpec,
    Strict,
    accept_seats,
    model_files,
    override,
    set_field,
)
from mmconv.core.documents import nearest, read_document, validate
from mmconv.core.errors import ConfigError
from mmconv.core.judges import JUDGE
from mmconv.engine.setup import find_benchmark, validate_run

_WILD = frozenset("*?[")

Entry: TypeAlias = str | dict[str, Any]

Patterns: TypeAlias = Annotated[
    tuple[str, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)
]


class OverrideSpec(Strict):
    """Fields of the run file that are set in some cells."""

    models: Patterns = ("*",)
    """Labels of models, or patterns of them."""
    benchmarks: Patterns = ("*",)
    """Names of benchmarks, or patterns of them."""
    seeds: tuple[int, ...] | None = None
    """Seeds; all if not set."""
    set: Mapping[str, Any]
    """Dotted fields and values, such as `sampling.candidate.max_tokens: 256`."""


class SweepSpec(Strict):
    """A sweep file. Paths start at the working directory, as in a run file."""

    models: tuple[Entry, ...] = Field(min_length=1)
    """Model files, names, provider/model, patterns of files or names, or the fields of models."""
    benchmarks: tuple[Entry, ...] = Field(min_length=1)
    """Run files, or fields of run files without a candidate; `name` distinguishes two of them."""
    judge: Entry | None = None
    """The judge of all benchmarks that name none themselves."""
    seeds: tuple[int, ...] = Field(default=(), min_length=1)
    """Every cell is run once with each seed; default: the seed of the benchmark's run file."""
    overrides: tuple[OverrideSpec, ...] = ()
    """Later overrides win."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run of a sweep; `seed` is None if the sweep names no seeds."""

    model: str
    benchmark: str
    seed: int | None
    spec: RunSpec

    @property
    def row(self) -> str:
        """The model, with the seed if the sweep names seeds."""
        return self.model if self.seed is None else f"{self.model}, seed {self.seed}"

    @property
    def name(self) -> str:
        """Model, benchmark and seed, for people."""
        return f"{self.benchmark}, {self.row}"


def read_sweep(path: Path, overrides: Sequence[str] = ()) -> tuple[Cell, ...]:
    """The cells of a sweep file with `overrides` in all of them; raises `ConfigError`."""
    sweep = validate(SweepSpec, read_document(path), str(path))
    models = _read_models(sweep.models, path)
    used: set[int] = set()
    cells: dict[str, Cell] = {}
    for name, fields in _read_benchmarks(sweep.benchmarks, path).items():
        for label, model in models.items():
            for seed in dict.fromkeys(sweep.seeds or (None,)):
                document = _fill(fields, model, sweep.judge, seed)
                for number, change in enumerate(sweep.overrides):
                    if _applies(change, label, name, document.get("seed", 0)):
                        used.add(number)
                        for field, value in change.set.items():
                            where = f"{path}: overrides.{number}.set"
                            set_field(document, field, deepcopy(value), where)
                spec = validate_run(override(document, overrides), f"{path}: {name} with {label}")
                cell = Cell(model=label, benchmark=name, seed=seed, spec=spec)
                cells.setdefault(spec.model_dump_json(), cell)
    if unused := [str(number) for number in range(len(sweep.overrides)) if number not in used]:
        raise ConfigError(
            f"{path}: overrides.{unused[0]} matches no cell; the models are {', '.join(models)}"
        )
    return tuple(cells.values())


def _read_models(entries: Sequence[Entry], path: Path) -> dict[str, Entry]:
    models: dict[str, Entry] = {}
    for number, entry in enumerate(entries):
        where = f"{path}: models.{number}"
        for model in _matches(entry, where) if isinstance(entry, str) else (entry,):
            document = {"benchmark": "", "models": {CANDIDATE: model}}
            try:
                label = validate(RunSpec, document, where).models[CANDIDATE].label
            except ConfigError as error:
                named = str(error).startswith(where)
                raise error if named else ConfigError(f"{where}: {error}") from error
            if models.setdefault(label, model) != model:
                raise ConfigError(f"{where}: two models are called {label}; set `name` in one")
    return models


def _matches(pattern: str, where: str) -> Sequence[str]:
    if not _WILD.intersection(pattern):
        return (pattern,)
    if pattern.endswith(YAML_FILES):
        root = Path(pattern).anchor
        found = sorted(map(str, Path(root).glob(pattern.removeprefix(root))))
    else:
        found = [name for name in model_files() if fnmatchcase(name, pattern)]
    if not found:
        raise ConfigError(
            f"{where}: {pattern!r} matches no model; a pattern of files ends in .yaml, and "
            "`mmconv models` lists the names that others match"
        )
    return found


def _read_benchmarks(entries: Sequence[Entry], path: Path) -> dict[str, dict[str, Any]]:
    benchmarks: dict[str, dict[str, Any]] = {}
    for number, entry in enumerate(entries):
        where = f"{path}: benchmarks.{number}"
        if isinstance(entry, str) and not entry.endswith(YAML_FILES):
            hint = nearest(entry, [*TITLES]) if entry not in TITLES else ""
            raise ConfigError(f"{where}: {entry!r} is not a run file; write its fields{hint}")
        fields = read_document(Path(entry)) if isinstance(entry, str) else dict(entry)
        fields = accept_seats(fields)
        if not isinstance(benchmark := fields.get("benchmark"), str):
            raise ConfigError(f"{where}: benchmark is needed and not set")
        try:
            find_benchmark(benchmark)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from error
        stem = Path(entry).stem if isinstance(entry, str) else benchmark.rpartition(":")[2]
        name = str(fields.pop("name", stem))
        if name in benchmarks:
            raise ConfigError(f"{where}: two benchmarks are called {name}; set `name` in one")
        benchmarks[name] = fields
    return benchmarks


def _fill(
    fields: Mapping[str, Any], model: Entry, judge: Entry | None, seed: int | None
) -> dict[str, Any]:
    document = deepcopy(dict(fields))
    roles = {CANDIDATE: model}
    benchmark = document["benchmark"]
    if judge is not None and (benchmark not in TITLES or describe(benchmark).has_role(JUDGE)):
        roles[JUDGE] = judge
    document["models"] = deepcopy({**roles, **(document.get("models") or {}), CANDIDATE: model})
    if seed is not None:
        document["seed"] = seed
    return document


def _applies(change: OverrideSpec, label: str, name: str, seed: Any) -> bool:
    return (
        any(fnmatchcase(label, pattern) for pattern in change.models)
        and any(fnmatchcase(name, pattern) for pattern in change.benchmarks)
        and (change.seeds is None or seed in change.seeds)
    )
