"""What the requests of one process share, opened once and closed once. Nothing here knows HTTP."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from images import Facts, ImageStore
from images.uploads import Uploads
from mmconv.core.errors import ImageError
from mmconv.core.protocols import ImageSource
from mmconv.engine import RoleModel
from mmconv.service.errors import no_model
from mmconv.service.metrics import Meter, Metrics
from mmconv.service.model_pool import ModelPool
from mmconv.service.settings import Settings
from mmconv.store import Store
from mmconv.store.connections import require_folder
from mmconv.store.queue import Queue

log = logging.getLogger(__name__)


class KnownImages(ImageSource):
    """Images by hash, from uploads of clients and files of data sets."""

    def __init__(self, uploads: Uploads, library: ImageStore) -> None:
        self._uploads = uploads
        self._library = library

    def holds(self, sha256: str) -> bool:
        """Whether the image is here."""
        return self._uploads.holds(sha256) or self._library.holds(sha256)

    def read(self, sha256: str) -> bytes:
        """The original bytes. Raises `ImageError`, in words for clients, if they are gone."""
        source: ImageSource = self._uploads if self._uploads.holds(sha256) else self._library
        try:
            return source.read(sha256)
        except ImageError as error:
            log.warning("an image cannot be read: %s", error)
            raise ImageError(
                f"image {sha256}: its file on the server is gone or was changed; the server's "
                "operator can restore it"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What requests share.

    `store` caches replies (of runs, dialogues and judgements, not of chat), `queue` holds the jobs.
    `uploads` are images of clients, `library` those of data sets, `facts` the metadata of both by
    hash, `images` reads both. `image_work` bounds how many are decoded at once, `fetches` how many
    are fetched by URL. `meters` count what tokens use, by name. `draining` is set when the process
    shuts down: streams end, and workers take no more jobs. `started` is in seconds since the epoch.
    """

    settings: Settings
    store: Store
    queue: Queue
    uploads: Uploads
    library: ImageStore
    facts: dict[str, Facts]
    images: KnownImages
    models: ModelPool
    meters: defaultdict[str, Meter] = field(default_factory=lambda: defaultdict(Meter))
    metrics: Metrics = field(default_factory=Metrics)
    draining: asyncio.Event = field(default_factory=asyncio.Event)
    image_work: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))
    fetches: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(16))
    started: float = field(default_factory=time.time)

    def drain(self) -> None:
        """Announce the shutdown; wakes a worker that waits for jobs."""
        self.draining.set()
        self.queue.news.set()

    def model(self, name: str, param: str = "model") -> RoleModel:
        """The role of a configured model, shared by all requests.

        Raises `Problem` 404; `param` is the field of the request that named it.
        """
        try:
            return self.models.model(name)
        except KeyError:
            raise no_model(name, param) from None


@asynccontextmanager
async def open_service(settings: Settings) -> AsyncIterator[Service]:
    """Open what the settings name, and close all of it afterwards.

    Raises `ConfigError` for a model's options, `StoreError` for the database.
    """
    url = settings.place.store_url
    require_folder(url, "the database", made=settings.out)
    async with AsyncExitStack() as stack:
        store = await asyncio.to_thread(Store, url)
        stack.push_async_callback(store.aclose)
        queue = Queue(url)
        stack.push_async_callback(queue.aclose)
        facts = {key: Facts(**values) for key, values in store.image_facts().items()}
        uploads = Uploads(settings.uploads, settings.sizes.image_limits)
        stack.callback(uploads.close)
        library = ImageStore(facts=facts)
        images = KnownImages(uploads, library)
        models = await asyncio.to_thread(ModelPool, settings.models, images)
        stack.push_async_callback(models.aclose)
        models.load(settings.preload)
        yield Service(
            settings=settings,
            store=store,
            queue=queue,
            uploads=uploads,
            library=library,
            facts=facts,
            images=images,
            models=models,
        )
