"""Provider `pocket`: the small LVLM that is shipped with mmconv, for demonstrations and tests.

It is a checkpoint like any other, read from the package's files by the provider `hf`, whose options
it takes. It knows drawn shapes (`mmconv demo`) and nothing else; see README.md here.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError
from mmconv.core.protocols import ImageSource
from model_zoo import hf

if TYPE_CHECKING:
    from model_zoo.hf.backend import HfBackend

Options = hf.HfOptions
"""The same as those of the provider `hf`."""

MODEL = "scenes"

WEIGHTS = Path(str(resources.files("model_zoo"))) / "pocket" / "weights"


def fingerprint(spec: ModelSpec) -> str:
    """As the provider `hf` names the shipped checkpoint."""
    return hf.fingerprint(_checkpoint(spec))


def metadata(spec: ModelSpec) -> dict[str, str]:
    """As the provider `hf` gives it."""
    return hf.metadata(_checkpoint(spec))


extra_fields = hf.extra_fields


async def open_backend(spec: ModelSpec, images: ImageSource) -> HfBackend:
    """Load the shipped checkpoint; raises as the provider `hf` does."""
    return await hf.open_backend(_checkpoint(spec), images)


def _checkpoint(spec: ModelSpec) -> ModelSpec:
    if spec.model != MODEL:
        raise ConfigError(f"no model pocket/{spec.model}; there is pocket/{MODEL}")
    changes = {"provider": "hf", "model": str(WEIGHTS), "name": spec.label}
    return spec.model_copy(update=changes)
