"""What calls are made with is given back, whatever goes wrong with a part of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from images import ImageStore
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.errors import DataError
from mmconv.core.types import Reply, Sampling
from mmconv.engine import Model, RoleModel
from mmconv.engine.resources import open_models, open_resources
from tests.images.pictures import encode, halves
from tests.messages import Messages


class Closing:
    """A model that takes a moment to close, or cannot be closed."""

    max_concurrency = 1

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self.closed = False

    async def open(self) -> Closing:
        return self

    async def generate(self, messages: Messages, sampling: Sampling, *, affinity: str) -> Reply:
        raise AssertionError("nobody asks it")

    async def aclose(self) -> None:
        if self.fault is not None:
            raise self.fault
        # only together: one waits for the other
        await BARRIER.wait()
        self.closed = True


BARRIER = asyncio.Barrier(2)


async def test_all_models_are_closed_together_whatever_one_of_them_raises(tmp_path: Path) -> None:
    broken, first, second = Closing(ValueError("stuck")), Closing(), Closing()
    echo = ModelSpec(provider="fake", model="echo")
    spec = RunSpec(benchmark="riddles", models={"candidate": echo})
    async with open_resources(str(tmp_path / "store.sqlite")) as resources, asyncio.timeout(10):
        with pytest.raises(ValueError, match="stuck"):
            async with open_models(spec, resources) as models:
                for name, backend in (("candidate", broken), ("judge", first), ("other", second)):
                    models[name] = RoleModel(model=Model(name, backend.open))
                    await models[name].model.open()
    assert first.closed
    assert second.closed


async def test_what_is_known_of_images_stays_though_the_data_are_faulty(
    tmp_path: Path,
) -> None:
    """Whoever mends a record and checks again waits for no picture twice."""
    picture = tmp_path / "one.png"
    picture.write_bytes(encode(halves(), "PNG"))

    def read(images: ImageStore) -> None:
        images.add_file(str(picture))
        raise DataError("data.xlsx", ["row 3: the reference is empty"])

    async with open_resources(str(tmp_path / "store.sqlite")) as resources:
        with pytest.raises(DataError, match="row 3"):
            await resources.read_data(read)
        assert resources.store.image_facts().keys() == resources.facts.keys()
        assert len(resources.facts) == 1
