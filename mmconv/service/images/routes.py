"""`/v1/images`: clients' images, checked by the one door and kept by content.

What is given out is the file as it came, or a small WebP of it, and makes a browser run nothing.
Whoever sent an image may have it removed again; its file goes when nobody else has sent it too.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.datastructures import UploadFile
from starlette.responses import Response

from images import Facts
from images.decode import read_media_type
from images.thumbnails import thumbnail
from images.uploads import Claim
from mmconv.answers import OwnImage, StoredImage
from mmconv.core.errors import ImageError
from mmconv.service.access import Asker, Caller, Chatter, Shared
from mmconv.service.docs.responses import Responses, documented
from mmconv.service.errors.problems import Problem, json_response, too_large
from mmconv.service.http.query_parameters import QueryParameters
from mmconv.service.images.request_images import work_on_image
from mmconv.service.state import Service
from mmconv.store.jobs import ACTIVE, Filter

router = APIRouter(prefix="/v1/images", tags=["images"])

IMAGE_ID = "^[0-9a-f]{64}$"

ImageId = Annotated[str, Path(pattern=IMAGE_ID)]
"""The SHA-256 of an image's file, in a path."""

WHERE = "the image"
FULL_SECONDS = 3600.0
"""When a client whose room is full is told to come back; only an operator makes room."""

MOST_ACTIVE = 10_000
"""How many jobs that are not at their end are looked through; limits keep them far below."""

HEADERS = {
    "Cache-Control": "private, max-age=31536000, immutable",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
}

_BINARY = {"type": "string", "format": "binary"}
_FORM = {"type": "object", "properties": {"file": _BINARY}, "required": ["file"]}
_SENT = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {"schema": _FORM},
            "application/octet-stream": {"schema": _BINARY},
        },
    }
}
_FILE: Responses = {200: {"content": {"image/*": {"schema": _BINARY}}}}
_WEBP: Responses = {200: {"content": {"image/webp": {"schema": _BINARY}}}}


@router.post(
    "",
    status_code=201,
    response_model=StoredImage,
    responses=documented(415),
    openapi_extra=_SENT,
)
async def add_image(request: Request, shared: Shared, caller: Chatter) -> Response:
    """Keep an image, sent as the body or as the `file` of a form; the same twice is one."""
    data, declared = await _read(request, shared.settings.sizes.image_bytes)
    facts = await work_on_image(shared, None, keep_image, shared, caller, data, declared)
    shared.metrics.uploaded.inc(facts.byte_count)
    stored = StoredImage(
        id=facts.sha256,
        media_type=facts.media_type,
        width=facts.width,
        height=facts.height,
        bytes=facts.byte_count,
    )
    return json_response(stored, 201)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageList:
    """The caller's images, the newest first; `next` is the `after` of the following page, or null.

    `used` are the bytes of all of them, and `room` what they may take up.
    """

    data: list[OwnImage]
    next: str | None
    used: int
    room: int


class ImageQuery(QueryParameters):
    """Which images: at most `limit`, behind the one with the id `after`."""

    after: str | None = Field(default=None, pattern=IMAGE_ID)
    limit: int = Field(default=100, ge=1, le=1000)


class RemovalQuery(QueryParameters):
    """Whose image it is to be no longer: the caller's, or `everybody`'s, which an admin may ask."""

    everybody: bool = False


@router.get("", response_model=ImageList, responses=documented())
async def list_images(
    shared: Shared, caller: Asker, asked: Annotated[ImageQuery, Query()]
) -> Response:
    """List the images that the caller has sent, and how much room they take up."""
    claims = await asyncio.to_thread(shared.uploads.claims, caller.name)
    names = [claim.sha256 for claim in claims]
    if asked.after is not None and asked.after not in names:
        raise Problem(400, "after: take it from the page before", param="after")
    begin = 0 if asked.after is None else names.index(asked.after) + 1
    page = claims[begin : begin + asked.limit]
    listed = ImageList(
        data=[_own(claim) for claim in page],
        next=page[-1].sha256 if begin + len(page) < len(claims) else None,
        used=sum(claim.byte_count for claim in claims),
        room=caller.limits.stored_bytes,
    )
    return json_response(listed)


