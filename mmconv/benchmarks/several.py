"""Options that hold several values, written as a list, or as on a command line: `standard,hard`."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import BeforeValidator

Value = TypeVar("Value")


def _listed(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(","))
    return (value,) if isinstance(value, int) else value


Several: TypeAlias = Annotated[tuple[Value, ...], BeforeValidator(_listed)]
"""A tuple of values; a text is split at its commas, and one value may stand alone."""
