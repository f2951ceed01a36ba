"""The providers by their names, each as one record of all that a provider may have.

A provider is imported when it is first used. A custom one is named by its module's path,
`package.module`, without being listed here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NoReturn

from pydantic import BaseModel

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError
from mmconv.core.imports import find_named
from mmconv.core.protocols import Backend, BatchApi, ImageSource, Renderer
from mmconv.core.types import Message
from mmconv.core.user_code import check_provider

PROVIDERS = {
    "anthropic": "model_zoo.anthropic_api",
    "damaged": "model_zoo.simulated.planted",
    "fake": "model_zoo.simulated.fake",
    "google": "model_zoo.google_api",
    "hf": "model_zoo.hf",
    "openai": "model_zoo.openai_api",
    "pocket": "model_zoo.pocket",
    "ray": "model_zoo.ray",
    "reference": "model_zoo.simulated.reference",
    "replay": "model_zoo.replay",
    "simulated": "model_zoo.simulated.planted",
    "vllm": "model_zoo.vllm",
}

REPLAY = "replay"
"""The provider whose replies are known before a run."""

_SERVED = ("openai", "vllm", "anthropic", "google")
"""Providers that can connect to a server at a `base_url`."""


def _check_nothing(_argument: object) -> None:
    return None


def _check_key(spec: ModelSpec) -> None:
    """Raise `ConfigError` if the key that its file names is not set."""
    _ = spec.key


async def _probe_nothing(_spec: ModelSpec) -> tuple[str, ...] | None:
    return None


def _run_by_none(spec: ModelSpec, *_: object) -> NoReturn:
    raise ConfigError(f"model {spec.label}: provider {spec.provider} neither runs nor delegates it")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFunctions:
    """What `Provider` describes, with defaults; `options` are its classes named so."""

    fingerprint: Callable[[ModelSpec], str] = _run_by_none
    open_backend: Callable[[ModelSpec, ImageSource], Awaitable[Backend]] = _run_by_none
    delegate: Callable[[ModelSpec], ProviderFunctions | None] = lambda _spec: None
    check_key: Callable[[ModelSpec], None] = _check_key
    check_sight: Callable[[ModelSpec], None] = _check_nothing
    check_prompt: Callable[[Sequence[Message]], None] = _check_nothing
    check_ready: Callable[[ModelSpec], None] = _check_nothing
    metadata: Callable[[ModelSpec], Mapping[str, str]] = lambda _spec: {}
    guides_output: Callable[[ModelSpec], bool] = lambda _spec: False
    extra_fields: Callable[[ModelSpec], Collection[str]] = lambda _spec: ()
    open_renderer: Callable[[ModelSpec, ImageSource], Renderer | None] = lambda _spec, _images: None
    open_batches: Callable[[ModelSpec, ImageSource], Awaitable[BatchApi]] | None = None
    probe: Callable[[ModelSpec], Awaitable[tuple[str, ...] | None]] = _probe_nothing
    options: tuple[type[BaseModel], ...] = ()

    def of_model(self, spec: ModelSpec) -> ProviderFunctions:
        """These functions, which answer for this model whatever model they are called with."""

        def bind(function: Callable[..., Any] | None) -> Any:
            return function and (lambda _spec, *others: function(spec, *others))

        names = {field.name for field in fields(self)} - {"check_prompt", "delegate", "options"}
        return replace(self, **{name: bind(getattr(self, name)) for name in names})


def find_provider(name: str) -> ProviderFunctions:
    """The provider of this name; raises `ConfigError` listing the known ones.

    What a custom one returns is checked (see `check_provider`).
    """
    module: Any = find_named(name, "provider", PROVIDERS)
    names = {field.name for field in fields(ProviderFunctions)} - {"options"}
    functions = {key: getattr(module, key) for key in names if hasattr(module, key)}
    runs_models = {"fingerprint", "open_backend"} <= functions.keys()
    if not runs_models and "delegate" not in functions:
        raise ConfigError(f"provider {name!r}: that module has no fingerprint and open_backend")
    if runs_models and name not in PROVIDERS:
        functions["fingerprint"], functions["open_backend"] = check_provider(name, module)
    options = tuple(
        kind
        for attribute, kind in vars(module).items()
        if attribute.endswith("Options") and isinstance(kind, type) and issubclass(kind, BaseModel)
    )
    return ProviderFunctions(**functions, options=options)


def provider_of(spec: ModelSpec) -> ProviderFunctions:
    """The provider of a model, or that to which it delegates the model.

    Raises `ConfigError` for a `base_url` or `batch` that it cannot use.
    """
    provider = find_provider(spec.provider)
    if (delegate := provider.delegate(spec)) is not None:
        provider = delegate
    elif spec.base_url is not None and spec.provider in PROVIDERS.keys() - _SERVED:
        raise ConfigError(
            f"model {spec.label}: provider {spec.provider} asks no server; leave out base_url, or "
            f"name one of {', '.join(_SERVED)}"
        )
    if spec.batch and provider.open_batches is None:
        raise ConfigError(
            f"model {spec.label}: provider {spec.provider} sends no batches; leave out batch, or "
            "use openai or anthropic"
        )
    if spec.replicas is None:
        return provider
    # replicas answer as the model itself does: only opening them is different
    return replace(provider, open_backend=find_provider("ray").open_backend)
