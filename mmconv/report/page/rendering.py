"""From what a page holds to HTML: template, style and script put together, and what it may load.

The web page of a server shows the same findings and the same browser of samples; it takes
templates, style and scripts from here.
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
    """The page as HTML, once all samples were gathered; `index` is their packed index."""
    content = gathering.content
    script = "".join(read_part(name) for name in (*SCRIPTS, "report.js"))
    return (
        templates()
        .get_template("page.html.j2")
        .render(
            title=content.title,
            over=" · ".join(dict.fromkeys(run.folder.name for run in content.runs)),
            facts=_facts(gathering),
            **_findings(gathering),
            held=_held(blocks),
            index=index,
            blocks=blocks.inside,
            larger=blocks.larger,
            policy=_policy(script, apart=blocks.outside + blocks.larger_outside > 0),
            script=script,
            style=read_part(STYLE),
            version=__version__,
            written=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        )
    )


def render_findings(gathering: Gathering) -> str:
    """What the page says above its samples, without a head, as HTML to stand in another page."""
    return templates().get_template("fragment.html.j2").render(_findings(gathering))


def _findings(gathering: Gathering) -> dict[str, Any]:
    content = gathering.content
    return {
        "shortfalls": gathering.shortfalls(),
        "warnings": content.warnings,
        "findings": content.findings,
        "overview": content.overview,
        "sections": gathering.sections(),
        "provenance": [provenance(run) for run in content.runs],
    }


def _facts(gathering: Gathering) -> list[tuple[str, str]]:
    content = gathering.content
    models: dict[str, dict[str, None]] = {}
    for run in content.runs:
        for role, model in run.spec.models.items():
            models.setdefault(role, {})[model.label] = None
    others = [(role, ", ".join(labels)) for role, labels in models.items() if role != CANDIDATE]
    many = "s" if len(content.runs) > 1 else ""
    facts = [(f"model{many}", ", ".join(run.label for run in content.runs))]
    trials = max(run.spec.trials for run in content.runs)
    samples = f"{len(gathering.keys)}{f' in {trials} trials' if trials > 1 else ''}"
    conditions = ", ".join(content.conditions)
    return [*facts, *others, ("samples", samples), ("conditions", conditions)]


def _held(blocks: Blocks) -> str:
    """Where the samples are, and which pictures are not there."""
    sentences = []
    if blocks.outside:
        size, inside = blocks.size, min(blocks.size, BLOCK * len(blocks.inside))
        sentences.append(
            f"The first {inside} samples are in this file; the other {size - inside} are in the "
            f"folder {blocks.folder.name} beside it: keep the two together."
        )
    if blocks.larger_outside:
        some = "Some of the" if blocks.larger else "The"
        sentences.append(
            f"{some} larger pictures are in the folder {blocks.folder.name} beside this file."
        )
    if blocks.lost:
        example = next(iter(blocks.lost.values()))
        count = len(blocks.lost)
        are = "picture is" if count == 1 else "pictures are"
        sentences.append(f"{count} {are} not shown ({example}).")
    return " ".join(sentences)


def _policy(script: str, *, apart: bool) -> str:
    """What the page may load: its own script and style, pictures it holds, samples beside it."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    beside = " 'self' file:" if apart else ""
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'{beside}; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


@cache
def read_part(name: str) -> str:
    """A style sheet or a script of the page, as it lies beside the templates."""
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
