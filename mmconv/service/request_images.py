"""The images that a request names: `image:<id>` or the id, a data URI, or a URL if allowed.

Each is held until the request ends, even if it is removed meanwhile. No path is read for a client.
URLs are https to public addresses only. A name is resolved once, its addresses are checked, and the
connection goes to one of those. Each redirect is checked like the first URL. Proxies and cookies
are not used.
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

from aiohttp import ClientError, ClientSession
from yarl import URL

from images import Facts
from mmconv.core.errors import ImageError
from mmconv.core.types import Image
from mmconv.service.addresses import Forbidden, Rules
from mmconv.service.errors import Problem, presentable, too_large
from mmconv.service.state import Service, Serving

Args = ParamSpec("Args")
Result = TypeVar("Result")

_ID = re.compile("[0-9a-f]{64}")


class RequestImages:
    """Resolves the images of one request. Created by `request_images`."""

    def __init__(self, shared: Service, owner: str | None, holds: ExitStack) -> None:
        self._shared = shared
        self._owner = owner
        self._holds = holds
        self._count = 0
        self._pixels = 0

    async def image(self, reference: str, param: str) -> Image:
        """The image that the field `param` names. Raises `Problem` 400, 404 or 413."""
        sizes = self._shared.settings.sizes
        self._count += 1
        if self._count > sizes.images:
            raise Problem(413, f"a request may hold {sizes.images} images", param=param)
        image = await self._find(reference, param)
        # A repeated image counts each time, because it is decoded each time.
        self._pixels += image.width * image.height
        if self._pixels > sizes.request_pixels:
            pixels = f"{sizes.request_pixels:,} pixels"
            raise Problem(413, f"the images of a request may have {pixels} together", param=param)
        return image

    async def _find(self, reference: str, param: str) -> Image:
        limit = self._shared.settings.sizes.image_bytes
        if _ID.fullmatch(reference):
            return await self._stored(reference, param)
        scheme, _, rest = reference.partition(":")
        match scheme.lower():
            case "image":
                return await self._stored(rest, param)
            case "data":
                return await self._hold(partial(decode_uri, rest, limit, param), param)
            case "https" if self._shared.settings.fetch_urls:
                async with self._shared.fetches:
                    data = await fetch(reference, limit, param)
                    return await self._hold(lambda: data, param)
            case "http" | "https":
                raise Problem(
                    400,
                    "this server does not fetch this URL: send a data URI, or upload the image to "
                    "/v1/images and send image:<id>",
                    param=param,
                )
        raise Problem(400, "an image is named by a data URI or by image:<id>", param=param)

    async def _stored(self, sha256: str, param: str) -> Image:
        uploads = self._shared.uploads
        if not await asyncio.to_thread(uploads.owns, self._owner, sha256):
            raise Problem(404, "no image of this id is here", param=param, code="image_not_found")
        return await self._hold(partial(uploads.read, sha256), param)

    async def _hold(self, read: Callable[[], bytes], param: str) -> Image:
        def hold() -> Facts:
            return self._shared.uploads.hold(read(), param)

        holding = asyncio.ensure_future(work_on_image(self._shared, param, hold))
        try:
            facts = await asyncio.shield(holding)
        except asyncio.CancelledError:
            # The thread goes on, and what it will hold must be released.
            holding.add_done_callback(self._release)
            raise
        self._holds.callback(self._shared.uploads.release, facts.sha256)
        return facts.image

    def _release(self, holding: asyncio.Future[Facts]) -> None:
        if not holding.cancelled() and holding.exception() is None:
            self._shared.uploads.release(holding.result().sha256)


@contextmanager
def request_images(shared: Service, owner: str | None) -> Iterator[RequestImages]:
    """Resolve images, stored ones only of this owner or of all, and hold them for a request."""
    with ExitStack() as holds:
        yield RequestImages(shared, owner, holds)


async def work_on_image(
    shared: Serving,
    param: str | None,
    work: Callable[Args, Result],
    *args: Args.args,
    **kwargs: Args.kwargs,
) -> Result:
    """Work on an image in a thread, with few others at a time.

    Raises `Problem` 400, naming the field `param`, for an image that cannot be used.
    """
    async with shared.image_work:
        try:
            return await asyncio.to_thread(work, *args, **kwargs)
        except ImageError as error:
            message = presentable(str(error), "the image cannot be read")
            raise Problem(400, message, param=param, code="invalid_image") from error


def decode_uri(rest: str, limit: int, param: str) -> bytes:
    """The bytes of a data URI without its `data:`. Raises `Problem` 400 or 413.

    Its media type is ignored: clients label images wrongly, so the content decides.
    """
    head, comma, payload = rest.partition(",")
    if not comma or not head.lower().endswith(";base64"):
        raise Problem(400, "a data URI must be data:image/...;base64,...", param=param)
    if len(payload) > (limit + 2) // 3 * 4:
        raise too_large("the image", limit, param)
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        raise Problem(400, "the data URI is not base64", param=param) from None


PUBLIC = Rules(what="the image's URL")

MOST_REDIRECTS = 3

SECONDS = 15.0
"""The total time of a fetch."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


async def fetch(url: str, limit: int, param: str, rules: Rules = PUBLIC) -> bytes:
    """At most `limit` bytes from a URL that a client sent in the field `param`.

    Raises `Problem` 400 or 413, which does not reveal what was found at a forbidden address.
    """
    headers = {"Accept": "image/*", "Accept-Encoding": "identity"}
    try:
        async with (
            asyncio.timeout(SECONDS),
            rules.open_session(auto_decompress=False, headers=headers) as session,
        ):
            return await _follow(session, rules.check(url), limit, param, rules)
    except (ClientError, OSError, ValueError) as error:
        message = (
            str(error) if isinstance(error, Forbidden) else "the image's URL cannot be fetched"
        )
        raise Problem(400, message, param=param, code="invalid_image_url") from error


async def _follow(session: ClientSession, url: URL, limit: int, param: str, rules: Rules) -> bytes:
    for _ in range(MOST_REDIRECTS + 1):
        async with session.get(url, allow_redirects=False) as response:
            if response.status in _REDIRECTS:
                url = rules.check(url.join(URL(response.headers.get("Location", ""))))
                continue
            response.raise_for_status()
            data = bytearray()
            async for chunk in response.content.iter_any():
                data += chunk
                if len(data) > limit:
                    raise too_large("the image", limit, param)
            return bytes(data)
    raise Forbidden("the image's URL is redirected too often")
