"""The images that one request names: `image:<id>` or the id, a data URI, or a URL if allowed.

Each is held until the request ends, also where it is removed meanwhile; that counts as nobody's.
No path is ever read for a client.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import ParamSpec, TypeVar

from images import Facts
from mmconv.core.errors import ImageError
from mmconv.core.types import Image
from mmconv.service.errors.privacy import presentable
from mmconv.service.errors.problems import Problem, too_large
from mmconv.service.images.fetching import fetch
from mmconv.service.state import Service

Given = ParamSpec("Given")
Made = TypeVar("Made")

_ID = re.compile("[0-9a-f]{64}")


class RequestImages:
    """Resolves the images of one request; made by `request_images`."""

    def __init__(self, shared: Service, holds: ExitStack) -> None:
        self._shared = shared
        self._holds = holds
        self._count = 0
        self._pixels = 0

    async def image(self, reference: str, param: str) -> Image:
        """The image that a reference names; `param` is the field of the request it stands in.

        Raises `Problem` 400, 404 or 413.
        """
        sizes = self._shared.settings.sizes
        self._count += 1
        if self._count > sizes.images:
            raise Problem(413, f"a request may hold {sizes.images} images", param=param)
        found = await self._find(reference, param)
        # The same image twice counts twice: it is decoded for each place where it stands.
        self._pixels += found.width * found.height
        if self._pixels > sizes.request_pixels:
            most = f"{sizes.request_pixels:,} pixels"
            raise Problem(413, f"the images of a request may have {most} together", param=param)
        return found

    async def _find(self, reference: str, param: str) -> Image:
        sizes = self._shared.settings.sizes
        if _ID.fullmatch(reference):
            return await self._kept(reference, param)
        scheme, _, rest = reference.partition(":")
        match scheme.lower():
            case "image":
                return await self._kept(rest, param)
            case "data":
                return await self._hold(partial(decode_uri, rest, sizes.image_bytes, param), param)
            case "https" if self._shared.settings.fetch_urls:
                async with self._shared.fetches:
                    data = await fetch(reference, sizes.image_bytes, param)
                    return await self._hold(lambda: data, param)
            case "http" | "https":
                raise Problem(
                    400,
                    "this server fetches no such URL: send a data URI, or upload the image to "
                    "/v1/images and send image:<id>",
                    param=param,
                )
        raise Problem(400, "an image is named by a data URI or by image:<id>", param=param)

    async def _kept(self, sha256: str, param: str) -> Image:
        uploads = self._shared.uploads
        if not await asyncio.to_thread(uploads.holds, sha256):
            raise Problem(404, "no image of this id is here", param=param, code="image_not_found")
        return await self._hold(partial(uploads.read, sha256), param)

    async def _hold(self, read: Callable[[], bytes], param: str) -> Image:
        def hold() -> Facts:
            return self._shared.uploads.hold(read(), param)

        holding = asyncio.ensure_future(work_on_image(self._shared, param, hold))
        try:
            facts = await asyncio.shield(holding)
        except asyncio.CancelledError:
            # The thread goes on, and what it will hold must be let go of.
            holding.add_done_callback(self._let_go)
            raise
        self._holds.callback(self._shared.uploads.release, facts.sha256)
        return facts.image

    def _let_go(self, holding: asyncio.Future[Facts]) -> None:
        if not holding.cancelled() and holding.exception() is None:
            self._shared.uploads.release(holding.result().sha256)


@contextmanager
def request_images(shared: Service) -> Iterator[RequestImages]:
    """Resolve images, and hold them for as long as a request lasts."""
    with ExitStack() as holds:
        yield RequestImages(shared, holds)


async def work_on_image(
    shared: Service,
    param: str | None,
    work: Callable[Given, Made],
    *args: Given.args,
    **kwargs: Given.kwargs,
) -> Made:
    """Work on an image in a thread, with few others at a time.

    Raises `Problem` 400, naming the field `param`, for an image that cannot be used.
    """
    async with shared.image_work:
        try:
            return await asyncio.to_thread(work, *args, **kwargs)
        except ImageError as error:
            message = presentable(str(error), "the image cannot be read")
            raise Problem(400, message, param=param, code="invalid_image") from error


def decode_uri(rest: str, most: int, param: str) -> bytes:
    """The bytes of a data URI, given without `data:`; its media type is not believed.

    Clients label images wrongly, so the content decides. Raises `Problem` 400 or 413.
    """
    head, comma, payload = rest.partition(",")
    if not comma or not head.lower().endswith(";base64"):
        raise Problem(400, "a data URI must be data:image/...;base64,...", param=param)
    if len(payload) > (most + 2) // 3 * 4:
        raise too_large("the image", most, param)
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        raise Problem(400, "the data URI is not base64", param=param) from None