@router.delete("/{image}", status_code=204, responses=documented(404, 409))
async def delete_image(
    image: ImageId, shared: Shared, caller: Chatter, asked: Annotated[RemovalQuery, Query()]
) -> Response:
    """Remove an image of one's own; what was said of it stays where it is kept.

    An image that a dialogue under way needs is refused with 409. A finished dialogue has all that
    it tells, and names the image by its SHA-256; runs have the pictures of their data sets.
    """
    if asked.everybody and not caller.may("admin"):
        raise Problem(403, "this token lacks the scope 'admin'", code="missing_scope")
    owner = None if asked.everybody else caller.name
    if (needed := await _needing(shared, image, owner)) is not None:
        raise Problem(
            409,
            f"{needed} needs the image; wait for its end, or stop it",
            param="image",
            code="image_in_use",
        )
    if not await asyncio.to_thread(shared.uploads.discard, image, owner):
        raise Problem(404, "no image of this id is yours", param="image", code="image_not_found")
    return Response(status_code=204)


@router.get("/{image}", response_class=Response, responses=documented(404) | _FILE)
async def get_image(image: ImageId, shared: Shared, _caller: Asker) -> Response:
    """Give the file out as it came."""
    data = await _find(shared, image)
    return Response(data, headers=HEADERS, media_type=read_media_type(data, WHERE))


@router.get("/{image}/thumbnail", response_class=Response, responses=documented(404) | _WEBP)
async def get_thumbnail(image: ImageId, shared: Shared, _caller: Asker) -> Response:
    """Give out a WebP of at most 192 pixels a side."""
    data = await _find(shared, image)
    small = await work_on_image(shared, None, thumbnail, data, WHERE)
    return Response(small, headers=HEADERS, media_type="image/webp")


def keep_image(shared: Service, caller: Caller, data: bytes, declared: str) -> Facts:
    """Check and keep an image; raises `Problem` 415 or 429, and `ImageError`."""
    found = read_media_type(data, WHERE)
    if declared.startswith("image/") and declared not in (found, "image/*"):
        raise Problem(415, f"the image is declared as {declared}, and is {found}")
    uploads, room = shared.uploads, caller.limits.stored_bytes
    is_own = uploads.owns(caller.name, data)
    if not is_own and uploads.used(caller.name) + len(data) > room:
        raise _full(room)
    facts = uploads.keep(data, caller.name, WHERE)
    # Others of the token's may have been kept since it was asked.
    if not is_own and uploads.used(caller.name) > room:
        uploads.discard(facts.sha256, caller.name)
        raise _full(room)
    return facts


def _full(room: int) -> Problem:
    return Problem(
        429,
        f"the images of this token may take up {room:,} bytes",
        code="storage_full",
        retry_after=FULL_SECONDS,
    )


async def _needing(shared: Service, image: str, owner: str | None) -> str | None:
    """A job that waits or is under way, of this owner or of anybody, and that names the image."""
    for state in ACTIVE:
        chosen = Filter(owner=owner, state=state)
        for job in await shared.queue.page(chosen, limit=MOST_ACTIVE):
            if image in job.spec:
                return job.id
    return None


def _own(claim: Claim) -> OwnImage:
    return OwnImage(id=claim.sha256, bytes=claim.byte_count, sent=claim.since)


async def _find(shared: Service, sha256: str) -> bytes:
    """The file of an image that is here; raises `Problem` 404, also where its file is gone."""
    if not shared.pictures.holds(sha256):
        raise Problem(404, "no image of this id is here", param="image", code="image_not_found")
    try:
        async with shared.image_work:
            return await asyncio.to_thread(shared.pictures.read, sha256)
    except ImageError as error:
        raise Problem(404, str(error), param="image", code="image_not_found") from error


async def _read(request: Request, most: int) -> tuple[bytes, str]:
    """The image of a request, and the media type that it is declared to have."""
    declared = _media_type(request.headers.get("content-type"))
    if declared == "multipart/form-data":
        return await _read_form(request, most)
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > most:
            raise too_large(WHERE, most)
    return bytes(data), declared


async def _read_form(request: Request, most: int) -> tuple[bytes, str]:
    async with request.form(max_files=1, max_fields=1) as form:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise Problem(400, "the form needs a file named `file`", param="file")
        if (file.size or 0) > most:
            raise too_large(WHERE, most, "file")
        return await file.read(), _media_type(file.content_type)


def _media_type(header: str | None) -> str:
    declared = (header or "").partition(";")[0].strip().lower()
    return "image/jpeg" if declared == "image/jpg" else declared
