"""The models of one process: each is loaded once, at its first call, whoever asks it.

A seat from `seat` is shared by all synchronous requests. A run gets seats of its own from `lend`,
over the same backends and their slots, so that stopping it or closing its models touches nothing
else. Slots are given in the order of asking: nobody has precedence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from mmconv.assemble import Provider, build_seat, find_provider, model_identity
from mmconv.config import ModelSpec, RunSpec, SamplingSpec
from mmconv.protocols import Backend, ImageSource
from mmconv.runner import Model, Seat
from mmconv.values import Message, Reply, Sampling


class Models:
    """Configured models by their public names; `images` is where backends read pictures.

    Making one checks the options of every model and loads none; checkpoints are hashed, so it is
    made in a thread. Raises `mmconv.errors.ConfigError`.
    """

    def __init__(self, specs: Mapping[str, ModelSpec], images: ImageSource) -> None:
        self.specs = dict(specs)
        self._images = images
        self._sources: dict[str, _Source] = {}
        shared: dict[int, Model] = {}
        self._seats = {name: self._seat(spec, None, shared) for name, spec in specs.items()}

    def seat(self, name: str) -> Seat:
        """The seat that synchronous requests share; raises `KeyError`."""
        return self._seats[name]

    def lend(self, spec: RunSpec) -> dict[str, Seat]:
        """Seats for one run, which may stop and close their models as it likes."""
        own: dict[int, Model] = {}
        return {
            name: self._seat(model, spec.sampling.get(name), own)
            for name, model in spec.seats.items()
        }

    async def aclose(self) -> None:
        """Close every model that was opened."""
        for source in self._sources.values():
            await source.aclose()

    def _seat(
        self, spec: ModelSpec, sampling: SamplingSpec | None, models: dict[int, Model]
    ) -> Seat:
        """A seat on the model of `models` that this spec names; a new one is added to them."""
        source = self._source(spec)
        if id(source) not in models:
            models[id(source)] = Model(source.fingerprint, source.open, spec.attempts)
        return build_seat(spec, models[id(source)], sampling)

    def _source(self, spec: ModelSpec) -> _Source:
        same = model_identity(spec)
        if same not in self._sources:
            self._sources[same] = _Source(spec, self._images)
        return self._sources[same]


def guides_output(spec: ModelSpec) -> bool:
    """Whether the model's backend makes its replies obey a JSON schema."""
    if spec.provider in ("openai", "vllm"):
        return bool(spec.options.get("guided_json", spec.provider == "vllm"))
    # Of the fakes, one answers with JSON where it is asked to.
    return (spec.provider, spec.model) == ("fake", "judge")


class _Source:
    """A backend that is opened once and lent to several models."""

    def __init__(self, spec: ModelSpec, images: ImageSource) -> None:
        self._provider: Provider = find_provider(spec.provider)
        self._spec = spec
        self._images = images
        self._opening = asyncio.Lock()
        self._lent: _Lent | None = None
        self.fingerprint = self._provider.fingerprint(spec)

    async def open(self) -> Backend:
        async with self._opening:
            if self._lent is None:
                backend = await self._provider.open_backend(self._spec, self._images)
                self._lent = _Lent(backend)
        return self._lent

    async def aclose(self) -> None:
        async with self._opening:
            if self._lent is not None:
                await self._lent.backend.aclose()
                self._lent = None


class _Lent:
    """A backend as its borrowers see it: they share its slots, and closing it is not theirs."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._slots = asyncio.Semaphore(backend.max_concurrency)

    @property
    def max_concurrency(self) -> int:
        return self.backend.max_concurrency

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        async with self._slots:
            return await self.backend.generate(messages, sampling, affinity=affinity)

    async def aclose(self) -> None:
        """The owner closes the backend; a borrower only lets go of it."""
