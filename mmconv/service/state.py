"""What the requests of one process share, opened once and closed once. Nothing here knows HTTP."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from images import Facts, ImageStore
from images.uploads import Uploads
from mmconv.core.errors import ImageError
from mmconv.core.protocols import ImageSource
from mmconv.engine import Seat
from mmconv.service.errors.problems import no_model
from mmconv.service.http.rate_limits import Meters
from mmconv.service.metrics import Metrics
from mmconv.service.models.pool import ModelPool
from mmconv.service.settings import Settings
from mmconv.store import Store
from mmconv.store.connections import require_folder
from mmconv.store.queue import Queue

log = logging.getLogger(__name__)


class Pictures(ImageSource):
    """Images by hash, wherever they came from: uploads of clients, and files of data sets."""

    def __init__(self, uploads: Uploads, library: ImageStore) -> None:
        self._uploads = uploads
        self._library = library

    def holds(self, sha256: str) -> bool:
        """Whether the image is here."""
        return self._uploads.holds(sha256) or self._library.holds(sha256)

    def read(self, sha256: str) -> bytes:
        """The original bytes.

        Raises `ImageError` if they are not there, in words that clients may read.
        """
        source: ImageSource = self._uploads if self._uploads.holds(sha256) else self._library
        try:
            return source.read(sha256)
        except ImageError as error:
            log.warning("an image cannot be given out: %s", error)
            raise ImageError(
                f"image {sha256}: its file on the server is gone or was changed; whoever runs the "
                "server can put it back"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What requests share.

    `store` keeps replies (chat does not use it; runs, dialogues and judgements do), `queue` the
    jobs. `uploads` are the images of clients, `library` knows those of data sets (runs add to it)
    and `facts` what was found out about them, by hash; `pictures` reads both, as models do.
    `image_work` bounds how many are decoded at once, `fetches` how many come by URL. `models` are
    shared by everything in this process. `meters` count what tokens use, `metrics` are
    Prometheus's. `draining` is set when the process has been told to end: streams end then, and
    workers take nothing more. `started` is in seconds since the epoch.
    """

    settings: Settings
    store: Store
    queue: Queue
    uploads: Uploads
    library: ImageStore
    facts: dict[str, Facts]
    pictures: Pictures
    models: ModelPool
    meters: Meters = field(default_factory=Meters)
    metrics: Metrics = field(default_factory=Metrics)
    draining: asyncio.Event = field(default_factory=asyncio.Event)
    image_work: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))
    fetches: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(16))
    started: float = field(default_factory=time.time)

    def drain(self) -> None:
        """Tell all that the process is ending; a worker that waits for jobs hears it at once."""
        self.draining.set()
        self.queue.news.set()

    def model(self, name: str, param: str = "model") -> Seat:
        """The seat of a configured model, shared by all requests.

        Raises `Problem` 404; `param` is the field of the request that named it.
        """
        try:
            return self.models.seat(name)
        except KeyError:
            raise no_model(name, param) from None


@asynccontextmanager
async def open_service(settings: Settings) -> AsyncIterator[Service]:
    """Open what the settings name; close all of it afterwards.

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
        pictures = Pictures(uploads, library)
        models = await asyncio.to_thread(ModelPool, settings.models, pictures)
        stack.push_async_callback(models.aclose)
        models.load(settings.preload)
        yield Service(
            settings=settings,
            store=store,
            queue=queue,
            uploads=uploads,
            library=library,
            facts=facts,
            pictures=pictures,
            models=models,
        )
