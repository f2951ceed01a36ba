"""HTML of a page: template, style and script put together, and the policy on what it may load.

The web pages of a server show the same findings and the same browser of samples; they use these
templates, styles and scripts.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import orjson

from mmconv import __version__
from mmconv.core.config import CANDIDATE
from mmconv.core.keys import hash_json
from mmconv.report.notes import list_answered
from mmconv.report.page.content import detail_sections
from mmconv.report.page.samples import Gathering
from mmconv.run_folder.saved_run import FinishedRun

if TYPE_CHECKING:
    from jinja2 import Environment

Entries: TypeAlias = tuple[tuple[str, str], ...]

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


def render(gathering: Gathering, *, has_files: bool, **samples: Any) -> str:
    """The page as HTML after all samples were gathered; `samples` are their index and blocks."""
    content = gathering.content
    script = "".join(read_part(name) for name in (*SCRIPTS, "report.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    files = " 'self' file:" if has_files else ""
    template = templates().get_template("page.html.j2")
    return template.render(
        title=content.title,
        over=" · ".join(dict.fromkeys(run.folder.name for run in content.runs)),
        facts=_facts(gathering),
        **_findings(gathering),
        **samples,
        policy=f"default-src 'none'; script-src 'sha256-{digest}'{files}; "
        "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'",
        script=script,
        style=read_part(STYLE),
        version=__version__,
        written=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
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


class Provenance(NamedTuple):
    """The provenance of one run: lists of names and texts, and its specification as JSON."""

    name: str
    lists: tuple[tuple[str, Entries], ...]
    specification: str


def provenance(run: FinishedRun) -> Provenance:
    """The models, versions, hashes and options of a run."""
    manifest = run.manifest
    spec = run.spec.model_dump(mode="json")
    # options that were set go first
    options = {name: _plain(value) for name, value in spec["options"].items()}
    defaults = {name: f"{_plain(value)} (default)" for name, value in manifest.options.items()}
    settings = {
        "run": run.folder.name,
        "conditions": ", ".join(manifest.conditions),
        "samples": str(manifest.samples),
        "trials": str(run.spec.trials),
        "seed": str(run.spec.seed),
    }
    software = {"mmconv": manifest.mmconv, "python": manifest.python, **manifest.packages}
    lists = (
        ("Models", tuple(_models(run))),
        ("Run", tuple(settings.items())),
        ("Options", tuple((options | defaults | options).items())),
        *_facts_of_data(manifest.provenance),
        ("Software", tuple(software.items())),
    )
    specification = orjson.dumps(spec, option=orjson.OPT_INDENT_2).decode()
    return Provenance(run.folder.name, lists, specification)


def _models(run: FinishedRun) -> Iterator[tuple[str, str]]:
    manifest = run.manifest
    for role, model in run.spec.models.items():
        name = f"{model.label}: {model.provider}/{model.model}"
        yield role, f"{name}, fingerprint {manifest.models[role]}"
        for key, value in manifest.about_models.get(role, {}).items():
            yield f"{role}: {key.replace('_', ' ')}", value
        if answered := manifest.answered_by.get(role):
            yield f"{role}: answered by", list_answered(answered)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "not set"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _facts_of_data(facts: Mapping[str, Any]) -> Iterator[tuple[str, Entries]]:
    single = tuple(
        (name, str(value))
        for name, value in facts.items()
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    )
    if single:
        yield "Data", single
    for name, value in facts.items():
        if isinstance(value, Mapping) and value:
            # one hash of those that are together under a name
            hashes = (
                hash_json(part) if isinstance(part, Mapping) else str(part)
                for part in value.values()
            )
            yield f"Hashes: {name}", tuple(zip(value, hashes, strict=True))
