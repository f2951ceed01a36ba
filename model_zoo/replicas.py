"""Several equal backends behind one: how many GPUs of one machine share the work.

Placing is all that is done here. Starting the backends is their provider's matter, retrying the
runner's.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from mmconv.core.protocols import Backend
from mmconv.core.types import Message, Reply, Sampling

REMEMBERED = 65_536
"""How many conversations keep their place; those that were idle longest are placed again."""


class Replicas:
    """Backends of one model behind one `Backend`; takes at least one and closes them all.

    A conversation goes to the least loaded replica and stays there, where its prefix is cached. It
    moves only when its replica is full while another has room.
    """

    def __init__(self, backends: Sequence[Backend], *, remembered: int = REMEMBERED) -> None:
        if not backends:
            raise ValueError("replicas of nothing: give at least one backend")
        self._backends = tuple(backends)
        self._under_way = [0] * len(backends)
        self._places: OrderedDict[str, int] = OrderedDict()
        self._remembered = remembered

    @property
    def max_concurrency(self) -> int:
        """The sum over all replicas."""
        return sum(backend.max_concurrency for backend in self._backends)

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        """Answer once, on the conversation's replica; raises what that replica raises."""
        place = self._place(affinity)
        self._under_way[place] += 1
        try:
            return await self._backends[place].generate(messages, sampling, affinity=affinity)
        finally:
            self._under_way[place] -= 1

    async def aclose(self) -> None:
        """Close every replica, even if closing one fails; the first failure is raised."""
        closing = (backend.aclose() for backend in self._backends)
        for error in await asyncio.gather(*closing, return_exceptions=True):
            if error is not None:
                raise error

    def _place(self, affinity: str) -> int:
        place = self._places.pop(affinity, None)
        best = min(range(len(self._backends)), key=self._load)
        if place is None or self._load(place) >= 1 > self._load(best):
            place = best
        self._places[affinity] = place
        if len(self._places) > self._remembered:
            self._places.popitem(last=False)
        return place

    def _load(self, place: int) -> float:
        return self._under_way[place] / self._backends[place].max_concurrency
