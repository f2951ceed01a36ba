"""Values that options of several commands take: paths, and lists with commas."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from mmconv.core.errors import ConfigError

Command = TypeVar("Command", bound=Callable[..., Any])
"""What options are added to: the function of a command."""

FILE = click.Path(path_type=Path)


def require_utf8(given: str) -> None:
    """Raise `ConfigError` for a path whose bytes are not UTF-8: no JSON, and no run, holds it."""
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"{given!r} holds bytes that are not UTF-8: rename the file or folder; where the name "
            "is UTF-8, set PYTHONUTF8=1"
        ) from error


def comma_list(value: str, option: str) -> list[str]:
    """The names between commas; raises `ConfigError` that names the option where there are none."""
    parts = [part.strip() for part in value.split(",") if part.strip()]
    if not parts:
        raise ConfigError(f"{option} is empty: name what is wanted, or leave the option out")
    return parts
