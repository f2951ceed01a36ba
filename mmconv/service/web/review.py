"""`mmconv review`: the page on which a person corrects and accepts drafts, and what it calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI
from starlette.responses import Response

from images import ImageStore
from mmconv.benchmarks.base.review import REVIEWER, ChangedMeanwhile, Draft, DraftFile
from mmconv.core.errors import InputError
from mmconv.service.access import Reader, shared_of
from mmconv.service.app import build_app
from mmconv.service.errors import Problem, json_response
from mmconv.service.requests import JsonRoute
from mmconv.service.settings import Settings
from mmconv.service.state import Serving
from mmconv.service.web.label import Rater
from mmconv.service.web.pages import page_routes, render_page

router = APIRouter(route_class=JsonRoute, include_in_schema=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewing(Serving):
    """What requests share; drafts are written one after the other."""

    drafts: DraftFile
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)


Shared = Annotated[Reviewing, Depends(shared_of)]


class Review(Rater):
    """A draft's new texts and status, and the `version` of the line that the reviewer saw."""

    version: str
    texts: dict[str, str]
    status: Literal["draft", "verified", "rejected"]


@asynccontextmanager
async def open_review(
    drafts: DraftFile, images: ImageStore, settings: Settings
) -> AsyncIterator[FastAPI]:
    """The ASGI application with the page and its routes."""
    shared = Reviewing(settings=settings, images=images, drafts=drafts)
    yield build_app(shared, [*page_routes(), router], openapi_url=None)


@router.get("/")
async def review_page(shared: Shared) -> Response:
    """The page; who reviews is in its address, for the script to read."""
    return render_page(shared, "review", "Review", ("enlarging.js", "work.js"))


@router.get("/web/review")
async def list_drafts(shared: Shared, _caller: Reader) -> Response:
    """List the fields, and the drafts with their status."""
    drafts = await _read(shared)
    rows = [{"id": draft.id, "status": draft.status} for draft in drafts.values()]
    return json_response({"fields": [asdict(f) for f in shared.drafts.fields], "drafts": rows})


@router.get("/web/review/drafts/{draft_id:path}")
async def get_draft(draft_id: str, shared: Shared, _caller: Reader) -> Response:
    """Get a draft as the file has it now."""
    drafts = await _read(shared)
    if draft_id not in drafts:
        raise Problem(404, f"the file has no draft {draft_id} any more", param="draft_id")
    return json_response(_shown(shared, drafts[draft_id]))


@router.post("/web/review/drafts/{draft_id:path}")
async def save_draft(draft_id: str, body: Review, shared: Shared, _caller: Reader) -> Response:
    """Write a draft's line. It is on disk when the answer comes."""
    async with shared.writing:
        try:
            saved = await asyncio.to_thread(
                shared.drafts.save, draft_id, body.version, body.texts, body.status, body.rater
            )
        except ChangedMeanwhile as error:
            raise Problem(409, str(error), code="changed") from error
        except (InputError, OSError) as error:
            raise Problem(409, f"not saved: {error}") from error
    return json_response(_shown(shared, saved))


async def _read(shared: Reviewing) -> dict[str, Draft]:
    try:
        return await asyncio.to_thread(shared.drafts.read)
    except (InputError, OSError) as error:
        raise Problem(409, str(error)) from error


def _shown(shared: Reviewing, draft: Draft) -> dict[str, Any]:
    shown = shared.drafts.shown[draft.id]
    fields = shared.drafts.fields
    return {
        "id": draft.id,
        "version": draft.version,
        "status": draft.status,
        "rater": draft.entry.get(REVIEWER),
        "images": shown.images,
        "shown": [{"name": name, "text": text} for name, text in shown.texts.items()],
        "texts": {field.name: str(draft.entry.get(field.name) or "") for field in fields},
    }
