"""A provider for Ray: models that note when they are open, and how many GPUs they have.

`options.log` is the file. A model answers once `options.together` replicas have been opened.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from mmconv.core.config import ModelSpec
from mmconv.core.keys import hash_json
from mmconv.core.protocols import ImageSource
from mmconv.core.types import Reply, Sampling
from tests.messages import Messages


def fingerprint(spec: ModelSpec) -> str:
    return hash_json(["sleeper", spec.model])


async def open_backend(spec: ModelSpec, images: ImageSource) -> Sleeper:
    return Sleeper(spec)


class Sleeper:
    max_concurrency = 4

    def __init__(self, spec: ModelSpec) -> None:
        self._name = spec.model
        self._log = Path(str(spec.options["log"]))
        self._together = int(spec.options["together"])
        self._gpus = len(os.environ["CUDA_VISIBLE_DEVICES"].split(","))
        self._note("+")

    def _note(self, sign: str) -> None:
        with self._log.open("a") as file:
            file.write(f"{sign}{self._gpus} {self._name}\n")

    async def generate(self, messages: Messages, sampling: Sampling, *, affinity: str) -> Reply:
        while self._log.read_text().count("+") < self._together:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return Reply(text=self._name)

    async def aclose(self) -> None:
        self._note("-")
