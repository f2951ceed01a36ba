"""The models of one process: each is loaded once, at its first call or before.

A role from `model` is shared by all synchronous requests. A run gets its own roles from `lend`,
over the same backends and their slots, so that stopping it or closing its models affects nothing
else. Slots are assigned in order of request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.protocols import Backend, ImageSource
from mmconv.engine import Model, RoleModel
from mmconv.engine.limiter import ConcurrencyLimiter
from mmconv.engine.setup import build_models, model_identity
from model_zoo.providers import provider_of

log = logging.getLogger(__name__)


class ModelPool:
    """Configured models by their public names; backends read images from `images`.

    Creating one checks the options of every model and loads none. Checkpoints are hashed, so it is
    created in a thread. Raises `ConfigError`.
    """

    def __init__(self, specs: Mapping[str, ModelSpec], images: ImageSource) -> None:
        self.specs = dict(specs)
        self._images = images
        self._sources: dict[str, _Source] = {}
        self._roles = self.lend(RunSpec(benchmark="", models=specs))

    def model(self, name: str) -> RoleModel:
        """The role that synchronous requests share. Raises `KeyError`."""
        return self._roles[name]

    def lend(self, spec: RunSpec) -> dict[str, RoleModel]:
        """Roles for one run, which may stop and close their models."""
        return build_models(spec, lambda model: self._source(model).lend())

    def load(self, names: Iterable[str]) -> tuple[str, ...]:
        """The models of these that are not loaded yet. Starts loading them, again if it failed."""
        return tuple(name for name in names if not self._source(self.specs[name]).load())

    async def aclose(self) -> None:
        """Close every open model and cancel loading; then raise the first error, if any."""
        closing = (source.aclose() for source in self._sources.values())
        for error in await asyncio.gather(*closing, return_exceptions=True):
            if error is not None:
                raise error

    def _source(self, spec: ModelSpec) -> _Source:
        same = model_identity(spec)
        if same not in self._sources:
            self._sources[same] = _Source(spec, self._images)
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
