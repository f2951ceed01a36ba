"""The application: routes, the gate before them, error handlers, and what all of it shares.

To add a group of routes, add its module to `ROUTERS`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib import import_module
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from mmconv import __version__
from mmconv.service.dialogues import DIALOGUE, DialogueWork
from mmconv.service.errors import install_handlers
from mmconv.service.gate import Gate
from mmconv.service.jobs import Worker
from mmconv.service.openapi import EVERYWHERE, build_document
from mmconv.service.runs import RUN, RunWork
from mmconv.service.settings import Settings
from mmconv.service.state import Serving, open_service
from mmconv.service.webhooks import send_left_behind, signing_key

ROUTERS = (
    "chat",
    "responses",
    "images",
    "dialogues",
    "batches",
    "judgements",
    "runs",
    "results",
    "comparisons",
    "catalogue",
    "health",
    "web.pages",
    "web.data",
)
"""Modules of this package that have a `router`."""


@asynccontextmanager
async def open_app(settings: Settings) -> AsyncIterator[FastAPI]:
    """The ASGI application with its shared resources and a running worker.

    It has no lifespan of its own. Raises `MmconvError` if something that the settings name cannot
    be opened.
    """
    signing_key()  # one that cannot be read is found now
    async with AsyncExitStack() as stack:
        shared = await stack.enter_async_context(open_service(settings))
        worker = Worker(
            shared.queue,
            {RUN: partial(RunWork, shared), DIALOGUE: partial(DialogueWork, shared)},
            shared.draining,
            settings.runs_at_once,
        )
        await stack.enter_async_context(worker.at_work(settings.drain_seconds))
        stack.callback(asyncio.create_task(send_left_behind(settings)).cancel)
        routers = [import_module(f"mmconv.service.{name}").router for name in ROUTERS]
        app = build_app(shared, routers)
        app.state.worker = worker
        document = partial(build_document, app, routers)
        app.openapi = document  # type: ignore[method-assign]  # FastAPI's own way
        yield app


def build_app(shared: Serving, routers: Iterable[APIRouter], **fields: Any) -> FastAPI:
    """The application with these routers; `fields` are further ones of `FastAPI`."""
    app = FastAPI(
        title="mmconv",
        version=__version__,
        description="Ask models, grade dialogues, run benchmarks of multi-turn conversation.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        **fields,
    )
    app.state.service = shared
    app.add_middleware(Gate)
    install_handlers(app)
    methods: defaultdict[str, set[str]] = defaultdict(set)
    for router in routers:
        app.include_router(router, responses=EVERYWHERE)
        for route in router.routes:
            if isinstance(route, APIRoute):
                methods[route.path] |= route.methods or set()
    app.state.methods = dict(methods)  # errors name them
    return app
