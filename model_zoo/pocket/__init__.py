"""Provider `pocket`: the small LVLM that is shipped with mmconv, for demonstrations and tests.

It is a checkpoint like any other, read from the package's files by the provider `hf`, whose options
it takes. It knows drawn shapes (`mmconv demo`) and nothing else; see README.md here.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError
from model_zoo.hf.options import HfOptions
from model_zoo.providers import ProviderFunctions, provider_of

Options = HfOptions
"""The same as those of the provider `hf`."""

MODEL = "scenes"

WEIGHTS = Path(str(resources.files("model_zoo"))) / "pocket" / "weights"


def delegate(spec: ModelSpec) -> ProviderFunctions:
    """The provider `hf`, which runs the shipped checkpoint."""
    if spec.model != MODEL:
        raise ConfigError(f"no model pocket/{spec.model}; there is pocket/{MODEL}")
    changes = {"provider": "hf", "model": str(WEIGHTS), "name": spec.label}
    checkpoint = spec.model_copy(update=changes)
    return provider_of(checkpoint).of_model(checkpoint)
