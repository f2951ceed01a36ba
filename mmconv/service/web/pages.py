"""The web page: its HTML, style and scripts. Everything in them comes from this server.

The pages hold no data; their scripts ask the API, with the reader's token where the server has
tokens. What shows a run is the report's own (`mmconv.report.page`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from mmconv import __version__
from mmconv.report.page.rendering import SCRIPTS, STYLE, read_part, templates
from mmconv.service.access import Shared
from mmconv.service.errors.problems import Problem
from mmconv.service.runs.lookup import RunId
from mmconv.service.state import Service

router = APIRouter(include_in_schema=False)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; "
    "img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""Nothing from elsewhere, no script within a page; plots and shades are styled where they stand."""

HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
"""Ending of a file's name -> media type."""

FOLDER = Path(__file__).with_name("assets")
"""Templates of the pages, and their own files."""

COMMON = ("dom.js", "theme.js", "api.js", "shell.js", "jobs.js")
"""The scripts of every page, but for its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file that is given out, with the tag that tells whether a browser has it already."""

    data: bytes
    media_type: str
    tag: str


@router.get("/")
async def runs_page(shared: Shared) -> Response:
    """The list of runs."""
    return _page(shared, "runs", "Runs")


@router.get("/new")
async def new_page(shared: Shared) -> Response:
    """The form that starts a run."""
    return _page(shared, "new", "New run")


@router.get("/runs/{run}")
async def run_page(run: RunId, shared: Shared) -> Response:
    """One run: its progress, findings and samples. Whether it is there, its script finds out."""
    return _page(shared, "run", run, shared_scripts=SCRIPTS)


@router.get("/compare")
async def compare_page(shared: Shared) -> Response:
    """Runs side by side."""
    return _page(shared, "compare", "Compare", shared_scripts=SCRIPTS)


@router.get("/try")
async def try_page(shared: Shared) -> Response:
    """A dialogue of one's own with a model."""
    return _page(shared, "try", "Try a dialogue", shared_scripts=("conversation.js",))


@router.get("/static/{name}")
async def static_file(name: str) -> Response:
    """A style sheet, script or picture of the pages."""
    file = _files().get(name)
    if file is None:
        raise Problem(404, "no such file")
    headers = HEADERS | {"ETag": file.tag}
    return Response(file.data, headers=headers, media_type=file.media_type)


def _page(
    shared: Service, name: str, title: str, *, shared_scripts: tuple[str, ...] = ()
) -> Response:
    scripts = [*dict.fromkeys((*COMMON, *shared_scripts, f"{name}.js"))]
    html = (
        templates(FOLDER)
        .get_template(f"{name}.html.j2")
        .render(
            page=name,
            title=title,
            scripts=scripts,
            tokens=bool(shared.settings.tokens),
            held="",
            version=__version__,
        )
    )
    return HTMLResponse(html, headers=HEADERS)


@cache
def _files() -> Mapping[str, File]:
    """All files by name: the report's style and scripts, and the pages' own."""
    texts = {name: read_part(name).encode() for name in (STYLE, *SCRIPTS)}
    own = (path for path in FOLDER.iterdir() if path.suffix.removeprefix(".") in TYPES)
    texts |= {path.name: path.read_bytes() for path in own}
    return {name: _file(name, data) for name, data in texts.items()}


def _file(name: str, data: bytes) -> File:
    tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
    return File(data=data, media_type=TYPES[name.rpartition(".")[2]], tag=tag)
