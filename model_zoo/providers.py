"""The providers by their names, each as one record of all that a provider may have.

A provider is imported when it is asked for. One of one's own is named by its module's path,
`package.module`, without being listed here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from inspect import iscoroutinefunction
from typing import Any

from pydantic import BaseModel

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, OwnCodeError
from mmconv.core.imports import find_named
from mmconv.core.protocols import Backend, ImageSource, Renderer
from mmconv.core.types import Message
from mmconv.core.user_code import told_provider

PROVIDERS = {
    "damaged": "model_zoo.simulated.damaged",
    "fake": "model_zoo.simulated.fake",
    "hf": "model_zoo.hf",
    "openai": "model_zoo.openai_api",
    "pocket": "model_zoo.pocket",
    "reference": "model_zoo.simulated.reference",
    "scenes": "model_zoo.simulated.scenes",
    "simulated": "model_zoo.simulated.planted",
    "vllm": "model_zoo.vllm_server",
}

_AWAITED = ("open_backend", "probe")
"""The functions of a provider that are awaited."""

_SERVED = ("openai", "vllm")
"""Those that can ask a server at a `base_url`; so can `damaged` where it damages one of them."""


def _checks_nothing(_given: object) -> None:
    """What a provider checks that cannot tell."""


def _has_its_key(spec: ModelSpec) -> None:
    """Raise `ConfigError` where the key that its file names is not set."""
    _ = spec.key


def _tells_nothing(_spec: ModelSpec) -> Mapping[str, str]:
    return {}


def _guides_none(_spec: ModelSpec) -> bool:
    return False


def _renders_none(_spec: ModelSpec, _images: ImageSource) -> Renderer | None:
    return None


async def _serves_none(_spec: ModelSpec) -> tuple[str, ...] | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFunctions:
    """What `Provider` says that a provider has, with what stands in for the rest.

    `options` are its pydantic models whose names end in `Options`.
    """

    fingerprint: Callable[[ModelSpec], str]
    open_backend: Callable[[ModelSpec, ImageSource], Awaitable[Backend]]
    check_key: Callable[[ModelSpec], None] = _has_its_key
    check_sight: Callable[[ModelSpec], None] = _checks_nothing
    check_prompt: Callable[[Sequence[Message]], None] = _checks_nothing
    check_ready: Callable[[ModelSpec], None] = _checks_nothing
    facts: Callable[[ModelSpec], Mapping[str, str]] = _tells_nothing
    guides_output: Callable[[ModelSpec], bool] = _guides_none
    open_renderer: Callable[[ModelSpec, ImageSource], Renderer | None] = _renders_none
    probe: Callable[[ModelSpec], Awaitable[tuple[str, ...] | None]] = _serves_none
    options: tuple[type[BaseModel], ...] = ()


def find_provider(name: str) -> ProviderFunctions:
    """The provider of this name; raises `ConfigError` listing the known ones.

    One of one's own raises `OwnCodeError` for what its functions and its backend raise.
    """
    found: Any = find_named(name, "provider", PROVIDERS)
    if not (hasattr(found, "fingerprint") and hasattr(found, "open_backend")):
        raise ConfigError(f"provider {name!r}: that module has no fingerprint and open_backend")
    names = [field.name for field in fields(ProviderFunctions) if field.name != "options"]
    module = found
    if name not in PROVIDERS:
        for each in set(names).difference(_AWAITED):
            if iscoroutinefunction(getattr(found, each, None)):
                raise OwnCodeError(f"{name}.{each} is `async def`, and never awaited: write `def`")
        module = told_provider(name, found)
    functions = {each: getattr(module, each) for each in names if hasattr(module, each)}
    return ProviderFunctions(**functions, options=_option_kinds(vars(module)))


def provider_of(spec: ModelSpec) -> ProviderFunctions:
    """The provider of a model; raises `ConfigError` as well for a `base_url` that it cannot ask."""
    asks = spec.provider not in PROVIDERS or spec.provider in (*_SERVED, "damaged")
    if spec.base_url is not None and not asks:
        raise ConfigError(
            f"model {spec.label}: provider {spec.provider} asks no server; leave out base_url, or "
            f"name one of {', '.join(_SERVED)}"
        )
    return find_provider(spec.provider)


def _option_kinds(names: Mapping[str, Any]) -> tuple[type[BaseModel], ...]:
    return tuple(
        kind
        for name, kind in names.items()
        if name.endswith("Options") and isinstance(kind, type) and issubclass(kind, BaseModel)
    )
