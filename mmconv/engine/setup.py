"""Builds benchmarks and models from their names and specifications.

Shipped benchmarks are listed in `mmconv.benchmarks.registry`, shipped providers in
`model_zoo.providers`. Others are named by their import path: `package.module` (provider) or
`package.module:attribute` (benchmark).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mmconv.benchmarks.base import Benchmark
from mmconv.benchmarks.options import describe, without_idle_judge
from mmconv.benchmarks.registry import CLASSES, TITLES
from mmconv.core.config import ModelSpec, RunSpec, SamplingSpec
from mmconv.core.documents import nearest, validate
from mmconv.core.errors import BackendError, ConfigError
from mmconv.core.imports import find_named
from mmconv.core.protocols import Backend, ImageSink, ImageSource
from mmconv.core.types import Call, Reply
from mmconv.engine import Model, RoleModel
from mmconv.engine.batches import BatchBackend
from model_zoo.providers import REPLAY, provider_of
from model_zoo.replay import Replies, read_replies

if TYPE_CHECKING:
    # it imports sqlalchemy, which a chat does not need
    from mmconv.store import Store


def validate_run(document: Mapping[str, Any], where: str) -> RunSpec:
    """The run that a document describes; raises `ConfigError` that begins with `where`."""
    spec = validate(RunSpec, document, where)
    if spec.benchmark in TITLES:
        known = describe(spec.benchmark)
        for role in spec.models:
            if not known.has_role(role):
                hint = nearest(role, list(known.roles))
                raise ConfigError(f"{where}: {spec.benchmark} has no role {role!r}{hint}")
    return without_idle_judge(spec)


def find_benchmark(name: str) -> type[Benchmark[Any, Any]]:
    """The class of a benchmark; raises `ConfigError` that lists the known ones."""
    found = find_named(name, "benchmark", CLASSES)
    if not (isinstance(found, type) and issubclass(found, Benchmark)):
        raise ConfigError(
            f"{name} is not a subclass of mmconv.benchmarks.base.Benchmark; "
            "name a class as MODULE:CLASS"
        )
    if missing := getattr(found, "__abstractmethods__", ()):
        raise ConfigError(f"benchmark {name!r} does not define {' and '.join(sorted(missing))}")
    return found


def build_benchmark(spec: RunSpec, images: ImageSink) -> Benchmark[Any, Any]:
    """The benchmark of a run, its options and data checked."""
    benchmark = find_benchmark(spec.benchmark)(spec)
    benchmark.load_data(images)
    if spec.benchmark not in CLASSES:
        benchmark.check_plans()
    return benchmark


def build_models(spec: RunSpec, build: Callable[[ModelSpec], Model]) -> dict[str, RoleModel]:
    """The run's models by role, as `build` makes them; a model is loaded at its first request.

    Roles with equal models share one, so that it is loaded once and limited as one. The run's
    sampling overrides that of the model file.
    """
    models: dict[str, Model] = {}
    roles = {}
    for name, model in spec.models.items():
        identity = model_identity(model)
        if identity not in models:
            models[identity] = build(model)
        roles[name] = build_role_model(model, models[identity], spec.sampling.get(name), spec.seed)
    return roles


def known_replies(
    spec: RunSpec,
    sample: str,
    condition: str,
    calls: Sequence[Call],
    references: Callable[[], Mapping[str, str]],
) -> dict[str, Reply]:
    """The replies, by call id, of models that replay a file or the references of the data."""
    replies: dict[str, Reply] = {}
    for role, model in spec.models.items():
        if model.is_reference:
            known = Replies(
                {(sample, None, name): Reply(text=text) for name, text in references().items()}
            )
        elif model.provider == REPLAY:
            known = read_replies(model)
        else:
            continue
        replies |= known.of(sample, condition, [call for call in calls if call.model == role])
    return replies


def build_model(spec: ModelSpec, images: ImageSource, store: Store | None = None) -> Model:
    """A model that is loaded at its first request; raises `ConfigError` as its provider does."""
    fingerprint = provider_of(spec).fingerprint(spec)
    return Model(fingerprint, partial(open_backend, spec, images, store), spec.attempts)


async def open_backend(spec: ModelSpec, images: ImageSource, store: Store | None) -> Backend:
    """Load or connect a model; one that sends batches needs a store, or it sends every call."""
    provider = provider_of(spec)
    if not spec.batch or provider.open_batches is None or store is None:
        return await provider.open_backend(spec, images)
    api = await provider.open_batches(spec, images)
    return BatchBackend(api, provider.fingerprint(spec), store.batched_requests)


def about_models(spec: RunSpec) -> dict[str, dict[str, str]]:
    """Metadata of a run's models by role, such as the chat template; no model is loaded."""
    metadata = {role: provider_of(model).metadata(model) for role, model in spec.models.items()}
    return {
        role: {str(name): str(value) for name, value in fields.items()}
        for role, fields in metadata.items()
        if fields
    }


