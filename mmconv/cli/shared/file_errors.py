"""What a command says of a file that cannot be read or written, and of a full disk."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mmconv.core.errors import ConfigError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""The errors that a full disk brings."""

_OWN_FOLDERS = [
    Path(__file__).resolve().parents[3] / package
    for package in ("configs", "images", "judges", "mmconv", "model_zoo")
]
"""What an installation consists of."""


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Raise `ConfigError` that says where, in place of an `OSError` of files in this folder."""
    place = folder.absolute()
    try:
        yield
    except OSError as error:
        told = f"cannot write into {folder}: {error.strerror}"
        if error.errno in _NO_ROOM:  # Then the system does not name the file.
            told += "; what was answered before is kept: make room, and give the same command again"
        elif not error.filename or not Path(error.filename).absolute().is_relative_to(place):
            raise
        raise ConfigError(told) from error


def tell_file_error(error: OSError) -> str | None:
    """What to tell of a file or a disk, which is for the user to mend; None for all else, a bug."""
    if error.errno == errno.EMFILE:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return (
            f"too many open files (limit {limit}): raise the limit with `ulimit -n`, or give the "
            "models a smaller max_concurrency"
        )
    if error.filename is None:
        return error.strerror if error.errno in _NO_ROOM else None
    told = f"{error.filename}: {error.strerror}"
    if any(map(Path(str(error.filename)).resolve().is_relative_to, _OWN_FOLDERS)):
        return f"{told}; it lies among mmconv's own: unless you named it, install mmconv again"
    return told
