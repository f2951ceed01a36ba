"""What providers share: how options are declared and read.

Providers of checkpoints share the options that name one and let its code run.
"""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict

from mmconv.core.config import ModelSpec
from mmconv.core.documents import validate
from mmconv.core.errors import ConfigError
from model_zoo.checkpoints import is_local


class Fields(BaseModel):
    """The base of all options; a field's docstring describes it in `mmconv models --fields`."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @classmethod
    def of(cls, spec: ModelSpec) -> Self:
        """The options of a model; a `ConfigError` lists every one that is wrong."""
        return validate(cls, spec.options, f"model {spec.label}: options")


class CheckpointFields(Fields):
    """The base of options of a checkpoint that is a folder or a name on the hub."""

    revision: str | None = None
    """A commit of the model's repository on the hub."""
    trust_remote_code: bool = False
    """Runs code that the checkpoint brings; a hub name needs a revision with it."""

    @classmethod
    def of(cls, spec: ModelSpec) -> Self:
        """As for other models; a `ConfigError` too if the latest code on the hub would run."""
        options = super().of(spec)
        if options.trust_remote_code and not options.revision and not is_local(spec.model):
            raise ConfigError(
                f"model {spec.label}: trust_remote_code runs code from the hub; pin it by options."
                "revision (a commit hash of the model's repository), or give a local folder"
            )
        return options
