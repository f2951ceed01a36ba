"""What the requests of one process share, opened once and closed once. Nothing here knows HTTP."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from images import Facts, ImageStore
from images.uploads import Uploads
from mmconv.benchmarks.base import Benchmark
from mmconv.benchmarks.options import file_options
from mmconv.core.config import ModelSpec, RunSpec, ray_address
from mmconv.core.errors import ConfigError, ImageError
from mmconv.core.protocols import Backend, ImageSource
from mmconv.engine import Model, RoleModel
from mmconv.engine.limiter import ConcurrencyLimiter
from mmconv.engine.resources import Resources, close_all
from mmconv.engine.run import Evaluation
from mmconv.engine.setup import build_benchmark, build_models, model_identity
from mmconv.run_folder.saved_run import read_spec
from mmconv.service.datasets import Datasets, OwnDataset
from mmconv.service.errors import Problem
from mmconv.service.metrics import Meter, Metrics
from mmconv.service.run_requests import (
    CUSTOM,
    RunRequest,
    description,
    name_run,
    named_model,
    resolve,
)
from mmconv.service.settings import DataSpec, Settings
from mmconv.store import Store
from mmconv.store.connections import require_folder
from mmconv.store.jobs import Filter, Job
from mmconv.store.queue import Queue
from model_zoo.providers import provider_of

log = logging.getLogger(__name__)

CACHED = 8
"""How many built benchmarks are cached. Each holds the texts of its dataset."""


class KnownImages(ImageSource):
    """Images by hash, from uploads of clients and files of datasets."""

    def __init__(self, uploads: Uploads, library: ImageStore, datasets: Datasets) -> None:
        self._uploads = uploads
        self._library = library
        self._datasets = datasets

    def read(self, sha256: str) -> bytes:
        """The original bytes. Raises `ImageError`, in words for clients, if they are gone."""
        source: ImageSource = self._uploads
        if not self._uploads.holds(sha256):
            source = self._datasets.source(sha256) or self._library
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What requests share on any server of this package.

    `images` reads images by hash. `image_work` bounds how many are decoded at once. `meters` count
    what tokens use, by name. `draining` is set when the process shuts down: streams end, and
    workers take no more jobs. `started` is in seconds since the epoch.
    """

    settings: Settings
    images: ImageSource
    meters: defaultdict[str, Meter] = field(default_factory=lambda: defaultdict(Meter))
    metrics: Metrics = field(default_factory=Metrics)
    draining: asyncio.Event = field(default_factory=asyncio.Event)
    image_work: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))
    started: float = field(default_factory=time.time)

    def drain(self) -> None:
        """Announce the shutdown."""
        self.draining.set()

    def may_read(self, _sha256: str, _owner: str | None, *, data: bool) -> bool:
        """Whether this owner may read an image that is here, with or without those of datasets."""
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class Readable(Serving, ABC):
    """What requests that read runs share, on a server (`Service`) or of a folder of runs.

    `queue` lists the runs, and `derived` is the folder of files that are made of them. `benchmarks`
    are the last ones whose data were read.

    Data is read, reports are made and live views of runs are planned one at a time, since each
    keeps a processor busy for a while: `reading`, `reporting`, `viewing`.
    """

    queue: JobList
    derived: Path
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    reporting: asyncio.Lock = field(default_factory=asyncio.Lock)
    viewing: asyncio.Lock = field(default_factory=asyncio.Lock)
    benchmarks: OrderedDict[str, Benchmark[Any, Any]] = field(default_factory=OrderedDict)

    async def cached_benchmark(
        self, key: str, build: Callable[[], Awaitable[Benchmark[Any, Any]]]
    ) -> Benchmark[Any, Any]:
        """The benchmark of this key, built unless it is one of the last few."""
        if key not in self.benchmarks:
            async with self.reading:
                # Another request may have built it meanwhile.
                if key not in self.benchmarks:
                    self.benchmarks[key] = await build()
                    if len(self.benchmarks) > CACHED:
                        self.benchmarks.popitem(last=False)
        self.benchmarks.move_to_end(key)
        return self.benchmarks[key]

    def find_data(self, name: str, _owner: str | None) -> DataSpec | None:
        """The dataset of this name, if runs of this owner, or of any, may name it."""
        return self.settings.data.get(name)

    def own_data(self, _owner: str | None) -> list[OwnDataset]:
        """The datasets that this owner sent, or all, the newest first."""
        return []

    @abstractmethod
    async def open_run(self, job: Job) -> Evaluation:
        """The evaluation that a job stands for. Raises `InputError`."""

    @abstractmethod
    async def open_data(self, job: Job) -> Benchmark[Any, Any]:
        """The benchmark with the data of a run, whatever its models are. Raises `InputError`."""

    @abstractmethod
    def public_spec(self, job: Job, folder: Path) -> RunSpec:
        """The specification of the run in a folder as clients may see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service(Readable):
    """What requests share.

    `store` caches replies (of runs, dialogues and judgements, not of chat), `queue` holds the jobs.
    `uploads` are images of clients, `library` those of the operator's datasets, `datasets` those of
    clients, `facts` the metadata of all images by hash, `images` reads them. `fetches` bounds how
    many are fetched by URL at once.
    """

    store: Store
    queue: Queue
    uploads: Uploads
    library: ImageStore
    datasets: Datasets
    facts: dict[str, Facts]
    models: ModelPool
    fetches: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(16))

    def drain(self) -> None:
        """Announce the shutdown; wakes a worker that waits for jobs."""
        self.draining.set()
        self.queue.news.set()

    def may_read(self, sha256: str, owner: str | None, *, data: bool) -> bool:
        """See `Serving`."""
        if self.uploads.owns(owner, sha256):
            return True
        return data and (
            self.library.holds(sha256) or self.datasets.source(sha256, owner) is not None
        )

    def find_data(self, name: str, owner: str | None) -> DataSpec | None:
        """See `Readable`."""
        own = self.datasets.find(name, owner)
        return own.spec if own else self.settings.data.get(name)

    def own_data(self, owner: str | None) -> list[OwnDataset]:
        """See `Readable`."""
        return self.datasets.of(owner)

    def stored(self, owner: str) -> int:
        """The bytes of this owner's images and datasets."""
        return self.uploads.used(owner) + self.datasets.used(owner)

    def room(self, owner: str, stored_bytes: int) -> int:
        """How many of these bytes the owner's images and datasets leave."""
        return max(stored_bytes - self.stored(owner), 0)

    async def open_run(self, job: Job) -> Evaluation:
        """See `Readable`. Raises `ConfigError` if what the run names is configured otherwise."""
        request = RunRequest.model_validate_json(job.spec)
        spec = self._resolve(request)
        if name_run(request, spec) != job.id:
            raise ConfigError("what this run names is configured otherwise by now; post it again")
        return await self.evaluation(spec)

    async def open_data(self, job: Job) -> Benchmark[Any, Any]:
        """See `Readable`."""
        return await self.benchmark(self._resolve(RunRequest.model_validate_json(job.spec)))

    def _resolve(self, request: RunRequest) -> RunSpec:
        try:
            return resolve(self.settings, request, self.find_data(request.data, None))
        except Problem as problem:
            raise ConfigError(problem.message) from problem

    def public_spec(self, job: Job, folder: Path) -> RunSpec:
        """The run's specification with the operator's names for files and models.

        For our own benchmarks it has all options, because reports read them.
        """
        request = RunRequest.model_validate_json(job.spec)
        options = {"data": request.data, **request.options}
        if (known := description(job.benchmark or "")) is not CUSTOM:
            files = file_options(known.options)
            options = {
                name: request.data if name in files else value
                for name, value in read_spec(folder).options.items()
            }
        return RunSpec(
            benchmark=job.benchmark or "",
            options=options,
            models={role: self._public_model(name) for role, name in request.models.items()},
            **request.unnamed(),
        )

    def _public_model(self, name: str) -> ModelSpec:
        own = self.settings.models.get(name)
        if own is None:
            return ModelSpec(provider="unknown", model=name)
        shown = {"name": own.name or name, "system": own.system, "sampling": own.sampling}
        return ModelSpec(provider=own.provider, model=name, price=own.price, **shown)

    def model(self, name: str, param: str = "model") -> RoleModel:
        """The role of a configured model, shared by all requests.

        Raises `Problem` 404; `param` is the field of the request that named it.
        """
        named_model(self.settings, name, param)
        return self.models.roles[name]

    async def benchmark(self, spec: RunSpec) -> Benchmark[Any, Any]:
        """The benchmark of a run, its data read and checked. Raises `InputError`.

        The last few are cached, so the worker need not check what a request has checked. Image
        metadata goes into the store: after a restart images are hashed but not decoded again.
        """
        read = self._resources_for(spec).read_data
        build = partial(read, partial(build_benchmark, spec))
        return await self.cached_benchmark(spec.model_dump_json(), build)

    def forget_data(self, name: str) -> None:
        """Drop the benchmarks of a removed dataset, so that an equal one is read again."""
        for key in [*self.benchmarks]:
            options = RunSpec.model_validate_json(key).options
            if Path(str(options.get("data"))).parent.name == name:
                del self.benchmarks[key]

    async def evaluation(self, spec: RunSpec) -> Evaluation:
        """A run with roles of its own, so that stopping it stops nothing else."""
        return Evaluation(
            spec=spec,
            place=self.settings.place,
            resources=self._resources_for(spec),
            models=self.models.lend(spec),
            benchmark=await self.benchmark(spec),
        )

    def _resources_for(self, spec: RunSpec) -> Resources:
        library = self.datasets.library(spec) or self.library
        return Resources(store=self.store, library=library, facts=self.facts)


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
        datasets = Datasets(settings, facts)
        images = KnownImages(uploads, library, datasets)
        models = await asyncio.to_thread(ModelPool, settings.models, images)
        stack.push_async_callback(models.aclose)
        models.load(settings.preload)
        yield Service(
            settings=settings,
            store=store,
            queue=queue,
            uploads=uploads,
            library=library,
            datasets=datasets,
            facts=facts,
            images=images,
            derived=settings.out,
            models=models,
        )


