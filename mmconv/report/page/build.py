"""Writes pages: one HTML file for a run or a comparison, or the parts that a server gives out.

A page holds everything (style, script, plots, texts, small images) and loads nothing from a
network; its policy forbids it. Samples that exceed `BLOCK_BYTES`, and larger images that do not
fit are in a folder next to it. The parts are `page.json`, with the findings as HTML and the
index of the samples, and blocks of samples, which a browser fetches when it needs one.
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
from mmconv.report.page.blocks import BLOCK, LARGER, Blocks, packed
from mmconv.report.page.content import NOTHING, About, Content, comparison_content, run_content
from mmconv.report.page.rendering import render, render_findings
from mmconv.report.page.samples import SHORT_NAME, Gathering
from mmconv.run_folder.layout import PAGE

BLOCK_BYTES = 4_300_000
"""What texts and pictures may take inside the page, which stays below 5 MB with them."""


def write_page(
    folder: Path,
    images: ImageSource | None = None,
    about: About = NOTHING,
    *,
    block_bytes: int = BLOCK_BYTES,
) -> Path:
    """Write `report.html` into a run's folder and return its path.

    `images` gives the pictures; what it does not have, the page names. Raises `InputError` where
    the folder holds no finished run.
    """
    return _write(folder / PAGE, run_content(folder, about), images, block_bytes)


def write_comparison(
    page: Path,
    comparison: Comparison,
    images: ImageSource | None = None,
    about: About = NOTHING,
) -> Path:
    """Write a page that sets compared runs side by side, under the tables that compare them.

    What differs besides the candidates stands above all. Raises as `write_page` does.
    """
    return _write(page, comparison_content(comparison, about), images, BLOCK_BYTES)


def _write(page: Path, content: Content, images: ImageSource | None, budget: int) -> Path:
    gathering = Gathering(content=content, names=SHORT_NAME)
    apart = page.with_suffix(".samples")
    with Blocks(images=images, folder=apart, budget=budget) as blocks:
        for shown, pictures in gathering.samples():
            blocks.add(shown, pictures)
    document = gathering.document(BLOCK) | {"folder": apart.name, "larger": LARGER}
    html = render(gathering, blocks, packed(document))
    with atomic_write(page) as part:
        part.write_text(html, encoding="utf-8")
    return page


SERVED_BLOCK = 64
"""Samples in a block."""

HEAD = "page.json.gz"
"""Title, findings and index, as gzipped JSON."""

WHOLE_NAME = 64


def block_name(number: int) -> str:
    """The file of a block: `{"samples": [...]}` as gzipped JSON."""
    return f"{number}.json.gz"


def write_parts(folder: Path, content: Content) -> None:
    """Write the parts into a folder that is not there yet.

    Several may do so at once; it is there whole, or not at all.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    gathering = Gathering(content=content, names=WHOLE_NAME)
    shown = (sample for sample, _ in gathering.samples())
    number = 0
    while samples := list(islice(shown, SERVED_BLOCK)):
        _write_part(draft / block_name(number), {"samples": samples})
        number += 1
    findings = render_findings(gathering)
    index = gathering.document(SERVED_BLOCK)
    _write_part(draft / HEAD, {"title": content.title, "html": findings, "index": index})
    try:
        draft.rename(folder)
    except OSError:
        # Another was faster, with the same content.
        shutil.rmtree(draft)


def _write_part(path: Path, document: Any) -> None:
    path.write_bytes(gzip.compress(orjson.dumps(document), 6, mtime=0))
