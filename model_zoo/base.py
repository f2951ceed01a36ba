"""What providers share: how options are declared and read.

Providers of checkpoints share the options that name one and let its code run, providers of servers
what they make of an empty reply.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from mmconv.core.config import ModelSpec, Strict
from mmconv.core.documents import validate
from mmconv.core.errors import ConfigError
from mmconv.core.types import Reply
from model_zoo.checkpoints import is_local


class Fields(Strict):
    """The base of all options; a field's docstring describes it in `mmconv models --fields`."""

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


def is_empty(reply: Reply) -> bool:
    """Whether a reply says nothing at all: hosts that are just starting send such."""
    return not (reply.text.strip() or reply.reasoning or reply.finish == "length")


def with_tokens_of(reply: Reply, earlier: Reply) -> Reply:
    """A reply with the tokens of the empty one before it, which are paid too."""
    return replace(
        reply,
        input_tokens=_sum(earlier.input_tokens, reply.input_tokens),
        output_tokens=_sum(earlier.output_tokens, reply.output_tokens),
        cached_tokens=_sum(earlier.cached_tokens, reply.cached_tokens),
    )


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second
