"""What the protocols say is what the shipped modules are."""

from __future__ import annotations

import inspect
import re

from mmconv.assemble import PROVIDERS, find_provider
from mmconv.config import ModelSpec
from mmconv.protocols import Provider, Renders
from model_zoo import (
    damaged,
    fake,
    hf,
    openai_api,
    pocket,
    reference,
    scene_judge,
    simulated,
    vllm_server,
)

SHIPPED: tuple[Provider[ModelSpec], ...] = (
    damaged,
    fake,
    hf,
    openai_api,
    pocket,
    reference,
    scene_judge,
    simulated,
    vllm_server,
)
"""Typed as providers: mypy holds each to the protocol."""


RENDERING: tuple[Renders[ModelSpec], ...] = (damaged, hf, vllm_server)
"""Typed as providers that write raw prompts."""


def test_all_shipped_providers_are_typed() -> None:
    assert list(SHIPPED) == [find_provider(name) for name in sorted(PROVIDERS)]


def test_those_that_render_are_typed_so() -> None:
    assert list(RENDERING) == [module for module in SHIPPED if hasattr(module, "open_renderer")]


def test_what_a_provider_may_have_besides_is_had_by_one() -> None:
    told = re.findall(r"^- `(?:await )?(\w+)\(", inspect.getdoc(Provider) or "", re.MULTILINE)
    assert {"check_key", "facts", "probe"} <= set(told)
    for name in told:
        assert any(inspect.isfunction(getattr(module, name, None)) for module in SHIPPED), name
