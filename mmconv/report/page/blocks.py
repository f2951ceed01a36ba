"""The samples' texts and pictures in blocks: inside the page while there is room, else beside it.

A block is a list of samples as gzipped JSON in base64, and its pictures as WebP in base64. The page
unpacks a block when one of its samples is looked at or searched. What exceeds the page's budget
goes to files of JavaScript in a folder beside it, which a page may load from a disk too. So do the
larger pictures of each block, which are apart: they are needed only where one is enlarged.
"""

from __future__ import annotations

import base64
import gzip
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import orjson

from images.thumbnails import renditions
from mmconv.core.errors import ImageError
from mmconv.core.protocols import ImageSource
from mmconv.report.page.dialogues import Record

BLOCK = 16
"""Samples in a block."""

LARGER = 1_000_000
"""Added to a block's number: the file of its larger pictures."""

LARGER_BYTES = 2_000_000
"""What larger pictures may take inside the page, of what its budget leaves them."""

_THREADS = 2
_LOOKAHEAD = 4


class _Renditions(NamedTuple):
    """A picture's short name, its thumbnail and the larger one; empty texts if it is lost."""

    name: str
    small: str = ""
    larger: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Some samples: texts as base64 of gzip of JSON, pictures as JSON of name -> base64 of WebP."""

    texts: str
    pictures: str

    @property
    def size(self) -> int:
        """Bytes in the page."""
        return len(self.texts) + len(self.pictures)


@dataclass(slots=True)
class Blocks:
    """Takes samples in and makes blocks of them in threads; a context manager.

    `inside` holds the blocks of the page, up to `budget` bytes; the rest is written into `folder`,
    and `outside` counts it. `size` counts the samples. `larger` holds larger pictures by the number
    of their block, as JSON of name -> base64 of JPEG or PNG; of so many blocks `larger_outside`
    they lie in files. `lost` names the pictures that could not be had, with the reason.
    """

    images: ImageSource | None
    folder: Path
    budget: int
    inside: list[Block] = field(default_factory=list)
    outside: int = 0
    size: int = 0
    larger: dict[int, str] = field(default_factory=dict)
    larger_outside: int = 0
    lost: dict[str, str] = field(default_factory=dict)
    _written: set[Path] = field(default_factory=set)
    _open: list[Record] = field(default_factory=list)
    _wanted: list[str] = field(default_factory=list)
    _waiting: deque[tuple[Future[str], list[Future[_Renditions]]]] = field(default_factory=deque)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(_THREADS))

    def __enter__(self) -> Self:
        return self

    def add(self, sample: Record, pictures: Iterable[str]) -> None:
        """Take in a sample and the hashes of its pictures."""
        self._open.append(sample)
        self.size += 1
        self._wanted += [each for each in pictures if each not in self._wanted]
        if len(self._open) == BLOCK:
            self._close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._close()
            while self._waiting:
                self._settle()
            self._remove_old()
        self._pool.shutdown(cancel_futures=True)

    def _close(self) -> None:
        if not self._open:
            return
        texts = self._pool.submit(packed, self._open)
        pictures = [self._pool.submit(self._renditions, sha256) for sha256 in self._wanted]
        self._waiting.append((texts, pictures))
        self._open, self._wanted = [], []
        if len(self._waiting) > _LOOKAHEAD:
            self._settle()

    def _settle(self) -> None:
        """Put the oldest block where there is room; blocks keep their order."""
        texts, pictures = self._waiting.popleft()
        had = [made for each in pictures if (made := each.result()).small]
        small = orjson.dumps({each.name: each.small for each in had}).decode()
        block = Block(texts=texts.result(), pictures=small)
        number = len(self.inside) + self.outside
        if not self.outside and block.size <= self.budget:
            self.budget -= block.size
            self.inside.append(block)
        else:
            self._write(number, block)
            self.outside += 1
        if had:
            larger = {each.name: each.larger for each in had}
            self.larger[number] = orjson.dumps(larger).decode()
        # what all samples need goes first, so the larger ones have the room that is left
        while sum(map(len, self.larger.values())) > min(LARGER_BYTES, self.budget):
            last, packed_pictures = self.larger.popitem()
            self._write(LARGER + last, Block(texts="", pictures=packed_pictures))
            self.larger_outside += 1

    def _write(self, number: int, block: Block) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        line = f'mmconvBlock({number}, "{block.texts}", {block.pictures});\n'
        path = self.folder / f"{number}.js"
        path.write_text(line, encoding="ascii")
        self._written.add(path)

    def _remove_old(self) -> None:
        """Remove what an earlier page left in the folder, and the folder if nothing is in it."""
        for path in self.folder.glob("*.js"):
            if path.stem.isdigit() and path not in self._written:
                path.unlink()
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _renditions(self, sha256: str) -> _Renditions:
        name = sha256[:16]
        if self.images is None:
            self.lost[name] = "the page was made without the images"
            return _Renditions(name)
        try:
            made = renditions(self.images.read(sha256), f"image {sha256[:12]}")
        except ImageError as error:
            self.lost[name] = str(error)
            return _Renditions(name)
        return _Renditions(name, *(base64.b64encode(data).decode() for data in made))


def packed(document: object) -> str:
    """JSON, gzipped, in base64: what the page's script unpacks."""
    return base64.b64encode(gzip.compress(orjson.dumps(document), 6, mtime=0)).decode()
