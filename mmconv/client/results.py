"""JSON that the server answers, read as values; a field that a newer server adds is passed over.

What they are is told in `mmconv.answers`, but for a model's answer, which comes in OpenAI's shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """A model's answer; tokens are None where its backend does not count."""

    text: str
    reasoning: str | None
    finish: str
    input_tokens: int | None
    output_tokens: int | None

    @classmethod
    def of(cls, completion: Mapping[str, Any]) -> ChatReply:
        """Read a chat completion."""
        [choice] = completion["choices"]
        usage = completion["usage"] or {}
        return cls(
            text=choice["message"]["content"],
            reasoning=choice["message"].get("reasoning_content"),
            finish=choice["finish_reason"],
            input_tokens=usage.get("prompt_tokens"),
            output_tokens=usage.get("completion_tokens"),
        )


def read(kind: type[Kind], value: Any) -> Kind:
    """The JSON value as one of these; raises `pydantic.ValidationError` for anything else."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    made: Kind = _ADAPTERS[kind].validate_python(value)
    return made


_ADAPTERS: dict[type, TypeAdapter[Any]] = {}
