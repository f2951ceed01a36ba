"""Images as data URIs, made once per image and kept ready for the next request that shows it.

Reading, preparing and encoding happen in a thread. How a picture is made to fit is the policy's
matter.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import orjson

from images.policy import prepare
from mmconv.core.protocols import ImageSource
from mmconv.core.types import Image, SeenImage
from model_zoo.openai_api.request import OpenAIOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class DataUri:
    """An image ready to be copied into a JSON body: a quoted data URI of `size` bytes."""

    fragment: orjson.Fragment
    size: int
    seen: SeenImage


class DataUris:
    """A cache of data URIs, least recently used out first, of at most `image_cache_mb` in all."""

    def __init__(self, images: ImageSource, options: OpenAIOptions) -> None:
        self._images = images
        self._policy = options.policy()
        self._max_bytes = options.max_bytes
        self._limit = options.image_cache_mb * 1_000_000
        self._size = 0
        self._ready: OrderedDict[str, DataUri] = OrderedDict()
        self._under_way: dict[str, asyncio.Task[DataUri]] = {}
        # each thread that handles images keeps some megabytes for itself
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="mmconv-images")

    async def get(self, wanted: Iterable[Image]) -> list[DataUri]:
        """The images' data URIs, in their order; raises `ImageError` where one cannot be read."""
        return [self._look_up(image.sha256) or await self._make(image) for image in wanted]

    async def aclose(self) -> None:
        """Wait for what is under way and drop everything."""
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)
        self._threads.shutdown()
        self._ready.clear()
        self._size = 0

    def _look_up(self, sha256: str) -> DataUri | None:
        uri = self._ready.get(sha256)
        if uri is not None:
            self._ready.move_to_end(sha256)
        return uri

    async def _make(self, image: Image) -> DataUri:
        task = self._under_way.get(image.sha256)
        if task is None:
            task = asyncio.create_task(self._make_and_keep(image))
            self._under_way[image.sha256] = task
        # another request may wait for the same image, so a cancelled one must not stop the work
        return await asyncio.shield(task)

    async def _make_and_keep(self, image: Image) -> DataUri:
        try:
            loop = asyncio.get_running_loop()
            uri = await loop.run_in_executor(self._threads, self._encode, image)
        finally:
            del self._under_way[image.sha256]
        self._ready[image.sha256] = uri
        self._size += uri.size
        while self._size > self._limit:
            _, oldest = self._ready.popitem(last=False)
            self._size -= oldest.size
        return uri

    def _encode(self, image: Image) -> DataUri:
        data = self._images.read(image.sha256)
        prepared = prepare(data, image, self._policy, self._max_bytes)
        start = f'"data:{prepared.media_type};base64,'.encode()
        quoted = b"".join((start, b64encode(prepared.data), b'"'))
        seen = SeenImage(
            sha256=image.sha256,
            width=prepared.width,
            height=prepared.height,
            media_type="" if prepared.media_type == image.media_type else prepared.media_type,
        )
        return DataUri(fragment=orjson.Fragment(quoted), size=len(quoted), seen=seen)
