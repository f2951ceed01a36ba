"""`/v1/images`: clients' images, checked by the decoder and stored by content.

A response is the file as it came, or a small WebP, and makes a browser execute nothing. A client
can remove its images. The file is deleted once no other client has uploaded it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field
from starlette.datastructures import UploadFile
from starlette.responses import Response

from images import Facts
from images.decode import read_media_type
from images.thumbnails import thumbnail
from mmconv.api import OwnImage, StoredImage
from mmconv.core.errors import ImageError
from mmconv.core.keys import hash_bytes
from mmconv.service.access import Asker, Caller, Chatter, Shared, SharedRuns
from mmconv.service.datasets import FULL_SECONDS
from mmconv.service.errors import Problem, json_response, too_large
from mmconv.service.jobs import require_unused
from mmconv.service.openapi import Responses, documented
from mmconv.service.request_images import work_on_image
from mmconv.service.requests import part_of
from mmconv.service.state import Service, Serving
from mmconv.store.jobs import Filter

router = APIRouter(prefix="/v1/images", tags=["images"])

IMAGE_ID = "^[0-9a-f]{64}$"

ImageId = Annotated[str, Path(pattern=IMAGE_ID)]
"""The SHA-256 of an image's file, in a path."""

WHERE = "the image"

HEADERS = {
    "Cache-Control": "private, max-age=31536000, immutable",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
}

_BINARY = {"type": "string", "format": "binary"}
_FORM = {"type": "object", "properties": {"file": _BINARY}, "required": ["file"]}
_BODY = {
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
    "", status_code=201, response_model=StoredImage, responses=documented(415), openapi_extra=_BODY
)
async def add_image(request: Request, shared: Shared, caller: Chatter) -> Response:
    """Store an image, sent as the body or as the `file` of a form. Equal files are one image."""
    data, declared = await _read(request, shared.settings.sizes.image_bytes)
    facts = await work_on_image(shared, None, keep_image, shared, caller, data, declared)
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
    """The caller's images, newest first; `next` is the `after` of the next page, or null.

    `used` are the bytes of the caller's images and datasets, `room` those that they may take up.
    """

    data: list[OwnImage]
    next: str | None
    used: int
    room: int


class ImageQuery(BaseModel):
    """Which images: at most `limit`, after the one with the id `after`."""

    after: str | None = Field(default=None, pattern=IMAGE_ID)
    limit: int = Field(default=100, ge=1, le=1000)


@router.get("", response_model=ImageList)
async def list_images(
    shared: Shared, caller: Asker, query: Annotated[ImageQuery, Query()]
) -> Response:
    """List the caller's images, and the storage that they take up."""
    claims = await asyncio.to_thread(shared.uploads.claims, caller.name)
    names = [claim.sha256 for claim in claims]
    part, following = part_of(names, query.after, query.limit)
    images = ImageList(
        data=[
            OwnImage(id=own.sha256, bytes=own.byte_count, sent=own.since) for own in claims[part]
        ],
        next=following,
        used=await asyncio.to_thread(shared.stored, caller.name),
        room=caller.limits.stored_bytes,
    )
    return json_response(images)


@router.delete("/{image}", status_code=204, responses=documented(404, 409))
async def delete_image(
    image: ImageId, shared: Shared, caller: Chatter, everybody: bool = False
) -> Response:
    """Remove one of the caller's images. Replies about it are kept.

    An image that an active dialogue needs is refused with 409. A finished dialogue has its results,
    and names the image by its SHA-256. Runs have the images of their datasets.
    """
    if everybody and not caller.may("admin"):
        raise Problem(403, "this token does not have the scope 'admin'", code="missing_scope")
    owner = None if everybody else caller.name
    await require_unused(shared, "image", image, Filter(owner=owner))
    if not await asyncio.to_thread(shared.uploads.discard, image, owner):
        raise Problem(404, "no image of this id is yours", param="image", code="image_not_found")
    return Response(status_code=204)


@router.get("/{image}", response_class=Response, responses=documented(404) | _FILE)
async def get_image(image: ImageId, shared: SharedRuns, caller: Asker) -> Response:
    """Get the file of one of the token's images, or of a dataset that it may read."""
    data = await _find(shared, caller, image, bytes)
    return Response(data, headers=HEADERS, media_type=read_media_type(data, WHERE))


@router.get("/{image}/thumbnail", response_class=Response, responses=documented(404) | _WEBP)
async def get_thumbnail(image: ImageId, shared: SharedRuns, caller: Asker) -> Response:
    """Get a WebP of at most 192 pixels a side."""
    small = await _find(shared, caller, image, partial(thumbnail, where=WHERE))
    return Response(small, headers=HEADERS, media_type="image/webp")


def keep_image(shared: Service, caller: Caller, data: bytes, declared: str) -> Facts:
    """Check and store an image. Raises `Problem` 415 or 429, and `ImageError`."""
    media_type = read_media_type(data, WHERE)
    if declared.startswith("image/") and declared not in (media_type, "image/*"):
        raise Problem(415, f"the image is declared as {declared}, and is {media_type}")
    uploads, room = shared.uploads, caller.limits.stored_bytes
    is_own = uploads.owns(caller.name, hash_bytes(data))
    facts = uploads.keep(data, caller.name, WHERE)
    # Checked afterwards, since other requests of the token store images meanwhile.
    if not is_own and shared.stored(caller.name) > room:
        uploads.discard(facts.sha256, caller.name)
        message = f"the images and datasets of this token may take up {room:,} bytes"
        raise Problem(429, message, code="storage_full", retry_after=FULL_SECONDS)
    return facts


async def _find(
    shared: Serving, caller: Caller, sha256: str, use: Callable[[bytes], bytes]
) -> bytes:
    """What is made of an image's file, if the caller may read it. Raises `Problem` 404 otherwise.

    Few files are in memory at once before they are sent.
    """
    may_read = partial(shared.may_read, sha256, caller.as_owner, data=caller.may("read"))
    if not await asyncio.to_thread(may_read):
        raise Problem(404, "no image of this id is here", param="image", code="image_not_found")
    try:
        async with shared.image_work:
            return await asyncio.to_thread(lambda: use(shared.images.read(sha256)))
    except ImageError as error:
        raise Problem(404, str(error), param="image", code="image_not_found") from error


async def _read(request: Request, limit: int) -> tuple[bytes, str]:
    """The image of a request, and its declared media type."""
    declared = _media_type(request.headers.get("content-type"))
    if declared == "multipart/form-data":
        async with request.form(max_files=1, max_fields=1) as form:
            file = form.get("file")
            if not isinstance(file, UploadFile):
                raise Problem(400, "the form needs a file named `file`", param="file")
            if (file.size or 0) > limit:
                raise too_large(WHERE, limit, "file")
            return await file.read(), _media_type(file.content_type)
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > limit:
            raise too_large(WHERE, limit)
    return bytes(data), declared


def _media_type(header: str | None) -> str:
    declared = (header or "").partition(";")[0].strip().lower()
    return "image/jpeg" if declared == "image/jpg" else declared