class ModelPool:
    """Configured models by their public names; backends read images from `images`.

    Creating one checks the options of every model and loads none. Checkpoints are hashed, so it is
    created in a thread. Raises `ConfigError`.
    """

    def __init__(self, specs: Mapping[str, ModelSpec], images: ImageSource) -> None:
        self._specs = specs
        self._images = images
        self._sources: dict[str, _Source] = {}
        self.roles = self.lend(RunSpec(benchmark="", models=specs))

    def lend(self, spec: RunSpec) -> dict[str, RoleModel]:
        """Roles for one run, which may stop and close their models."""
        return build_models(spec, lambda model: self._source(model).lend())

    def load(self, names: Iterable[str]) -> tuple[str, ...]:
        """The models of these that are not loaded yet. Starts loading them, again if it failed."""
        return tuple(name for name in names if not self._source(self._specs[name]).load())

    async def aclose(self) -> None:
        """Close every open model and cancel loading; then raise the first error, if any."""
        await close_all(source.aclose() for source in self._sources.values())

    def _source(self, spec: ModelSpec) -> _Source:
        same = model_identity(spec)
        if same not in self._sources:
            # servers on one cluster share its replicas
            detached = spec.detached or ray_address() != "local"
            own = spec.model_copy(update={"detached": detached})
            self._sources[same] = _Source(own, self._images)
        return self._sources[same]


