"""From what a page holds to HTML: template, style and script put together, and what it may load."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from mmconv import __version__
from mmconv.report.page.blocks import BLOCK, Blocks
from mmconv.report.page.content import Content, Section
from mmconv.report.page.provenance import provenance

if TYPE_CHECKING:
    from jinja2 import Environment


def render(content: Content, sections: Sequence[Section], blocks: Blocks, index: str) -> str:
    """The page as HTML; `index` is the packed index of the samples."""
    script, style = _part("page.js"), _part("page.css")
    return (
        _templates()
        .get_template("page.html.j2")
        .render(
            title=content.title,
            over=" · ".join(dict.fromkeys(run.folder.name for run in content.runs)),
            facts=_facts(content, blocks.size),
            warnings=content.warnings,
            view=content.view,
            sections=sections,
            provenance=[provenance(run) for run in content.runs],
            held=_held(blocks),
            index=index,
            blocks=blocks.inside,
            policy=_policy(script, apart=blocks.outside > 0),
            script=script,
            style=style,
            version=__version__,
            written=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        )
    )


def _facts(content: Content, size: int) -> list[tuple[str, str]]:
    judges = {
        model.label: None
        for run in content.runs
        for seat, model in run.spec.seats.items()
        if seat != "candidate"
    }
    many = "s" if len(content.runs) > 1 else ""
    facts = [(f"model{many}", ", ".join(run.label for run in content.runs))]
    facts += [("judge", ", ".join(judges))] if judges else []
    conditions = ", ".join(content.runs[0].manifest["conditions"])
    return [*facts, ("samples", str(size)), ("conditions", conditions)]


def _held(blocks: Blocks) -> str:
    """Where the samples are, and which pictures are not there."""
    told = []
    if blocks.outside:
        size, inside = blocks.size, min(blocks.size, BLOCK * len(blocks.inside))
        told.append(
            f"The first {inside} samples are in this file; the other {size - inside} are in the "
            f"folder {blocks.folder.name} beside it: keep the two together."
        )
    if blocks.lost:
        example = next(iter(blocks.lost.values()))
        told.append(f"{len(blocks.lost)} pictures are not shown ({example}).")
    return " ".join(told)


def _policy(script: str, *, apart: bool) -> str:
    """What the page may load: its own script and style, pictures it holds, samples beside it."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    beside = " 'self' file:" if apart else ""
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'{beside}; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


@cache
def _part(name: str) -> str:
    return (resources.files(__package__) / "templates" / name).read_text(encoding="utf-8")


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("mmconv.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
