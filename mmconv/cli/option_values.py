"""Values that options of several commands take: paths, and lists with commas."""

from __future__ import annotations

from pathlib import Path

import click

from mmconv.errors import ConfigError

FILE = click.Path(path_type=Path)


def comma_list(value: str, option: str) -> list[str]:
    """The names between commas; raises `ConfigError` that names the option where there are none."""
    parts = [part.strip() for part in value.split(",") if part.strip()]
    if not parts:
        raise ConfigError(f"{option} is empty: name what is wanted, or leave the option out")
    return parts