def model_identity(spec: ModelSpec) -> str:
    """What makes models the same: all fields of their files except price and a role's settings."""
    return spec.model_dump_json(exclude={"name", "system", "sampling", "price"})


def build_role_model(
    spec: ModelSpec, model: Model, sampling: SamplingSpec | None = None, seed: int = 0
) -> RoleModel:
    """A model in a role; `sampling` overrides its file's, `seed` is the run's."""
    return RoleModel(
        model=model,
        label=spec.label,
        system=spec.system,
        sampling={**_overrides_of(spec.sampling), **_overrides_of(sampling)},
        seed=seed,
    )


def check_keys(spec: RunSpec, roles: Iterable[str]) -> None:
    """Raise `ConfigError` that names every missing API key of the models in these roles."""
    _check_models(spec, roles, check_key)


def check_calls(spec: RunSpec, calls: Iterable[Call]) -> None:
    """Raise `ConfigError` for models that are known not to accept these calls.

    That is a model without vision that would get images, or a judge that accepts only certain
    prompts. Of many models this is not known before the first request; those pass.
    """
    sighted: dict[str, None] = {}
    for call in calls:
        model = spec.models[call.model]
        try:
            provider_of(model).check_prompt(call.messages)
        except ConfigError as error:
            raise ConfigError(f"{call.model} ({model.label}): {error}") from error
        if any(message.images for message in call.messages):
            sighted[call.model] = None
    try:
        _check_models(spec, sighted, check_sight)
    except ConfigError as error:
        raise ConfigError(
            f"{error}\n{spec.benchmark} shows its images to {', '.join(sighted)}; "
            "`mmconv models --images` lists models that accept them"
        ) from error


def _check_models(spec: RunSpec, roles: Iterable[str], check: Callable[[ModelSpec], None]) -> None:
    """Raise one `ConfigError` of all that `check` raises, each with the roles it concerns."""
    roles_by_error: dict[str, list[str]] = {}
    for role in roles:
        model = spec.models[role]
        try:
            check(model)
        except ConfigError as error:
            roles_by_error.setdefault(str(error), []).append(f"{role} ({model.label})")
    if roles_by_error:
        lines = (f"{', '.join(roles)}: {error}" for error, roles in roles_by_error.items())
        raise ConfigError("\n".join(lines))


def check_ready(spec: RunSpec) -> None:
    """Raise `ConfigError` for models that cannot be opened here, as far as known unloaded."""
    _check_models(spec, spec.models, lambda model: provider_of(model).check_ready(model))


def check_key(spec: ModelSpec) -> None:
    """Raise `ConfigError` if the model's API key is not set."""
    provider_of(spec).check_key(spec)


def check_sight(spec: ModelSpec) -> None:
    """Raise `ConfigError` if the model is known, unloaded, not to accept images."""
    if spec.about.images is False:
        raise ConfigError("its model file says that it takes no images (about.images)")
    provider_of(spec).check_sight(spec)


async def is_served(spec: ModelSpec) -> bool:
    """Whether a server serves the model; raises `ConfigError` if its server does not."""
    try:
        served = await provider_of(spec).probe(spec)
    except BackendError as error:
        raise ConfigError(f"model {spec.label}: {error}") from error
    # Gemini lists models/NAME for a model that is requested by NAME
    names = [name.removeprefix("models/") for name in served or ()]
    if served is not None and spec.model.removeprefix("models/") not in names:
        raise ConfigError(
            f"model {spec.label}: its server does not have {spec.model!r}"
            f"{nearest(spec.model, names)}"
        )
    return served is not None


def _overrides_of(sampling: SamplingSpec | None) -> dict[str, Any]:
    return {} if sampling is None else sampling.model_dump(exclude_unset=True)
