"""What providers share: how options are declared and read.

Providers of checkpoints share the options that name one and let its code run, providers of servers
what they make of an empty reply.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
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


async def request_twice_if_empty(request: Callable[[], Awaitable[Reply]]) -> Reply:
    """The reply, or a second one if it says nothing at all: hosts that are just starting send such.

    Both are paid, so the second one has the tokens of both.
    """
    first = await request()
    if first.text.strip() or first.reasoning or first.finish == "length":
        return first
    reply = await request()
    return replace(
        reply,
        input_tokens=_sum(first.input_tokens, reply.input_tokens),
        output_tokens=_sum(first.output_tokens, reply.output_tokens),
        cached_tokens=_sum(first.cached_tokens, reply.cached_tokens),
    )


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second
