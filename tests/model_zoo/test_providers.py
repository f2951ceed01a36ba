"""Providers are found by their names; one that has little is asked as one that has all."""

import sys
from types import ModuleType

import pytest

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError
from model_zoo.providers import find_provider, provider_of
from tests.model_zoo.conftest import NoImages


def test_what_is_no_provider_is_told() -> None:
    with pytest.raises(ConfigError, match=r"provider 'hff' is not known; there are: .*hf"):
        find_provider("hff")
    with pytest.raises(ConfigError, match=r"'os\.path': that module has no fingerprint"):
        find_provider("os.path")


def provide(monkeypatch: pytest.MonkeyPatch, **functions: object) -> None:
    """Have a provider `tests.bare` of these functions."""
    module = ModuleType("tests.bare")
    vars(module).update(functions)
    monkeypatch.setitem(sys.modules, "tests.bare", module)


async def test_what_a_provider_has_not_is_answered_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def open_backend(spec: ModelSpec, images: object) -> None: ...

    provide(monkeypatch, fingerprint=lambda spec: "bare", open_backend=open_backend)
    spec = ModelSpec(provider="tests.bare", model="m", base_url="http://localhost:8000/v1")
    bare = provider_of(spec)
    assert bare.fingerprint(spec) == "bare"
    bare.check_key(spec)
    bare.check_sight(spec)
    bare.check_ready(spec)
    bare.check_prompt(())
    assert bare.metadata(spec) == {}
    assert not bare.guides_output(spec)
    assert bare.open_renderer(spec, NoImages()) is None
    assert await bare.probe(spec) is None
    assert bare.options == ()
    keyed = spec.model_copy(update={"api_key_env": "BARE_KEY"})
    with pytest.raises(ConfigError, match="environment variable BARE_KEY is not set"):
        bare.check_key(keyed)
    monkeypatch.setenv("BARE_KEY", "sk-1")
    bare.check_key(keyed)


def test_a_provider_may_delegate_its_models(monkeypatch: pytest.MonkeyPatch) -> None:
    echo = ModelSpec(provider="fake", model="echo")
    fake = find_provider("fake")
    provide(monkeypatch, delegate=lambda spec: fake.of_model(echo) if spec.model == "m" else None)
    spec = ModelSpec(provider="tests.bare", model="m")
    assert provider_of(spec).fingerprint(spec) == fake.fingerprint(echo)
    assert not provider_of(spec).guides_output(spec)
    other = ModelSpec(provider="tests.bare", model="n")
    with pytest.raises(ConfigError, match=r"tests\.bare neither runs nor delegates it"):
        provider_of(other).fingerprint(other)
    with pytest.raises(ConfigError, match="provider hf asks no server"):
        provider_of(ModelSpec(provider="pocket", model="scenes", base_url="http://localhost:1/v1"))
