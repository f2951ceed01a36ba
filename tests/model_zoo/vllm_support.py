"""The models of tests of the provider `vllm`."""

from pathlib import Path
from typing import Any

from mmconv.core.config import ModelSpec


def model(path: Path | str, **options: Any) -> ModelSpec:
    return ModelSpec(provider="vllm", model=str(path), options=options)
