"""The samples' texts and images in blocks: inside the page while there is room, else in files.

A block is a list of samples as gzipped JSON in base64, and its images as WebP in base64. The page
unpacks a block when one of its samples is shown or searched. Blocks beyond the page's budget are
files of JavaScript in a folder next to it, which a page may load from a disk too. So are the larger
images of each block, which are needed only to enlarge one.
"""

from __future__ import annotations

import base64
import gzip
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import orjson

from images.thumbnails import renditions
from mmconv.core.errors import ImageError
from mmconv.core.protocols import ImageSource
from mmconv.report.data_quality import Record

BLOCK = 16
"""Samples in a block."""

LARGER = 1_000_000
"""Added to a block's number: the file of its larger images."""

LARGER_BYTES = 2_000_000
"""The most that larger images may take inside the page, of what its budget leaves them."""

NAME = 16
"""Hexadecimal digits of its hash that name an image within one page."""

_THREADS = 2
_LOOKAHEAD = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Some samples: texts as base64 of gzip of JSON, images as JSON of name -> base64 of WebP."""

    texts: str
    pictures: str


@dataclass(slots=True, kw_only=True)
class Blocks:
    """The blocks of a page: `inside` it, up to `budget` bytes, or else files in `folder`.

    `size` counts the samples, `outside` and `larger_outside` the blocks of which texts or larger
    images are in files. `larger` has larger images by block, as JSON of name -> base64 of JPEG or
    PNG. `lost` has the reason for each image that could not be read.
    """

    folder: Path
    budget: int
    inside: list[Block] = field(default_factory=list)
    outside: int = 0
    size: int = 0
    larger: dict[int, str] = field(default_factory=dict)
    larger_outside: int = 0
    lost: dict[str, str] = field(default_factory=dict)
    _files: set[Path] = field(default_factory=set)

    def add(self, texts: str, images: Iterable[tuple[str, str, str]]) -> None:
        """Put a block, with the name, thumbnail and larger version of each image, where it fits."""
        readable = [image for image in images if image[1]]
        small = orjson.dumps({name: thumbnail for name, thumbnail, _ in readable}).decode()
        number = len(self.inside) + self.outside
        if not self.outside and len(texts) + len(small) <= self.budget:
            self.budget -= len(texts) + len(small)
            self.inside.append(Block(texts=texts, pictures=small))
        else:
            self._write(number, texts, small)
            self.outside += 1
        if readable:
            self.larger[number] = orjson.dumps({name: big for name, _, big in readable}).decode()
        # texts and thumbnails go first, so the larger images have the room that is left
        while sum(map(len, self.larger.values())) > min(LARGER_BYTES, self.budget):
            last, larger = self.larger.popitem()
            self._write(LARGER + last, "", larger)
            self.larger_outside += 1

    def _write(self, number: int, texts: str, images: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{number}.js"
        path.write_text(f'mmconvBlock({number}, "{texts}", {images});\n', encoding="ascii")
        self._files.add(path)

    def remove_old(self) -> None:
        """Remove the files of an earlier page, and the folder if it is empty then."""
        for path in self.folder.glob("*.js"):
            if path.stem.isdigit() and path not in self._files:
                path.unlink()
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()


def make_blocks(
    samples: Iterable[tuple[Record, list[str]]],
    images: ImageSource | None,
    folder: Path,
    budget: int,
) -> Blocks:
    """Make blocks of samples, each with the hashes of its images, in threads."""
    blocks = Blocks(folder=folder, budget=budget)
    waiting: deque[tuple[Future[str], list[Future[tuple[str, str, str]]]]] = deque()

    def read(sha256: str) -> tuple[str, str, str]:
        """An image's short name, its thumbnail and the larger version; empty if it is lost."""
        name = sha256[:NAME]
        try:
            if images is None:
                raise ImageError("the page was made without the images")
            thumbnail, larger = renditions(images.read(sha256), f"image {sha256[:12]}")
        except ImageError as error:
            blocks.lost[name] = str(error)
            return name, "", ""
        return name, base64.b64encode(thumbnail).decode(), base64.b64encode(larger).decode()

    def settle() -> None:
        texts, renditions = waiting.popleft()
        blocks.add(texts.result(), [rendition.result() for rendition in renditions])

    iterator = iter(samples)
    with ThreadPoolExecutor(_THREADS) as pool:
        while batch := list(islice(iterator, BLOCK)):
            blocks.size += len(batch)
            hashes = dict.fromkeys(sha256 for _, sample_hashes in batch for sha256 in sample_hashes)
            texts = pool.submit(packed, [sample for sample, _ in batch])
            waiting.append((texts, [pool.submit(read, sha256) for sha256 in hashes]))
            if len(waiting) > _LOOKAHEAD:
                settle()
        while waiting:
            settle()
    blocks.remove_old()
    return blocks


def packed(document: object) -> str:
    """JSON, gzipped, in base64: what the page's script unpacks."""
    return base64.b64encode(gzip.compress(orjson.dumps(document), 6, mtime=0)).decode()
