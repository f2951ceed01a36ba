"""HTML of a page: template, style and script put together, and the policy on what it may load.

The web pages of a server show the same findings and the same browser of samples; they use these
templates, styles and scripts.
"""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmconv import __version__
from mmconv.core.config import CANDIDATE
from mmconv.report.page.blocks import BLOCK, Blocks
from mmconv.report.page.content import detail_sections
from mmconv.report.page.provenance import provenance
from mmconv.report.page.samples import Gathering

if TYPE_CHECKING:
    from jinja2 import Environment


STYLE = "page.css"

SCRIPTS = (
    "dom.js",
    "theme.js",
    "tabs.js",
    "tables.js",
    "enlarging.js",
    "conversation.js",
    "selection.js",
    "samples.js",
)
"""The scripts of the browser of samples; each needs those before it."""


def render(gathering: Gathering, blocks: Blocks, index: str) -> str:
    """The page as HTML after all samples were gathered; `index` is their packed index."""
    content = gathering.content
    script = "".join(read_part(name) for name in (*SCRIPTS, "report.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    files = " 'self' file:" if blocks.outside + blocks.larger_outside else ""
    return (
        templates()
        .get_template("page.html.j2")
        .render(
            title=content.title,
            over=" · ".join(dict.fromkeys(run.folder.name for run in content.runs)),
            facts=_facts(gathering),
            **_findings(gathering),
            held=_places_of_samples(blocks),
            index=index,
            blocks=blocks.inside,
            larger=blocks.larger,
            policy=f"default-src 'none'; script-src 'sha256-{digest}'{files}; "
            "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'",
            script=script,
            style=read_part(STYLE),
            version=__version__,
            written=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        )
    )


def render_findings(gathering: Gathering) -> str:
    """The part of the page above its samples, without a head, as HTML for another page."""
    return templates().get_template("fragment.html.j2").render(_findings(gathering))


def _findings(gathering: Gathering) -> dict[str, Any]:
    content = gathering.content
    return {
        "quality_warnings": gathering.quality_warnings(),
        "warnings": content.warnings,
        "findings": content.findings,
        "overview": content.overview,
        "sections": [*detail_sections(content, gathering.quality)],
        "provenance": [provenance(run) for run in content.runs],
    }


def _facts(gathering: Gathering) -> list[tuple[str, str]]:
    runs = gathering.content.runs
    models: dict[str, dict[str, None]] = {}
    for run in runs:
        for role, model in run.spec.models.items():
            models.setdefault(role, {})[model.label] = None
    trials = max(run.spec.trials for run in runs)
    return [
        ("models" if len(runs) > 1 else "model", ", ".join(run.label for run in runs)),
        *((role, ", ".join(labels)) for role, labels in models.items() if role != CANDIDATE),
        ("samples", f"{len(gathering.keys)}{f' in {trials} trials' if trials > 1 else ''}"),
        ("conditions", ", ".join(gathering.content.conditions)),
    ]


def _places_of_samples(blocks: Blocks) -> str:
    """The folder with samples and images outside the page, and the images that are missing."""
    sentences = []
    if blocks.outside:
        inside = min(blocks.size, BLOCK * len(blocks.inside))
        sentences.append(
            f"The first {inside} samples are in this file; the other {blocks.size - inside} are "
            f"in the folder {blocks.folder.name} next to it. Keep the two together."
        )
    if blocks.larger_outside:
        some = "Some of the" if blocks.larger else "The"
        sentences.append(
            f"{some} larger images are in the folder {blocks.folder.name} next to this file."
        )
    if count := len(blocks.lost):
        images = "1 image is" if count == 1 else f"{count} images are"
        sentences.append(f"{images} not shown ({next(iter(blocks.lost.values()))}).")
    return " ".join(sentences)


@cache
def read_part(name: str) -> str:
    """A style sheet or script of the page, from the folder of the templates."""
    return (resources.files(__package__) / "templates" / name).read_text(encoding="utf-8")


@cache
def templates(*folders: Path) -> Environment:
    """The page's templates, and those of other folders, which may include them."""
    from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined

    return Environment(
        loader=ChoiceLoader([FileSystemLoader(folders), PackageLoader("mmconv.report.page")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