class _Source:
    """A backend that is opened once and lent to several models, which share its slots."""

    def __init__(self, spec: ModelSpec, images: ImageSource) -> None:
        self._spec = spec
        self._images = images
        self._slots = ConcurrencyLimiter()
        self._opening: asyncio.Task[Backend] | None = None
        self._fingerprint = provider_of(spec).fingerprint(spec)

    def lend(self) -> Model:
        return Model(self._fingerprint, self._open, self._spec.attempts, self._slots)

    def load(self) -> bool:
        """Start opening it, unless that is under way. Returns whether it is open."""
        return self._begun().done()

    async def aclose(self) -> None:
        """Close the backend, or cancel its loading."""
        opening, self._opening = self._opening, None
        if opening is None:
            return
        opening.cancel()
        await asyncio.wait((opening,))
        if not opening.cancelled() and opening.exception() is None:
            await opening.result().aclose()

    async def _open(self) -> Backend:
        # Loading may take longer than a client waits. The next request finds it under way.
        return await asyncio.shield(self._begun())

    def _begun(self) -> asyncio.Task[Backend]:
        if self._opening is None:
            self._opening = asyncio.create_task(self._really_open())
            # Its failure is logged, and may have no other reader.
            self._opening.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return self._opening

    async def _really_open(self) -> Backend:
        try:
            backend = await provider_of(self._spec).open_backend(self._spec, self._images)
            self._slots.open(backend.max_concurrency)
        except Exception as error:
            # The next request tries again. Those that wait now may all have left.
            log.error("model %s cannot be opened: %s", self._spec.label, error)
            self._opening = None
            raise
        return backend
