"""Atomic writes: a file gets its name only once it is complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from mmconv.core.errors import ConfigError


@contextmanager
def atomic_write(path: Path, *, sync: bool = False) -> Iterator[Path]:
    """A temporary file to write, which replaces `path` at the end, or is removed after an error.

    Its name is unique, so several processes can write one file. With `sync` it is on disk before it
    replaces `path`, so that a power cut cannot leave a part of a file. The target of a link is
    replaced. Raises `ConfigError` if `path` exists and is not a file: replacing a device would
    damage the machine.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path} is not a file, and would be replaced by one: name a file")
    part = path.with_name(f"{path.name}.{token_hex(4)}.part")
    try:
        yield part
        if sync:
            with part.open("rb+") as file:
                os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_file(path: Path, content: bytes | str) -> None:
    """Write a whole file, or nothing after an error, and the folders that it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)
