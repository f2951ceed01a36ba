"""The images that records name: found in their folder and checked ahead, in threads.

Decoding is the slow part of a survey, a few milliseconds an image. How an image is decoded and
where it is kept is the library's business; here is only what goes to it, and when.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path, PurePath
from typing import TypeAlias, TypeVar
from unicodedata import normalize
from urllib.parse import unquote

from mmconv.core.errors import DataError, ImageError
from mmconv.core.protocols import ImageSink
from mmconv.core.types import Image

Item = TypeVar("Item")

_Checks: TypeAlias = Mapping[str, Future[dict[str, str | None]]]
"""An image's name -> the check that tells what is wrong with it, and with others."""

_THREADS = min(4, os.cpu_count() or 1)
_LOOKAHEAD = 32
_SHOWN = 60  # characters of what is no file's name

_GROUP = 8
"""How many images are checked by one thread at a time, or those of how many items.

Each image for itself would have the threads wait for the interpreter's lock longer than they work.
"""


class ImageFolder:
    """A folder of images: adds them to a library by file name, and says what stands in the way.

    `missing` are the complaints so far about images that are not there. Raises `DataError` for a
    path that is no folder.
    """

    def __init__(self, path: Path, library: ImageSink) -> None:
        if path.is_file():
            advice = "Name the folder that the images are in."
            raise DataError(str(path), ["this is a file, not a folder"], advice)
        if not path.is_dir():
            raise DataError(str(path), ["there is no such folder"], "Check the images folder.")
        self.missing: set[str] = set()
        self._path = path
        self._library = library
        self._by_stem = {_plain(each.stem): each.name for each in sorted(path.iterdir())}

    def add(self, name: str) -> str | None:
        """Add an image; returns what is wrong with it, None if nothing is."""
        inside = PurePath(name)
        if inside.is_absolute() or ".." in inside.parts:
            return f"image {name!r} does not lie inside the images folder"
        path = self._path / inside
        try:
            if path.is_dir():
                return f"image {name} is a folder, not a file"
            if not path.is_file():
                fault = f"image {name} is not in {self._path.name}{self._hint(inside)}"
                self.missing.add(fault)
                return fault
            self._library.add_file(str(path))
        except ImageError as error:
            return str(error)
        except OSError as error:
            # such as the picture itself, in base64, where its file's name belongs
            short = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."
            told = f"image {short} cannot be looked for ({error.strerror})"
            return f"{told}: name a file in the images folder"
        return None

    def open(self, name: str) -> Image:
        """The image of this name; raises `ImageError` that says what is wrong with it."""
        if (problem := self.add(name)) is not None:
            raise ImageError(problem)
        return self._library.add_file(str(self._path / name))

    def _hint(self, missing: PurePath) -> str:
        """What to say of a file that has the name of a missing one but for one thing."""
        other = self._by_stem.get(_plain(missing.stem))
        if other is None or not (self._path / other).is_file():
            return ""
        return f", but {other} is: the {_difference(missing.name, other)} differs"


def _plain(name: str) -> str:
    """A name as it looks, whatever its capitals, its URL encoding and its Unicode form."""
    return normalize("NFC", unquote(name)).lower()


def _difference(missing: str, other: str) -> str:
    """What tells two names apart of which one is meant to be the other."""
    if missing == other:
        return "folder"
    if missing.lower() == other.lower():
        return "case"
    if normalize("NFC", missing) == normalize("NFC", other):
        return "Unicode form"
    return "URL encoding" if _plain(missing) == _plain(other) else "suffix"


def check_ahead(
    items: Iterable[Item], names: Callable[[Item], Iterable[str]], folder: ImageFolder
) -> Iterator[tuple[Item, tuple[str, ...]]]:
    """Each item, in order, with all that is wrong with the images that it `names`.

    At most a few dozen items are looked ahead, so that memory does not grow with their number.
    """
    ahead: deque[tuple[Item, _Checks]] = deque()
    with ThreadPoolExecutor(_THREADS) as pool:
        for group in _grouped(items, names):
            # An image that is being checked for an item just before is not decoded beside it.
            known = {name: check for _, each in ahead for name, check in each.items()}
            new = dict.fromkeys(name for _, wanted in group for name in wanted if name not in known)
            check = pool.submit(_check, folder, tuple(new))
            for item, wanted in group:
                ahead.append((item, {name: known.get(name, check) for name in wanted}))
            while len(ahead) > _LOOKAHEAD:
                yield _checked(*ahead.popleft())
        while ahead:
            yield _checked(*ahead.popleft())


def _grouped(
    items: Iterable[Item], names: Callable[[Item], Iterable[str]]
) -> Iterator[list[tuple[Item, tuple[str, ...]]]]:
    """Items with their images, each once, as many together as one thread checks at a time."""
    group: list[tuple[Item, tuple[str, ...]]] = []
    images = 0
    for item in items:
        wanted = tuple(dict.fromkeys(names(item)))
        group.append((item, wanted))
        images += len(wanted)
        if max(images, len(group)) >= _GROUP:
            yield group
            group, images = [], 0
    if group:
        yield group


def _check(folder: ImageFolder, names: Sequence[str]) -> dict[str, str | None]:
    return {name: folder.add(name) for name in names}


def _checked(item: Item, checks: _Checks) -> tuple[Item, tuple[str, ...]]:
    faults = (check.result()[name] for name, check in checks.items())
    return item, tuple(fault for fault in faults if fault is not None)
