"""The resources of a run: the store, the image library and the models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import TypedDict, TypeVar

from images import Facts, ImageStore
from mmconv.core.config import RunSpec
from mmconv.engine import RoleModel, Runner
from mmconv.engine.setup import build_model, build_models
from mmconv.store import Store

Data = TypeVar("Data")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The store, image library and models of one run; `facts` has image metadata by hash."""

    spec: RunSpec
    store: Store
    library: ImageStore
    models: dict[str, RoleModel]
    facts: dict[str, Facts]

    async def read_data(self, read: Callable[[ImageStore], Data]) -> Data:
        """Read data in a thread, and write new image metadata to the store."""
        known = set(self.facts)
        try:
            return await asyncio.to_thread(read, self.library)
        finally:
            new = [asdict(fact) for sha256, fact in self.facts.items() if sha256 not in known]
            await asyncio.to_thread(self.store.add_image_facts, new)

    def runner(
        self, *, offline: bool = False, before_asking: Callable[[], None] | None = None
    ) -> Runner:
        """A runner for these models; see `mmconv.engine.Runner`."""
        return Runner(self.models, self.store, offline=offline, before_asking=before_asking)

    async def close_models(self) -> None:
        """Close all models, even if one raises; unless stopped, they can be opened again."""
        closing = (role.model.aclose() for role in self.models.values())
        for error in await asyncio.gather(*closing, return_exceptions=True):
            if error is not None:
                raise error


@asynccontextmanager
async def open_resources(
    spec: RunSpec, store_url: str, *, create: bool = True
) -> AsyncIterator[Resources]:
    """The store, which must exist without `create`, and the models, closed at the end."""
    async with open_shared(store_url, create=create) as shared:
        library = shared["library"]
        roles = build_models(spec, partial(build_model, images=library, store=shared["store"]))
        resources = Resources(spec=spec, models=roles, **shared)
        try:
            yield resources
        finally:
            await resources.close_models()


class SharedResources(TypedDict):
    """The resources that several runs may share: those of `Resources` without the models."""

    store: Store
    library: ImageStore
    facts: dict[str, Facts]


@asynccontextmanager
async def open_shared(store_url: str, *, create: bool = True) -> AsyncIterator[SharedResources]:
    """Open the store, with its image metadata; raises `StoreError`."""
    store = Store(store_url, create=create)
    try:
        facts = {key: Facts(**values) for key, values in store.image_facts().items()}
        yield {"store": store, "library": ImageStore(facts=facts), "facts": facts}
    finally:
        await store.aclose()
