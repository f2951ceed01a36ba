"""The images of records: in a folder, or inside the data file; they are added to an image store.

How an image is decoded and where it is kept is the store's business.
"""

from __future__ import annotations

from pathlib import Path, PurePath
from threading import Lock
from unicodedata import normalize
from urllib.parse import unquote

from mmconv.benchmarks.data_files.parquet import EmbeddedImage
from mmconv.core.errors import DataError, ImageError
from mmconv.core.protocols import ImageSink
from mmconv.core.types import Image

_SHOWN = 60  # characters of a name that no file can have


class ImageFolder:
    """Adds the images of records to a store; `path` is the folder of those that are files.

    `missing` are the problems so far of images that are not in the folder. Raises `DataError` if
    `path` is not a folder.
    """

    def __init__(self, path: Path | None, store: ImageSink) -> None:
        self.missing: set[str] = set()
        self._path = path
        self._store = store
        self._locks: dict[str, Lock] = {}
        self._by_stem: dict[str, str] = {}
        if path is None:
            return
        if path.is_file():
            advice = "Name the folder that the images are in."
            raise DataError(str(path), ["this is a file, not a folder"], advice)
        if not path.is_dir():
            raise DataError(str(path), ["folder does not exist"], "Check the images folder.")
        self._by_stem = {_plain(each.stem): each.name for each in sorted(path.iterdir())}

    def open(self, image: str | EmbeddedImage) -> Image:
        """The image, by its file name if it is a file; raises `ImageError` naming it.

        Threads that open the same file wait for the first one, so it is decoded once.
        """
        if isinstance(image, EmbeddedImage):
            return self._store.add_bytes(image.read(), image.name)
        if self._path is None:
            raise ImageError(f"image {image!r} is a file name; give the images folder (--images)")
        return self._open_file(self._path, image)

    def _open_file(self, folder: Path, name: str) -> Image:
        inside = PurePath(name)
        if inside.is_absolute() or ".." in inside.parts:
            raise ImageError(f"image {name!r} does not lie inside the images folder")
        path = folder / inside
        try:
            if path.is_dir():
                raise ImageError(f"image {name} is a folder, not a file")
            if not path.is_file():
                problem = f"image {name} is not in {folder.name}{self._hint(folder, inside)}"
                self.missing.add(problem)
                raise ImageError(problem)
            with self._locks.setdefault(name, Lock()):
                return self._store.add_file(str(path))
        except OSError as error:
            # such as the image itself, in base64, in place of its file's name
            short = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."
            raise ImageError(
                f"image {short} cannot be looked for ({error.strerror}): name a file in the "
                "images folder"
            ) from error

    def _hint(self, folder: Path, missing: PurePath) -> str:
        """The hint at a file with nearly the name of the missing one."""
        other = self._by_stem.get(_plain(missing.stem))
        if other is None or not (folder / other).is_file():
            return ""
        return f", but {other} is: the {_difference(missing.name, other)} differs"


def _plain(name: str) -> str:
    """A name without differences of case, URL encoding and Unicode form."""
    return normalize("NFC", unquote(name)).lower()


def _difference(missing: str, other: str) -> str:
    """In what two names differ of which one is meant to be the other."""
    if missing == other:
        return "folder"
    if missing.lower() == other.lower():
        return "case"
    if normalize("NFC", missing) == normalize("NFC", other):
        return "Unicode form"
    return "URL encoding" if _plain(missing) == _plain(other) else "suffix"
