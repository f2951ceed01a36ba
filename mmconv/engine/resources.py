"""The resources of runs: the store and the image library, and the models of each run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import TypeVar

from images import Facts, ImageStore
from mmconv.core.config import RunSpec
from mmconv.engine import RoleModel
from mmconv.engine.setup import build_model, build_models
from mmconv.store import Store

Data = TypeVar("Data")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The store and image library of runs; `facts` has image metadata by hash."""

    store: Store
    library: ImageStore
    facts: dict[str, Facts]

    async def read_data(self, read: Callable[[ImageStore], Data]) -> Data:
        """Read data in a thread, and write new image metadata to the store."""
        known = set(self.facts)
        try:
            return await asyncio.to_thread(read, self.library)
        finally:
            new = [asdict(fact) for sha256, fact in self.facts.items() if sha256 not in known]
            await asyncio.to_thread(self.store.add_image_facts, new)


@asynccontextmanager
async def open_resources(store_url: str, *, create: bool = True) -> AsyncIterator[Resources]:
    """The store, which must exist without `create`, closed at the end; raises `StoreError`."""
    store = Store(store_url, create=create)
    try:
        facts = {key: Facts(**values) for key, values in store.image_facts().items()}
        yield Resources(store=store, library=ImageStore(facts=facts), facts=facts)
    finally:
        await store.aclose()


@asynccontextmanager
async def open_models(spec: RunSpec, resources: Resources) -> AsyncIterator[dict[str, RoleModel]]:
    """The models of a run by role, closed at the end."""
    build = partial(build_model, images=resources.library, store=resources.store)
    models = build_models(spec, build)
    try:
        yield models
    finally:
        await close_all(role.model.aclose() for role in models.values())


async def close_all(closing: Iterable[Awaitable[None]]) -> None:
    """Wait until all are closed together, even if one raises; then raise the first error."""
    for error in await asyncio.gather(*closing, return_exceptions=True):
        if error is not None:
            raise error
