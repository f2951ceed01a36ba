"""Where names become objects: benchmarks, models and seats, imported when they are asked for.

This is the only module that knows both the engine and what plugs into it. Shipped benchmarks are
those of `mmconv.benchmarks.registry`, shipped providers those of `model_zoo.providers`; a package
that is installed beside mmconv can be named as `package.module` (provider) or
`package.module:attribute` (benchmark) without being listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, cast

from mmconv.benchmarks.base import Benchmark as BaseBenchmark
from mmconv.benchmarks.registry import CLASSES, TITLES
from mmconv.core.config import ModelSpec, RunSpec, SamplingSpec
from mmconv.core.documents import nearest
from mmconv.core.errors import BackendError, ConfigError
from mmconv.core.imports import find_named
from mmconv.core.protocols import Backend, Benchmark, ImageSink, ImageSource
from mmconv.core.types import Call
from mmconv.engine import Model, Seat
from model_zoo.providers import provider_of


class BenchmarkBuilder(Protocol):
    """Builds a benchmark from a run's specification, all of its data checked."""

    def __call__(self, spec: RunSpec, images: ImageSink) -> Benchmark[Any]:
        """Raises `InputError` for options or data that cannot be used."""
        ...


def find_benchmark(name: str) -> BenchmarkBuilder:
    """What builds the benchmark; raises `ConfigError` listing the known ones."""
    shipped = {each: f"mmconv.benchmarks.{each}.benchmark:build" for each in TITLES} | CLASSES
    found = find_named(name, "benchmark", shipped)
    if not callable(found):
        raise ConfigError(f"benchmark {name!r} builds none: name its class, as in MODULE:CLASS")
    if lacking := getattr(found, "__abstractmethods__", ()):
        raise ConfigError(f"benchmark {name!r} does not define {' and '.join(sorted(lacking))}")
    return cast("BenchmarkBuilder", found)


def build_benchmark(spec: RunSpec, images: ImageSink) -> Benchmark[Any]:
    """The benchmark that a run asks for, its options and data checked."""
    build: Any = find_benchmark(spec.benchmark)
    if spec.benchmark in TITLES and spec.benchmark not in CLASSES:
        return cast("Benchmark[Any]", build(spec, images))
    benchmark: BaseBenchmark[Any, Any] = build(spec)
    benchmark.load_data(images)
    if spec.benchmark not in CLASSES:
        benchmark.check_plans()
    return benchmark


def build_seats(spec: RunSpec, images: ImageSource) -> dict[str, Seat]:
    """The run's seats; nothing is loaded until the first call is asked.

    Seats whose models are the same share one, so that a model is loaded once and its slots count
    once. A run's sampling goes before the model file's own.
    """
    models: dict[str, Model] = {}
    seats = {}
    for name, model in spec.seats.items():
        same = model_identity(model)
        if same not in models:
            models[same] = build_model(model, images)
        seats[name] = build_seat(model, models[same], spec.sampling.get(name), spec.seed)
    return seats


def build_model(spec: ModelSpec, images: ImageSource) -> Model:
    """A model that is loaded at its first call; raises `ConfigError` as its provider does."""
    provider = provider_of(spec)

    async def open_backend() -> Backend:
        return await provider.open_backend(spec, images)

    return Model(provider.fingerprint(spec), open_backend, spec.attempts)


def about_models(spec: RunSpec) -> dict[str, dict[str, str]]:
    """What providers tell of a run's models, by seat, such as their chat template; none is loaded.

    A provider that tells nothing has no entry.
    """
    told = {seat: provider_of(model).metadata(model) for seat, model in spec.seats.items()}
    return {seat: dict(facts) for seat, facts in told.items() if facts}


def model_identity(spec: ModelSpec) -> str:
    """What tells models apart: all that a file says but what only a seat adds, and their price."""
    return spec.model_dump_json(exclude={"name", "system", "sampling", "price"})


def build_seat(
    spec: ModelSpec, model: Model, sampling: SamplingSpec | None = None, seed: int = 0
) -> Seat:
    """A seat for a model, with its file's system prompt and sampling; `sampling` goes before it.

    `seed` is the run's.
    """
    return Seat(
        model=model,
        label=spec.label,
        system=spec.system,
        sampling={**_overrides_of(spec.sampling), **_overrides_of(sampling)},
        seed=seed,
    )


def check_keys(spec: RunSpec, seats: Iterable[str]) -> None:
    """Raise `ConfigError` that names every key that the models on these seats lack."""
    _check_models(spec, seats, check_key)


def check_calls(spec: RunSpec, calls: Iterable[Call]) -> None:
    """Raise `ConfigError` for models that are known not to take what these calls show them.

    It names those that get images and take none, or a judge that reads no prompts but its own. Of
    many models this is not known before they are asked; those go on.
    """
    sighted: dict[str, None] = {}
    for call in calls:
        _check_prompt(spec.seats[call.seat], call)
        if any(message.images for message in call.messages):
            sighted[call.seat] = None
    try:
        _check_models(spec, sighted, check_sight)
    except ConfigError as error:
        raise ConfigError(
            f"{error}\n{spec.benchmark} shows its images to {', '.join(sighted)}; "
            "`mmconv models --images` lists models that take them"
        ) from error


def _check_models(spec: RunSpec, seats: Iterable[str], check: Callable[[ModelSpec], None]) -> None:
    """Raise one `ConfigError` of all that `check` raises, each with the seats that it is about."""
    told: dict[str, list[str]] = {}
    for seat in seats:
        model = spec.seats[seat]
        try:
            check(model)
        except ConfigError as error:
            told.setdefault(str(error), []).append(f"{seat} ({model.label})")
    if told:
        lines = (f"{', '.join(whose)}: {error}" for error, whose in told.items())
        raise ConfigError("\n".join(lines))


def check_ready(spec: RunSpec) -> None:
    """Raise `ConfigError` of every model that is seen, without loading it, not to open here."""
    _check_models(spec, spec.seats, lambda model: provider_of(model).check_ready(model))


def check_key(spec: ModelSpec) -> None:
    """Raise `ConfigError` for a key that the model needs and that is not set."""
    provider_of(spec).check_key(spec)


def _check_prompt(spec: ModelSpec, call: Call) -> None:
    try:
        provider_of(spec).check_prompt(call.messages)
    except ConfigError as error:
        raise ConfigError(f"{call.seat} ({spec.label}): {error}") from error


def check_sight(spec: ModelSpec) -> None:
    """Raise `ConfigError` for a model that is known, by its file or unloaded, to take no images."""
    if spec.about.images is False:
        raise ConfigError("its model file says that it takes no images (about.images)")
    provider_of(spec).check_sight(spec)


async def is_served(spec: ModelSpec) -> bool:
    """Ask the model's server whether it serves the model; False where it is not on a server.

    Raises `ConfigError` if the server does not answer, or does not have the model.
    """
    try:
        served = await provider_of(spec).probe(spec)
    except BackendError as error:
        raise ConfigError(f"model {spec.label}: {error}") from error
    # Gemini's list says models/NAME of what is asked by NAME
    names = [name.removeprefix("models/") for name in served or ()]
    if served is not None and spec.model.removeprefix("models/") not in names:
        raise ConfigError(
            f"model {spec.label}: its server does not have {spec.model!r}"
            f"{nearest(spec.model, names)}"
        )
    return served is not None


def _overrides_of(sampling: SamplingSpec | None) -> dict[str, Any]:
    return {} if sampling is None else sampling.model_dump(exclude_unset=True)
