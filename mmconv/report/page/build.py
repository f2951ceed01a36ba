"""Writes the page: one HTML file for a run, or for several runs that are compared.

The page holds everything (style, script, plots, texts, small pictures) and asks nothing of a
network; its policy forbids it. Samples that exceed `BLOCK_BYTES`, and larger pictures for which
no room is left, lie in a folder beside it, and the page says which.
"""

from __future__ import annotations

from pathlib import Path

from mmconv.core.atomic_writes import whole
from mmconv.core.protocols import ImageSource
from mmconv.report.comparison.differences import Comparison
from mmconv.report.page.content import NOTHING, About, Content
from mmconv.report.page.rendering import render
from mmconv.report.page.samples.blocks import BLOCK, LARGER, Blocks, packed
from mmconv.report.page.samples.gathering import SHORT_NAME, Gathering
from mmconv.report.page.views.by_benchmark import comparison_content, run_content
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
    with whole(page) as part:
        part.write_text(html, encoding="utf-8")
    return page
