"""The models of one process: each is loaded once, at its first call or before.

A role from `role` is shared by all synchronous requests; `guest` makes one that a request may stop.
A run gets its own roles from `lend`, over the same backends and their concurrency limits, so that
stopping it or closing its models affects nothing else. Slots are assigned in order of request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from mmconv.core.config import ModelSpec, RunSpec, SamplingSpec
from mmconv.core.protocols import Backend, ImageSource
from mmconv.core.types import Message, Reply, Sampling
from mmconv.engine import Model, RoleModel
from mmconv.engine.limiter import ConcurrencyLimiter, Stopped
from mmconv.engine.setup import build_role_model, model_identity
from model_zoo.providers import provider_of

log = logging.getLogger(__name__)

_NO_PRECEDENCE = 0
"""The priority of every call for a backend's slots: first come, first served."""


class ModelPool:
    """Configured models by their public names; backends read images from `images`.

    Creating one checks the options of every model and loads none. Checkpoints are hashed, so it is
    created in a thread. Raises `ConfigError`.
    """

    def __init__(self, specs: Mapping[str, ModelSpec], images: ImageSource) -> None:
        self.specs = dict(specs)
        self._images = images
        self._sources: dict[str, _Source] = {}
        shared: dict[int, Model] = {}
        self._roles = {name: self._role(spec, shared) for name, spec in specs.items()}

    def model(self, name: str) -> RoleModel:
        """The role that synchronous requests share. Raises `KeyError`."""
        return self._roles[name]

    def lend(self, spec: RunSpec) -> dict[str, RoleModel]:
        """Roles for one run, which may stop and close their models."""
        own: dict[int, Model] = {}
        return {
            name: self._role(model, own, spec.sampling.get(name), spec.seed)
            for name, model in spec.models.items()
        }

    def load(self, names: Iterable[str]) -> tuple[str, ...]:
        """The models of these that are not loaded yet. Starts loading them, again if it failed."""
        return tuple(name for name in names if not self._source(self.specs[name]).load())

    async def aclose(self) -> None:
        """Close every open model and cancel loading; then raise the first error, if any."""
        closing = (source.aclose() for source in self._sources.values())
        for error in await asyncio.gather(*closing, return_exceptions=True):
            if error is not None:
                raise error

    def _role(
        self,
        spec: ModelSpec,
        models: dict[int, Model],
        sampling: SamplingSpec | None = None,
        seed: int = 0,
    ) -> RoleModel:
        """A role on the model of this spec in `models`, where a new one is added."""
        source = self._source(spec)
        if id(source) not in models:
            models[id(source)] = _Borrower(source.fingerprint, source.open, spec.attempts)
        return build_role_model(spec, models[id(source)], sampling, seed)

    def _source(self, spec: ModelSpec) -> _Source:
        same = model_identity(spec)
        if same not in self._sources:
            self._sources[same] = _Source(spec, self._images)
        return self._sources[same]


def guest(role: RoleModel) -> RoleModel:
    """The role for one request alone: stopping its model stops no other calls."""
    return replace(role, model=_Guest(role.model))


def guides_output(spec: ModelSpec) -> bool:
    """Whether the model's backend can make replies match a JSON schema."""
    return provider_of(spec).guides_output(spec)


class _Source:
    """A backend that is opened once and lent to several models."""

    def __init__(self, spec: ModelSpec, images: ImageSource) -> None:
        self._spec = spec
        self._images = images
        self._opening: asyncio.Task[_Lent] | None = None
        self.fingerprint = provider_of(spec).fingerprint(spec)

    async def open(self) -> Backend:
        # Loading may take longer than a client waits. The next request finds it under way.
        return await asyncio.shield(self._begun())

    def load(self) -> bool:
        """Start opening it, unless that is under way. Returns whether it is open."""
        return self._begun().done()

    def _begun(self) -> asyncio.Task[_Lent]:
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
            # Its failure is logged, and may have no other reader.
            self._opening.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return self._opening

    async def aclose(self) -> None:
        """Close the backend, or cancel its loading."""
        opening, self._opening = self._opening, None
        if opening is None:
            return
        opening.cancel()
        await asyncio.wait((opening,))
        if not opening.cancelled() and opening.exception() is None:
            await opening.result().backend.aclose()

    async def _open(self) -> _Lent:
        try:
            provider = provider_of(self._spec)
            return _Lent(await provider.open_backend(self._spec, self._images))
        except Exception as error:
            # The next request tries again. Those that wait now may all have left.
            log.error("model %s cannot be opened: %s", self._spec.label, error)
            self._opening = None
            raise


class _Lent:
    """A backend as its borrowers see it: they share its slots, and do not close it.

    Once `stopping` is set it gets no more calls.
    """

    def __init__(
        self,
        backend: Backend,
        slots: ConcurrencyLimiter | None = None,
        stopping: asyncio.Event | None = None,
    ) -> None:
        self.backend = backend
        self._stopping = stopping or asyncio.Event()
        if slots is None:
            slots = ConcurrencyLimiter()
            slots.open(backend.max_concurrency)
        self._limiter = slots

    def until(self, stopping: asyncio.Event) -> _Lent:
        """The same for a borrower that may stop, and then calls `turn_away`."""
        return _Lent(self.backend, self._limiter, stopping)

    def turn_away(self) -> None:
        """Have the borrower's calls that wait for a slot raise `Stopped`."""
        self._limiter.turn_away(self._stopping)

    @property
    def max_concurrency(self) -> int:
        return self.backend.max_concurrency

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        await self._limiter.acquire(_NO_PRECEDENCE, self._stopping)
        try:
            if self._stopping.is_set():
                raise Stopped
            return await self.backend.generate(messages, sampling, affinity=affinity)
        finally:
            self._limiter.release()

    async def aclose(self) -> None:
        """Only the owner closes the backend."""


class _Borrower(Model):
    """A model over a lent backend, whose slots others may hold. Stopped, it makes no more calls.

    Without this, its calls that wait for those slots would still be made.
    """

    _lent: _Lent | None = None

    def stop(self) -> None:
        """As `Model.stop`. Calls that wait for others raise `Stopped` too."""
        super().stop()
        self._turn_away()

    async def _ready(self) -> Backend:
        backend = await self._borrowed()
        assert isinstance(backend, _Lent)
        self._lent = backend.until(self._stopping)
        return self._lent

    async def _borrowed(self) -> Backend:
        return await super()._ready()

    def _turn_away(self) -> None:
        if self._lent is not None:
            self._lent.turn_away()


class _Guest(_Borrower):
    """A model that others call at the same time, with its limits.

    Stopping it ends its waiting calls, but not those of others.
    """

    def __init__(self, host: Model) -> None:
        super().__init__(host.fingerprint, host._open_backend, host._attempts)
        self._host = host
        self._limiter = host._limiter

    def stop(self) -> None:
        """Make no new calls. Calls under way finish, waiting calls raise `Stopped`."""
        self._stopping.set()
        self._limiter.turn_away(self)
        self._turn_away()

    async def _borrowed(self) -> Backend:
        return await self._host._ready()
