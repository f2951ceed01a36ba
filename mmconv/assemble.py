"""Where names become objects: providers, benchmarks and seats, imported when they are asked for.

This is the only module that knows both the engine and what plugs into it. To add a benchmark or a
provider, add a line to one of the two tables; a package that is installed beside mmconv can be
named as `package.module` (provider) or `package.module:attribute` (benchmark) without one.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, Protocol, cast

from mmconv.config import ModelSpec, RunSpec, SamplingSpec, nearest
from mmconv.errors import BackendError, ConfigError
from mmconv.protocols import Backend, Benchmark, ImageSink, ImageSource
from mmconv.runner import Model, Seat

PROVIDERS = {
    "damaged": "model_zoo.damaged",
    "fake": "model_zoo.fake",
    "hf": "model_zoo.hf",
    "openai": "model_zoo.openai_api",
    "pocket": "model_zoo.pocket",
    "reference": "model_zoo.reference",
    "scenes": "model_zoo.scene_judge",
    "simulated": "model_zoo.simulated",
    "vllm": "model_zoo.vllm_server",
}

BENCHMARKS = {
    "botchat": "mmconv.benchmarks.botchat.benchmark:build",
    "convbench": "mmconv.benchmarks.convbench.benchmark:build",
    "cmteval": "mmconv.benchmarks.cmteval.benchmark:build",
    "fbbench": "mmconv.benchmarks.fbbench.benchmark:build",
    "mtbench101": "mmconv.benchmarks.mtbench101.benchmark:build",
}


class Provider(Protocol):
    """A module of `model_zoo`: how one kind of model is named in keys, and how it is opened.

    The two are apart so that resuming a finished run, rescoring and showing load no model. A module
    may also have `check_key(spec)`, which raises `ConfigError` for a key that is not set, and
    `probe(spec)`, which asks the model's server for the names it serves (None: there is no server
    yet) or raises `BackendError`.
    """

    def fingerprint(self, spec: ModelSpec) -> str:
        """Name everything about the model that can change a reply, without loading it.

        Raises `mmconv.errors.ConfigError` for options that the provider does not know.
        """
        ...

    async def open_backend(self, spec: ModelSpec, images: ImageSource) -> Backend:
        """Load or connect; raises `mmconv.errors.ConfigError` where that cannot work."""
        ...


class BenchmarkBuilder(Protocol):
    """Builds a benchmark from a run's specification, all of its data checked."""

    def __call__(self, spec: RunSpec, images: ImageSink) -> Benchmark[Any]:
        """Raises `mmconv.errors.InputError` for options or data that cannot be used."""
        ...


def find_provider(name: str) -> Provider:
    """The provider's module; raises `ConfigError` listing the known ones."""
    return cast("Provider", _find(name, "provider", PROVIDERS))


def find_benchmark(name: str) -> BenchmarkBuilder:
    """What builds the benchmark; raises `ConfigError` listing the known ones."""
    return cast("BenchmarkBuilder", _find(name, "benchmark", BENCHMARKS))


def build_benchmark(spec: RunSpec, images: ImageSink) -> Benchmark[Any]:
    """The benchmark that a run asks for, its options and data checked."""
    return find_benchmark(spec.benchmark)(spec, images)


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
        seats[name] = build_seat(model, models[same], spec.sampling.get(name))
    return seats


def build_model(spec: ModelSpec, images: ImageSource) -> Model:
    """A model that is loaded at its first call; raises `ConfigError` as its provider does."""
    provider = find_provider(spec.provider)

    async def open_backend() -> Backend:
        return await provider.open_backend(spec, images)

    return Model(provider.fingerprint(spec), open_backend, spec.attempts)


def model_identity(spec: ModelSpec) -> str:
    """What tells models apart: all that a file says but what only a seat adds."""
    return spec.model_dump_json(exclude={"name", "system", "sampling"})


def build_seat(spec: ModelSpec, model: Model, sampling: SamplingSpec | None = None) -> Seat:
    """A seat for a model, with its file's system prompt and sampling; `sampling` goes before it."""
    return Seat(
        model=model,
        system=spec.system,
        sampling={**_set_fields(spec.sampling), **_set_fields(sampling)},
    )


def check_keys(spec: RunSpec, seats: Iterable[str]) -> None:
    """Raise `ConfigError` that names every key that the models on these seats lack."""
    lacking: dict[str, list[str]] = {}
    for seat in seats:
        model = spec.seats[seat]
        try:
            # Few providers have anything to check before a model is opened.
            getattr(find_provider(model.provider), "check_key", _check_nothing)(model)
        except ConfigError as error:
            lacking.setdefault(str(error), []).append(f"{seat} ({model.label})")
    if lacking:
        told = (f"{', '.join(whose)}: {error}" for error, whose in lacking.items())
        raise ConfigError("\n".join(told))


async def is_served(spec: ModelSpec) -> bool:
    """Ask the model's server whether it serves the model; False where it is not on a server.

    Raises `ConfigError` if the server does not answer, or does not have the model.
    """
    probe = getattr(find_provider(spec.provider), "probe", None)
    try:
        served = None if probe is None else await probe(spec)
    except BackendError as error:
        raise ConfigError(f"model {spec.label}: {error}") from error
    if served is not None and spec.model not in served:
        raise ConfigError(
            f"model {spec.label}: its server does not have {spec.model!r}"
            f"{nearest(spec.model, served)}"
        )
    return served is not None


def _check_nothing(_spec: ModelSpec) -> None:
    """What a provider without keys checks."""


def _set_fields(sampling: SamplingSpec | None) -> dict[str, Any]:
    return {} if sampling is None else sampling.model_dump(exclude_unset=True)


def _find(name: str, what: str, known: dict[str, str]) -> object:
    path = known.get(name, name)
    module, _, attribute = path.partition(":")
    if name not in known and not {".", ":"} & {*name}:
        raise ConfigError(f"{what} {name!r} is not known; there are: {', '.join(sorted(known))}")
    try:
        found = import_module(module)
    except ImportError as error:
        raise ConfigError(_why_not(f"{what} {name!r}", module, error)) from error
    if attribute and not hasattr(found, attribute):
        names = [each for each in vars(found) if not each.startswith("_")]
        raise ConfigError(
            f"{what} {name!r}: {module} has no {attribute}{nearest(attribute, names)}"
        )
    return getattr(found, attribute) if attribute else found


def _why_not(named: str, module: str, error: ImportError) -> str:
    """Whether the module itself is not found, or something that it imports."""
    if not isinstance(error, ModuleNotFoundError):
        return f"{named}: importing {module} fails: {error}"
    lost = error.name or module
    if f"{module}.".startswith(f"{lost}."):
        return f"{named}: there is no module {lost!r} on Python's path; is PYTHONPATH right?"
    return f"{named}: {module} imports {lost!r}, which is not installed, or misspelt there"
