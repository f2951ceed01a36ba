"""What providers share: how options are declared and read."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict

from mmconv.core.config import ModelSpec
from mmconv.core.documents import validate


class Fields(BaseModel):
    """The base of all options; a field's docstring describes it in `mmconv models --fields`."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @classmethod
    def of(cls, spec: ModelSpec) -> Self:
        """The options of a model; a `ConfigError` lists every one that is wrong."""
        return validate(cls, spec.options, f"model {spec.label}: options")
