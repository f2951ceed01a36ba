"""What every command uses and `mmconv --help` can afford: paths, lists, safe text, file errors."""

from __future__ import annotations

import errno
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from mmconv.core.errors import ConfigError

Command = TypeVar("Command", bound=Callable[..., Any])

FILE = click.Path(path_type=Path)

_BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""The characters that change the direction of others."""

_CONTROLS = {code for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"}
_ESCAPES = {code: rf"\x{code:02x}" for code in _CONTROLS}
_ESCAPES |= {ord(sign): rf"\u{ord(sign):04x}" for sign in _BIDI}

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


def visible(text: str) -> str:
    r"""The text with control characters as `\x1b` and the like, except tabs and line ends.

    Models and data must not clear the screen, set its title or hide what follows.
    """
    return text.translate(_ESCAPES)


def comma_list(value: str, option: str) -> list[str]:
    """The names between commas; raises `ConfigError` that names the option if it is empty."""
    parts = [part.strip() for part in value.split(",") if part.strip()]
    if not parts:
        raise ConfigError(f"{option} is empty: give at least one name, or leave the option out")
    return parts


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Raise `ConfigError` with the place in place of an `OSError` of files in this folder."""
    place = folder.absolute()
    try:
        yield
    except OSError as error:
        message = f"cannot write into {folder}: {error.strerror}"
        if error.errno in _DISK_FULL:  # then the system does not name the file
            message += "; earlier replies are cached: make room, and run the same command again"
        elif not error.filename or not Path(error.filename).absolute().is_relative_to(place):
            raise
        raise ConfigError(message) from error


@contextmanager
def writing_option(option: str, path: Path) -> Iterator[None]:
    """Raise `ConfigError` that names the option in place of an `OSError`."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{option} {path}: {error.strerror or error}") from error


def describe_file_error(error: OSError) -> str | None:
    """The message for an error that the user can fix; None for all others, which are bugs."""
    if error.errno == errno.EMFILE:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return (
            f"too many open files (limit {limit}): raise the limit with `ulimit -n`, or lower "
            "max_concurrency of the models"
        )
    if error.filename is None:
        return error.strerror if error.errno in _DISK_FULL else None
    return f"{error.filename}: {error.strerror}"
