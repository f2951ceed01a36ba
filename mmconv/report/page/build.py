"""Writes pages: one HTML file for a run or a comparison, or the parts that a server sends.

A page has everything (style, script, plots, texts, small images) and loads nothing from a network;
its policy forbids it. Its samples are in blocks, lists of samples as gzipped JSON in base64 with
their images as WebP in base64. The script unpacks a block when one of its samples is shown or
searched. Blocks beyond `BLOCK_BYTES`, and larger images that do not fit, are files of JavaScript in
a folder next to the page, which it may load from a disk too.

The parts are `page.json`, with the findings as HTML and the index of the samples, and blocks of
samples, which a browser fetches when it needs one.
"""

from __future__ import annotations

import base64
import gzip
import shutil
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from images.thumbnails import renditions
from mmconv.core.atomic_writes import write_file
from mmconv.core.errors import ImageError
from mmconv.core.protocols import ImageSource
from mmconv.report.comparison.differences import Comparison
from mmconv.report.data_quality import Record
from mmconv.report.page.content import NOTHING, About, Content, comparison_content, run_content
from mmconv.report.page.rendering import render, render_findings
from mmconv.report.page.samples import Gathering
from mmconv.run_folder.layout import PAGE

BLOCK_BYTES = 4_300_000
"""The most that texts and images may take inside the page, which stays below 5 MB with them."""

BLOCK = 16

LARGER = 1_000_000
"""Added to a block's number: the file of its larger images."""

LARGER_BYTES = 2_000_000
"""The most that larger images may take inside the page, of what its budget leaves them."""

NAME = 16
"""Hexadecimal digits of its hash that name an image within one page."""

_THREADS = 2


def write_page(
    folder: Path,
    images: ImageSource | None = None,
    about: About = NOTHING,
    *,
    block_bytes: int = BLOCK_BYTES,
) -> Path:
    """Write `report.html` into a run's folder and return its path; raises `InputError`."""
    return _write(folder / PAGE, run_content(folder, about), images, block_bytes)


def write_comparison(
    page: Path,
    comparison: Comparison,
    images: ImageSource | None = None,
    about: About = NOTHING,
) -> Path:
    """Write a page of compared runs; raises as `write_page` does."""
    return _write(page, comparison_content(comparison, about), images, BLOCK_BYTES)


def _write(page: Path, content: Content, images: ImageSource | None, budget: int) -> Path:
    gathering = Gathering(content=content, names=NAME)
    folder = page.with_suffix(".samples")
    blocks = make_blocks(gathering.samples(), images, folder, budget)
    document = gathering.document(BLOCK) | {"folder": folder.name, "larger": LARGER}
    html = render(
        gathering,
        has_files=blocks.has_files,
        held=blocks.describe_places(),
        index=packed(document),
        blocks=blocks.inside,
        larger=blocks.larger,
    )
    write_file(page, html)
    return page


class Block(NamedTuple):
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
            self.inside.append(Block(texts, small))
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

    @property
    def has_files(self) -> bool:
        """Whether the page needs files besides itself."""
        return bool(self.outside + self.larger_outside)

    def describe_places(self) -> str:
        """The folder with samples and images outside the page, and the images that are missing."""
        sentences = []
        if self.outside:
            inside = min(self.size, BLOCK * len(self.inside))
            sentences.append(
                f"The first {inside} samples are in this file; the other {self.size - inside} are "
                f"in the folder {self.folder.name} next to it. Keep the two together."
            )
        if self.larger_outside:
            some = "Some of the" if self.larger else "The"
            sentences.append(
                f"{some} larger images are in the folder {self.folder.name} next to this file."
            )
        if count := len(self.lost):
            images = "1 image is" if count == 1 else f"{count} images are"
            sentences.append(f"{images} not shown ({next(iter(self.lost.values()))}).")
        return " ".join(sentences)

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
    """Make blocks of samples, each with the hashes of its images, which threads read."""
    blocks = Blocks(folder=folder, budget=budget)

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

    iterator = iter(samples)
    with ThreadPoolExecutor(_THREADS) as pool:
        while batch := list(islice(iterator, BLOCK)):
            blocks.size += len(batch)
            hashes = dict.fromkeys(sha256 for _, sample_hashes in batch for sha256 in sample_hashes)
            blocks.add(packed([sample for sample, _ in batch]), pool.map(read, hashes))
    blocks.remove_old()
    return blocks


def packed(document: object) -> str:
    """JSON, gzipped, in base64: what the page's script unpacks."""
    return base64.b64encode(gzip.compress(orjson.dumps(document), 6, mtime=0)).decode()


SERVED_BLOCK = 64

HEAD = "page.json.gz"
"""Title, findings and index, as gzipped JSON."""

WHOLE_NAME = 64


def block_name(number: int) -> str:
    """The file of a block: `{"samples": [...]}` as gzipped JSON."""
    return f"{number}.json.gz"


def write_parts(folder: Path, content: Content) -> None:
    """Write the parts into a new folder, all or nothing; several processes may do so."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))

    def write(name: str, document: Any) -> None:
        (draft / name).write_bytes(gzip.compress(orjson.dumps(document), 6, mtime=0))

    gathering = Gathering(content=content, names=WHOLE_NAME)
    samples = (sample for sample, _ in gathering.samples())
    number = 0
    while block := list(islice(samples, SERVED_BLOCK)):
        write(block_name(number), {"samples": block})
        number += 1
    findings = render_findings(gathering)
    write(
        HEAD, {"title": content.title, "html": findings, "index": gathering.document(SERVED_BLOCK)}
    )
    try:
        draft.rename(folder)
    except OSError:
        # another process was faster, with the same content
        shutil.rmtree(draft)
