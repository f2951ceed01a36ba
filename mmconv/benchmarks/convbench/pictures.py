"""The images that ConvBench's rows name: found in their folder and checked ahead, in threads.

Decoding is the slow part of a survey, a few milliseconds an image. How an image is decoded and
where it is kept is the library's business; here is only what goes to it, and when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path, PurePath
from typing import TypeVar

from mmconv.errors import ImageError
from mmconv.protocols import ImageSink

Item = TypeVar("Item")

_THREADS = 4
_LOOKAHEAD = 32


class ImageFolder:
    """A folder of images: adds them to a library by file name, and says what stands in the way.

    `missing` are the complaints so far about images that are not there.
    """

    def __init__(self, path: Path, library: ImageSink) -> None:
        self.missing: set[str] = set()
        self._path = path
        self._library = library
        self._by_stem = {each.stem: each.name for each in sorted(path.iterdir())}

    def add(self, name: str | None) -> str | None:
        """Add an image; returns what is wrong with it, None if nothing is or none is named."""
        if not name:
            return None
        inside = PurePath(name)
        if inside.is_absolute() or ".." in inside.parts:
            return f"image {name!r} does not lie inside the images folder"
        path = self._path / inside
        if path.is_dir():
            return f"image {name} is a folder, not a file"
        if not path.is_file():
            fault = f"image {name} is not in {self._path.name}{self._hint(inside)}"
            self.missing.add(fault)
            return fault
        try:
            self._library.add_file(str(path))
        except ImageError as error:
            return str(error)
        return None

    def _hint(self, missing: PurePath) -> str:
        """What to say of a file that has the name of a missing one up to its suffix."""
        other = self._by_stem.get(missing.stem)
        if other is None or not (self._path / other).is_file():
            return ""
        return f", but {other} is: the suffix differs"


def check_ahead(
    items: Iterable[Item], name: Callable[[Item], str | None], folder: ImageFolder
) -> Iterator[tuple[Item, str | None]]:
    """Each item, in order, with what is wrong with its image.

    At most a few dozen items are looked ahead, so that memory does not grow with their number.
    """
    waiting: deque[tuple[Item, str | None, Future[str | None]]] = deque()
    with ThreadPoolExecutor(_THREADS) as pool:
        for item in items:
            wanted = name(item)
            # An image that is being checked for a row just before is not decoded beside it.
            shared = (check for _, other, check in waiting if other == wanted)
            check = next(shared, None) or pool.submit(folder.add, wanted)
            waiting.append((item, wanted, check))
            if len(waiting) > _LOOKAHEAD:
                first, _, done = waiting.popleft()
                yield first, done.result()
        for first, _, done in waiting:
            yield first, done.result()
