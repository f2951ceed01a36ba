"""A provider of models that say where they run, and that fail in the ways that replicas can."""

from __future__ import annotations

import hashlib
import os
import subprocess

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, EngineDied, Refused
from mmconv.core.protocols import ImageSource
from mmconv.core.types import Reply, Sampling
from tests.messages import Messages


def fingerprint(spec: ModelSpec) -> str:
    return "a model of the tests"


async def open_backend(spec: ModelSpec, images: ImageSource) -> Engine:
    if spec.model == "broken":
        raise ConfigError("broken: it has no weights")
    return Engine(images)


class Engine:
    """Answers with the process ids of itself and its server, and the GPUs that it sees."""

    max_concurrency = 2

    def __init__(self, images: ImageSource) -> None:
        self._images = images
        self._server = subprocess.Popen(["cat"], stdin=subprocess.PIPE)

    async def generate(self, messages: Messages, sampling: Sampling, *, affinity: str) -> Reply:
        [message] = messages
        match message.text:
            case "refuse":
                raise Refused("context", "too long", input_tokens=7)
            case "die":
                raise EngineDied("the engine died")
            case "crash":
                os._exit(1)
            case "bug":
                raise ZeroDivisionError
        digests = [
            hashlib.sha256(self._images.read(image.sha256)).hexdigest() for image in message.images
        ]
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        return Reply(text=" ".join([str(os.getpid()), str(self._server.pid), gpus, *digests]))

    async def aclose(self) -> None:
        self._server.communicate()
