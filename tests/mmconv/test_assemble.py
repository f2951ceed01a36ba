"""Names that stand for no provider or benchmark are told, whatever signs they hold."""

from __future__ import annotations

import pytest

from images import Library
from mmconv.assemble import build_model, find_benchmark, find_provider
from mmconv.config import ModelSpec
from mmconv.errors import ConfigError


@pytest.mark.parametrize("name", ["..", ".", "..foo", "a..b", "my-own.thing", "", ":build"])
def test_what_is_no_name_of_a_module_is_not_known(name: str) -> None:
    with pytest.raises(ConfigError, match=r"provider '.*' is not known; there are: .*hf"):
        find_provider(name)
    with pytest.raises(ConfigError, match=r"benchmark '.*' is not known; there are: .*convbench"):
        find_benchmark(name)


def test_a_module_that_is_no_provider_is_told() -> None:
    with pytest.raises(ConfigError, match=r"'os\.path': that module has no fingerprint"):
        find_provider("os.path")


def test_a_module_that_builds_no_benchmark_is_told() -> None:
    with pytest.raises(ConfigError, match=r"name its class, as in MODULE:CLASS"):
        find_benchmark("tests.example_benchmark")


def test_an_address_is_refused_where_no_server_is_asked() -> None:
    spec = ModelSpec(provider="hf", model="/x", base_url="http://localhost:8000/v1")
    with pytest.raises(ConfigError, match="provider hf asks no server; leave out base_url"):
        build_model(spec, Library())
