"""Benchmarks that are built: their data checked, ready to plan; the last few of one process.

Building reads all data, so what a request has checked the worker need not check again. What that
finds out about images is kept in the store: after a restart they are hashed, and not decoded again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from functools import partial
from typing import Any

from mmconv.core.config import RunSpec
from mmconv.core.protocols import Benchmark
from mmconv.engine.resources import Resources
from mmconv.engine.run import Evaluation
from mmconv.engine.setup import build_benchmark
from mmconv.service.state import Service

KEPT = 8
"""How many benchmarks are kept; each holds its data set's texts."""


class BenchmarkCache:
    """Builds benchmarks in threads, one at a time, and keeps the last few."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._built: OrderedDict[str, Benchmark[Any]] = OrderedDict()
        self._building = asyncio.Lock()

    async def get(self, spec: RunSpec) -> Benchmark[Any]:
        """The benchmark of a run; raises `InputError` for options or data."""
        name = spec.model_dump_json()
        if name not in self._built:
            async with self._building:
                # Another request may have built it meanwhile.
                if name not in self._built:
                    await self._build(name, spec)
        self._built.move_to_end(name)
        return self._built[name]

    async def _build(self, name: str, spec: RunSpec) -> None:
        self._built[name] = await self._equipment(spec).read_data(partial(build_benchmark, spec))
        if len(self._built) > KEPT:
            self._built.popitem(last=False)

    async def evaluation(self, spec: RunSpec) -> Evaluation:
        """A run with seats of its own; whoever stops it stops nothing else."""
        return Evaluation(
            spec=spec,
            place=self._service.settings.place,
            resources=self._equipment(spec),
            benchmark=await self.get(spec),
        )

    def _equipment(self, spec: RunSpec) -> Resources:
        service = self._service
        return Resources(
            spec=spec,
            store=service.store,
            library=service.library,
            seats=service.models.lend(spec),
            facts=service.facts,
        )
