"""A file that appears under its name only when it is whole, whoever else writes it meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from mmconv.core.errors import ConfigError


@contextmanager
def whole(path: Path, *, sync: bool = False) -> Iterator[Path]:
    """A file to write beside `path`: it takes the name of `path` at the end, or is removed.

    Each has a name of its own, so that two writers of one file do not spoil each other's. With
    `sync` it is on disk before it takes the name: not even a power cut leaves less than a whole
    file. A link stays, and what it leads to is written. Raises `ConfigError` for what is there and
    is no file: a device would be replaced for the whole machine.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path} is no file, and would be replaced by one: name a file")
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
