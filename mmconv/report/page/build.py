"""Writes pages: one HTML file for a run or a comparison, or the parts that a server sends.

A page has everything (style, script, plots, texts, small images) and loads nothing from a network;
its policy forbids it. Samples beyond `BLOCK_BYTES`, and larger images that do not fit, are in a
folder next to it. The parts are `page.json`, with the findings as HTML and the index of the
samples, and blocks of samples, which a browser fetches when it needs one.
"""

from __future__ import annotations

import gzip
import shutil
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from mmconv.core.atomic_writes import atomic_write
from mmconv.core.protocols import ImageSource
from mmconv.report.comparison.differences import Comparison
from mmconv.report.page.blocks import BLOCK, LARGER, NAME, make_blocks, packed
from mmconv.report.page.content import NOTHING, About, Content, comparison_content, run_content
from mmconv.report.page.rendering import render, render_findings
from mmconv.report.page.samples import Gathering
from mmconv.run_folder.layout import PAGE

BLOCK_BYTES = 4_300_000
"""The most that texts and images may take inside the page, which stays below 5 MB with them."""


def write_page(
    folder: Path,
    images: ImageSource | None = None,
    about: About = NOTHING,
    *,
    block_bytes: int = BLOCK_BYTES,
) -> Path:
    """Write `report.html` into a run's folder and return its path.

    The page names images that cannot be read. Raises `InputError` if the folder has no finished
    run.
    """
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
    html = render(gathering, blocks, packed(document))
    with atomic_write(page) as part:
        part.write_text(html, encoding="utf-8")
    return page


SERVED_BLOCK = 64
"""Samples in a block of the parts."""

HEAD = "page.json.gz"
"""Title, findings and index, as gzipped JSON."""

WHOLE_NAME = 64


def block_name(number: int) -> str:
    """The file of a block: `{"samples": [...]}` as gzipped JSON."""
    return f"{number}.json.gz"


def write_parts(folder: Path, content: Content) -> None:
    """Write the parts into a new folder, which appears complete or not at all.

    Several processes may do so at once.
    """
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
