"""What the protocols say is what the shipped modules are."""

import inspect
import re
from dataclasses import fields

from mmconv.core.config import ModelSpec
from mmconv.core.protocols import Provider
from model_zoo import anthropic_api, google_api, hf, openai_api, ray, replay, vllm
from model_zoo.providers import PROVIDERS, ProviderFunctions, find_provider
from model_zoo.simulated import fake, planted, reference

SHIPPED: tuple[Provider[ModelSpec], ...] = (
    anthropic_api,
    planted,
    fake,
    google_api,
    hf,
    openai_api,
    ray,
    reference,
    replay,
    planted,
    vllm,
)
"""Typed as providers: mypy holds each to the protocol."""


def test_all_shipped_providers_are_typed() -> None:
    # every model of pocket is delegated
    found = [find_provider(name) for name in sorted(PROVIDERS) if name != "pocket"]
    assert [module.fingerprint for module in SHIPPED] == [each.fingerprint for each in found]


def test_what_a_provider_may_have_besides_is_had_by_one() -> None:
    named = re.findall(r"^- `(?:await )?(\w+)\(", inspect.getdoc(Provider) or "", re.MULTILINE)
    known = {field.name for field in fields(ProviderFunctions)}
    assert set(named) == known - {"fingerprint", "open_backend", "options"}
    for name in named:
        assert any(inspect.isroutine(getattr(module, name, None)) for module in SHIPPED), name
