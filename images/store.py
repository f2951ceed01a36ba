"""The image store: every image of a run by the SHA-256 of its bytes, and the path of these bytes.

It keeps no image in memory: an image that is read again is hashed again. Local files stay where
they are; bytes without a file are kept in a folder. Facts outlive the process if the caller gives a
mapping that does.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from pathlib import Path
from shutil import rmtree
from stat import S_ISREG
from tempfile import mkdtemp
from threading import Lock
from typing import TypeAlias
from weakref import finalize

from images.decode import Facts, Limits, bound, check, inspect
from mmconv.core.atomic_writes import atomic_write
from mmconv.core.errors import ImageError
from mmconv.core.keys import hash_bytes
from mmconv.core.types import Image

_SHA256 = re.compile(r"[0-9a-f]{64}")

_State: TypeAlias = tuple[int, int]
"""A file's modification time in nanoseconds and its size in bytes."""


class ImageStore:
    """An `ImageSource` and `ImageSink` that may be used from several threads.

    `folder` takes the images given as bytes, by default a temporary one. `facts` holds known
    properties by hash: such an image is hashed and checked against `limits`, but not decoded again.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        limits: Limits | None = None,
        facts: MutableMapping[str, Facts] | None = None,
    ) -> None:
        self._folder = folder
        self._is_temporary = folder is None
        self._limits = limits or Limits()
        self._facts: MutableMapping[str, Facts] = {} if facts is None else facts
        self._places: dict[str, Path] = {}
        self._seen: dict[str, tuple[_State, Image]] = {}
        self._lock = Lock()

    def add_file(self, path: str) -> Image:
        """Check a local file and remember where it is; raises `ImageError` naming it.

        A file whose time and size are unchanged since it was added is not read again.
        """
        place = Path(path)
        state = self._state(place)
        seen = self._seen.get(path)
        if seen is not None and seen[0] == state:
            return seen[1]
        bound(path, "bytes", state[1], self._limits.max_bytes)
        facts = self._examine(self._read(place), path)
        image = facts.image
        with self._lock:
            self._places[facts.sha256] = place
            self._seen[path] = state, image
        return image

    def add_bytes(self, data: bytes, where: str = "uploaded image") -> Image:
        """Check an image without a file, and keep it in the store's folder.

        `where` names it in messages. Raises `ImageError`.
        """
        facts = self._examine(data, where)
        place = _path(self._open_folder(), facts.sha256)
        place.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(place, sync=not self._is_temporary) as part:
            part.write_bytes(data)
        with self._lock:
            self._places[facts.sha256] = place
        return facts.image

    def read(self, sha256: str) -> bytes:
        """The original bytes, verified by their hash.

        Raises `ImageError` if they were never added, are gone, or were changed.
        """
        place = self._find(sha256)
        if place is None:
            raise ImageError(f"image {sha256}: not in this image store; add its file first")
        data = self._read(place)
        if hash_bytes(data) != sha256:
            raise ImageError(
                f"{place}: changed since it was added (its SHA-256 was {sha256}); "
                "put the original back, or start a new run with the changed file"
            )
        return data

    def holds(self, sha256: str) -> bool:
        """Whether the image was added, or is in the folder; its file is not read."""
        return self._find(sha256) is not None

    def remove(self, sha256: str) -> None:
        """Remove an image from the store's folder; a local file stays where it is."""
        if self._folder is None or not _SHA256.fullmatch(sha256):
            return
        kept = _path(self._folder, sha256)
        kept.unlink(missing_ok=True)
        with self._lock:
            if self._places.get(sha256) == kept:
                del self._places[sha256]

    def _open_folder(self) -> Path:
        """The folder; a temporary one is removed with the store."""
        with self._lock:
            if self._folder is None:
                self._folder = Path(mkdtemp(prefix="mmconv-images-"))
                finalize(self, rmtree, self._folder, ignore_errors=True)
            return self._folder

    def _examine(self, data: bytes, where: str) -> Facts:
        sha256 = hash_bytes(data)
        with self._lock:
            known = self._facts.get(sha256)
        if known is not None:
            check(known, self._limits, where)
            return known
        facts = inspect(data, self._limits, where, sha256)
        with self._lock:
            self._facts[sha256] = facts
        return facts

    def _find(self, sha256: str) -> Path | None:
        with self._lock:
            place = self._places.get(sha256)
        if place is not None:
            return place
        # An earlier process may have put it into the folder.
        if self._folder is not None and _SHA256.fullmatch(sha256):
            kept = _path(self._folder, sha256)
            if kept.is_file():
                return kept
        return None

    def _state(self, place: Path) -> _State:
        try:
            status = place.stat()
        except OSError as error:
            raise _unreadable(place, error) from error
        if not S_ISREG(status.st_mode):
            raise ImageError(f"{place}: not a file; give the path of an image file")
        return status.st_mtime_ns, status.st_size

    def _read(self, place: Path) -> bytes:
        try:
            return place.read_bytes()
        except OSError as error:
            raise _unreadable(place, error) from error


def _path(folder: Path, sha256: str) -> Path:
    return folder / sha256[:2] / sha256


def _unreadable(place: Path, error: OSError) -> ImageError:
    return ImageError(f"{place}: cannot be read ({error.strerror or error}); check the path")
