"""What the requests of one process share, opened once and closed once. Nothing here knows HTTP."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from images import Facts, ImageStore
from images.uploads import Uploads
from mmconv.benchmarks.base import Benchmark
from mmconv.core.config import RunSpec
from mmconv.core.errors import ImageError
from mmconv.core.protocols import ImageSource
from mmconv.engine import RoleModel
from mmconv.engine.resources import Resources
from mmconv.engine.run import Evaluation
from mmconv.engine.setup import build_benchmark
from mmconv.service.errors import no_model
from mmconv.service.metrics import Meter, Metrics
from mmconv.service.model_pool import ModelPool
from mmconv.service.settings import Settings
from mmconv.store import Store
from mmconv.store.connections import require_folder
from mmconv.store.jobs import Filter, Job
from mmconv.store.queue import Queue

log = logging.getLogger(__name__)

CACHED = 8
"""How many built benchmarks are cached. Each holds the texts of its dataset."""


class KnownImages(ImageSource):
    """Images by hash, from uploads of clients and files of datasets."""

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


class JobList(Protocol):
    """The jobs that requests read: those of a `Queue`, or of a folder of runs."""

    async def get(self, job_id: str, /) -> Job | None:
        """The job, if there is one of this id."""
        ...

    async def page(
        self, chosen: Filter, /, *, after: str | None = None, limit: int = 50
    ) -> list[Job]:
        """At most `limit` jobs, the newest first. Raises `KeyError` for an unknown `after`."""
        ...


class HeldImages(ImageSource, Protocol):
    """Images by hash that can be asked for."""

    def holds(self, sha256: str) -> bool:
        """Whether the image is here."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Readable(ABC):
    """What requests that read runs share, on a server (`Service`) or of a folder of runs.

    `queue` lists the runs, `images` reads those of their data, and `derived` is the folder of files
    that are made of them. `image_work` bounds how many images are decoded at once. `meters` count
    what tokens use, by name. `draining` is set when the process shuts down: streams end, and
    workers take no more jobs. `started` is in seconds since the epoch.

    Data is read, reports are made and live views of runs are planned one at a time, since each
    keeps a processor busy for a while: `reading`, `reporting`, `viewing`. `boards` are the last
    leaderboards as JSON.
    """

    settings: Settings
    queue: JobList
    images: HeldImages
    meters: defaultdict[str, Meter] = field(default_factory=lambda: defaultdict(Meter))
    metrics: Metrics = field(default_factory=Metrics)
    draining: asyncio.Event = field(default_factory=asyncio.Event)
    image_work: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))
    started: float = field(default_factory=time.time)
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    reporting: asyncio.Lock = field(default_factory=asyncio.Lock)
    viewing: asyncio.Lock = field(default_factory=asyncio.Lock)
    boards: dict[str, bytes] = field(default_factory=dict)

    @property
    @abstractmethod
    def derived(self) -> Path:
        """The folder of files that are made of runs."""

    @abstractmethod
    async def open_run(self, job: Job) -> Evaluation:
        """The evaluation that a job stands for. Raises `InputError`."""

    @abstractmethod
    async def open_data(self, job: Job) -> Benchmark[Any, Any]:
        """The benchmark with the data of a run, whatever its models are. Raises `InputError`."""

    @abstractmethod
    def public_spec(self, job: Job, folder: Path) -> RunSpec:
        """The specification of the run in a folder as clients may see it."""

    def drain(self) -> None:
        """Announce the shutdown."""
        self.draining.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Service(Readable):
    """What requests share.

    `store` caches replies (of runs, dialogues and judgements, not of chat), `queue` holds the jobs.
    `uploads` are images of clients, `library` those of datasets, `facts` the metadata of both by
    hash, `images` reads both. `fetches` bounds how many are fetched by URL at once.
    """

    store: Store
    queue: Queue
    uploads: Uploads
    library: ImageStore
    facts: dict[str, Facts]
    models: ModelPool
    fetches: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(16))
    benchmarks: OrderedDict[str, Benchmark[Any, Any]] = field(default_factory=OrderedDict)

    @property
    def derived(self) -> Path:
        """See `Readable`."""
        return self.settings.out

    async def open_run(self, job: Job) -> Evaluation:
        """See `Readable`."""
        # it imports this module
        from mmconv.service.runs.execution import open_run

        return await open_run(self, job)

    async def open_data(self, job: Job) -> Benchmark[Any, Any]:
        """See `Readable`."""
        from mmconv.service.runs.execution import open_run

        return (await open_run(self, job, other_models=True)).benchmark

    def public_spec(self, job: Job, folder: Path) -> RunSpec:
        """See `Readable`."""
        from mmconv.service.results.published import public_spec

        return public_spec(self.settings, job, folder)

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

    async def benchmark(self, spec: RunSpec) -> Benchmark[Any, Any]:
        """The benchmark of a run, its data read and checked. Raises `InputError`.

        The last few are cached, so the worker need not check what a request has checked. Image
        metadata goes into the store: after a restart images are hashed but not decoded again.
        """
        name = spec.model_dump_json()
        if name not in self.benchmarks:
            async with self.reading:
                # Another request may have built it meanwhile.
                if name not in self.benchmarks:
                    read = self._resources_for(spec).read_data
                    self.benchmarks[name] = await read(partial(build_benchmark, spec))
                    if len(self.benchmarks) > CACHED:
                        self.benchmarks.popitem(last=False)
        self.benchmarks.move_to_end(name)
        return self.benchmarks[name]

    async def evaluation(self, spec: RunSpec) -> Evaluation:
        """A run with roles of its own, so that stopping it stops nothing else."""
        return Evaluation(
            spec=spec,
            place=self.settings.place,
            resources=self._resources_for(spec),
            benchmark=await self.benchmark(spec),
        )

    def _resources_for(self, spec: RunSpec) -> Resources:
        return Resources(
            spec=spec,
            store=self.store,
            library=self.library,
            models=self.models.lend(spec),
            facts=self.facts,
        )


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
