"""The application: routes, the gate before them, one shape for errors, and what all of it shares.

To add a group of routes, add its module to `ROUTERS`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib import import_module
from typing import Any

from fastapi import APIRouter, Depends, FastAPI

from mmconv import __version__
from mmconv.service.dialogues.execution import DIALOGUE, DialogueWork
from mmconv.service.docs.openapi import describe, tell_scopes
from mmconv.service.errors.handlers import install_handlers
from mmconv.service.http.gate import Gate
from mmconv.service.http.query_parameters import check_query
from mmconv.service.job_eligibility import lacking
from mmconv.service.runs.resources import open_run_resources
from mmconv.service.settings import Settings
from mmconv.service.state import open_service

ROUTERS = (
    "chat.routes",
    "images.routes",
    "dialogues.routes",
    "judgements",
    "runs.routes",
    "results.routes",
    "results.reports",
    "runs.events",
    "results.comparison",
    "catalogue",
    "health",
    "docs.page",
    "web.pages",
    "web.form_choices",
    "web.report_parts",
)
"""Modules of this package that have a `router`."""

PAGES = ("docs.page", "web.pages")
"""Those whose addresses may say more than the server reads: scripts of the pages do."""


@asynccontextmanager
async def open_app(settings: Settings) -> AsyncIterator[FastAPI]:
    """The ASGI application, with what its routes share open, and the worker at work.

    It has no lifespan of its own. Raises `MmconvError` where what the settings name
    cannot be opened.
    """
    async with AsyncExitStack() as stack:
        shared = await stack.enter_async_context(open_service(settings))
        openers = {DIALOGUE: partial(DialogueWork, shared)}
        lacks = partial(lacking, settings)
        resources = await stack.enter_async_context(open_run_resources(shared, openers, lacks))
        app = FastAPI(
            title="mmconv",
            version=__version__,
            description="Ask models, grade dialogues, run benchmarks of multi-turn conversation.",
            docs_url=None,
            redoc_url=None,
            redirect_slashes=False,
        )
        app.state.service = shared
        app.state.resources = resources
        app.openapi = partial(_document, app)  # type: ignore[method-assign]  # FastAPI's own way
        app.add_middleware(Gate)
        install_handlers(app)
        for name in ROUTERS:
            checks = [] if name in PAGES else [Depends(check_query)]
            app.include_router(_router(name), dependencies=checks)
        yield app


def _router(name: str) -> APIRouter:
    router = import_module(f"mmconv.service.{name}").router
    assert isinstance(router, APIRouter)
    return router


def _document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, made once."""
    if app.openapi_schema is None:
        document = describe(app.title, app.version, app.description, app.routes)
        routes = (route for name in ROUTERS for route in _router(name).routes)
        tell_scopes(document, routes, demanded=bool(app.state.service.settings.tokens))
        app.openapi_schema = document
    return app.openapi_schema
