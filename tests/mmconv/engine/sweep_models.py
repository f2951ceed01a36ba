"""A provider for sweeps: it counts how often each model is loaded, and some models fail.

`broken` cannot be loaded, `dying` answers nothing, `judge` rates. Others answer their name.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, Transient
from mmconv.core.keys import hash_json
from mmconv.core.protocols import ImageSource
from mmconv.core.types import Reply, Sampling
from tests.messages import Messages

LOADED: Counter[str] = Counter()
OPEN: set[str] = set()
TOGETHER: set[frozenset[str]] = set()
HELD = asyncio.Event()
"""Set when model `held` is asked, which answers once `HOLD` is set."""
HOLD = asyncio.Event()


def fingerprint(spec: ModelSpec) -> str:
    return hash_json(["sweep", spec.model])


async def open_backend(spec: ModelSpec, images: ImageSource) -> Backend:
    LOADED[spec.model] += 1
    if spec.model == "broken":
        raise ConfigError("broken: it has no weights")
    return Backend(spec)


class Backend:
    max_concurrency = 2

    def __init__(self, spec: ModelSpec) -> None:
        self._name = spec.model
        OPEN.add(self._name)
        TOGETHER.add(frozenset(OPEN))

    async def generate(self, messages: Messages, sampling: Sampling, *, affinity: str) -> Reply:
        if self._name == "dying":
            raise Transient("connection", "it has died")
        if self._name == "held":
            HELD.set()
            await HOLD.wait()
        return Reply(text="Rating: 7" if self._name == "judge" else self._name)

    async def aclose(self) -> None:
        OPEN.discard(self._name)
