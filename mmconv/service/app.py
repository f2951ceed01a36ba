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
from mmconv.service import dialogue_work
from mmconv.service.bodies import Gate
from mmconv.service.desk import open_desk
from mmconv.service.docs import describe
from mmconv.service.placing import lacking
from mmconv.service.problems import install
from mmconv.service.queries import check_query
from mmconv.service.scopes import tell_scopes
from mmconv.service.settings import Settings
from mmconv.service.state import open_service

ROUTERS = (
    "chat",
    "images",
    "dialogues",
    "judgements",
    "runs",
    "run_results",
    "run_reports",
    "events",
    "compare",
    "catalogue",
    "health",
    "docs",
    "web",
    "web_choices",
    "web_parts",
)
"""Modules of this package that have a `router`."""

PAGES = ("docs", "web")
"""Those whose addresses may say more than the server reads: scripts of the pages do."""


@asynccontextmanager
async def open_app(settings: Settings) -> AsyncIterator[FastAPI]:
    """The ASGI application, with what its routes share open, and the worker at work.

    It has no lifespan of its own. Raises `mmconv.errors.MmconvError` where what the settings name
    cannot be opened.
    """
    async with AsyncExitStack() as stack:
        shared = await stack.enter_async_context(open_service(settings))
        openers = {dialogue_work.KIND: partial(dialogue_work.DialogueWork, shared)}
        lacks = partial(lacking, settings)
        desk = await stack.enter_async_context(open_desk(shared, openers, lacks))
        app = FastAPI(
            title="mmconv",
            version=__version__,
            description="Ask models, grade dialogues, run benchmarks of multi-turn conversation.",
            docs_url=None,
            redoc_url=None,
            redirect_slashes=False,
        )
        app.state.service = shared
        app.state.desk = desk
        app.openapi = partial(_document, app)  # type: ignore[method-assign]  # FastAPI's own way
        app.add_middleware(Gate)
        install(app)
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
