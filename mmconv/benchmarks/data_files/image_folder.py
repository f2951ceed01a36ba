"""The images of records: in a folder, or inside the data file; they are added to an image store.

How an image is decoded and where it is kept is the store's business.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePath

from mmconv.benchmarks.data_files.parquet import EmbeddedImage
from mmconv.core.errors import DataError, ImageError
from mmconv.core.protocols import ImageSink
from mmconv.core.types import Image

_SHOWN = 200  # characters of a name: a record may hold the image itself in base64


class ImageFolder:
    """Adds the images of records to a store; `path` is the folder of those that are files.

    Raises `DataError` if `path` is not a folder.
    """

    def __init__(self, path: Path | None, store: ImageSink) -> None:
        self._path = path
        self._store = store
        self._by_stem: dict[str, str] = {}
        if path is not None:
            if not path.is_dir():
                problem = "this is a file" if path.exists() else "folder does not exist"
                raise DataError(str(path), [problem], "Name the folder of the images.")
            self._by_stem = {each.stem.casefold(): each.name for each in sorted(path.iterdir())}

    def open(self, image: str | EmbeddedImage) -> Image:
        """The image, by its file name if it is a file; raises `ImageError` naming it."""
        if isinstance(image, EmbeddedImage):
            return self._store.add_bytes(image.read(), image.name)
        name = image[:_SHOWN]
        if self._path is None:
            raise ImageError(f"image {name!r} is a file name; give the images folder (--images)")
        inside = PurePath(image)
        if inside.is_absolute() or ".." in inside.parts:
            raise ImageError(f"image {name!r} is not inside the images folder")
        if not os.path.isfile(self._path / inside):  # noqa: PTH113 - False for too long a name
            similar = self._by_stem.get(inside.stem.casefold())
            hint = f"; did you mean {similar}?" if similar else ""
            raise ImageError(f"image {name} is not in {self._path.name}{hint}")
        return self._store.add_file(str(self._path / inside))
