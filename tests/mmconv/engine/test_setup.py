"""What a name or a file says that cannot be built is told before anything is loaded."""

import pytest

from images import ImageStore
from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError
from mmconv.engine.setup import build_model, find_benchmark


def test_a_benchmark_that_is_not_known_is_told() -> None:
    with pytest.raises(ConfigError, match=r"benchmark 'convbnch' is not known; there are: .*conv"):
        find_benchmark("convbnch")


def test_a_module_that_builds_no_benchmark_is_told() -> None:
    with pytest.raises(ConfigError, match=r"name a class as MODULE:CLASS"):
        find_benchmark("tests.example_benchmark")


def test_an_address_is_refused_where_no_server_is_asked() -> None:
    spec = ModelSpec(provider="hf", model="/x", base_url="http://localhost:8000/v1")
    with pytest.raises(ConfigError, match="provider hf asks no server; leave out base_url"):
        build_model(spec, ImageStore())
