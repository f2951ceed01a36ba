"""The web pages and `/docs`: HTML, style and scripts. All of it comes from this server.

The pages hold no data. Their scripts call the API, with the reader's token if the server has
tokens. The parts that show a run belong to the report (`mmconv.report.page`).
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.routing import APIRoute
from starlette.responses import HTMLResponse, Response

from mmconv import __version__
from mmconv.report.page.rendering import SCRIPTS, STYLE, read_part, templates
from mmconv.service import images
from mmconv.service.access import SharedRuns
from mmconv.service.errors import Problem
from mmconv.service.runs import RunId
from mmconv.service.state import Serving

router = APIRouter(include_in_schema=False)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; "
    "img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""No remote assets and no inline scripts. Plots and shades use style attributes."""

HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Suffix of a file's name -> media type."""

FOLDER = Path(__file__).with_name("assets")
"""Templates of the pages, their own files, and Swagger UI."""

NEEDED = frozenset({"/static/{name}", "/v1/images/{image}"})
"""What every page needs of the other routes, if it shows images."""

COMMON = ("dom.js", "theme.js", "api.js", "shell.js", "jobs.js")
"""The scripts of every page. A page's own script follows them."""


PAGES: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "/": ("runs", "Runs", ()),
    "/new": ("new", "New run", ()),
    "/compare": ("compare", "Compare", SCRIPTS),
    "/leaderboard": ("leaderboard", "Leaderboard", ("tables.js",)),
    "/try": ("try", "Try a dialogue", ("conversation.js",)),
}
"""Path -> the page's template, its title, and the report's scripts that it uses."""


async def page(request: Request, shared: SharedRuns) -> Response:
    """A page of `PAGES`."""
    return render_page(shared, *PAGES[request.scope["route"].path])


for path in PAGES:
    router.add_api_route(path, page)


@router.get("/runs/{run}")
async def run_page(run: RunId, shared: SharedRuns) -> Response:
    """One run: its progress, findings and samples. Its script finds out whether it exists."""
    return render_page(shared, "run", run, SCRIPTS)


@router.get("/docs")
async def docs_page() -> Response:
    """Swagger UI for the OpenAPI document."""
    shown = get_swagger_ui_html(
        openapi_url="/openapi.json",
        title="mmconv API",
        swagger_js_url="/static/swagger-ui-bundle.js",
        swagger_css_url="/static/docs.css",
        swagger_favicon_url="/static/icon.svg",
        oauth2_redirect_url=None,
        swagger_ui_parameters={"defaultModelsExpandDepth": 0, "validatorUrl": None},
    )
    html = bytes(shown.body)
    # Swagger UI is started by FastAPI's inline script. Its hash admits this script and no other.
    [script] = re.findall(rb"<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
    policy = POLICY.replace("script-src 'self'", f"script-src 'self' 'sha256-{digest}'")
    return HTMLResponse(html, headers=HEADERS | {"Content-Security-Policy": policy})


@router.get("/static/{name}")
async def static_file(name: str) -> Response:
    """A style sheet, script or icon of the pages."""
    if name not in _files():
        raise Problem(404, "no such file")
    return _files()[name]


def page_routes() -> tuple[APIRouter, APIRouter]:
    """The routes that a page of a server without runs needs: its files, and images by hash."""
    files, pictures = APIRouter(), APIRouter()
    for kept, source in ((files, router), (pictures, images.router)):
        kept.routes.extend(
            route
            for route in source.routes
            if isinstance(route, APIRoute) and route.path in NEEDED and route.methods == {"GET"}
        )
    return files, pictures


def render_page(
    shared: Serving, name: str, title: str, report_scripts: tuple[str, ...] = ()
) -> Response:
    """The page of the template `name`."""
    template = templates(FOLDER).get_template(f"{name}.html.j2")
    html = template.render(
        page=name,
        title=title,
        scripts=[*dict.fromkeys((*COMMON, *report_scripts, f"{name}.js"))],
        tokens=bool(shared.settings.tokens),
        serves=bool(shared.settings.models),
        held="",
        version=__version__,
    )
    return HTMLResponse(html, headers=HEADERS)


@cache
def _files() -> Mapping[str, Response]:
    """All files by name: the report's style and scripts, the pages' own, and Swagger UI."""
    contents = {name: read_part(name).encode() for name in (STYLE, *SCRIPTS)}
    contents |= {path.name: path.read_bytes() for path in FOLDER.rglob("*") if path.suffix in TYPES}
    return {
        name: Response(
            data,
            headers=HEADERS | {"ETag": f'"{hashlib.sha256(data).hexdigest()[:16]}"'},
            media_type=TYPES[Path(name).suffix],
        )
        for name, data in contents.items()
    }
