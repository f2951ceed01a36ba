"""Provider `ray`: replicas of another provider's model in Ray actors, on one machine or many.

A model file with `replicas` opens its model this way. Everything else is answered by the model's
own provider, so that the fingerprint is that of the model in process. The actors belong to this
process: Ray ends them when it ends, for whatever reason. Importing this package does not import
Ray.
"""

from __future__ import annotations

import asyncio
import math
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec

from mmconv.core.config import ModelSpec, RayOptions, ray_address
from mmconv.core.errors import ConfigError
from mmconv.core.protocols import Backend, ImageSource

__all__ = ["RayOptions", "fingerprint", "gpus_of", "joined", "local_gpus", "open_backend"]

WEIGHTLESS = frozenset(
    {"anthropic", "fake", "google", "openai", "reference", "replay", "simulated"}
)

_PARALLEL = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
"""The options of vLLM whose product is the number of its GPUs."""


def fingerprint(spec: ModelSpec) -> str:
    """Raise `ConfigError`: `provider: ray` becomes the provider of its replicas when it is read."""
    raise ConfigError(f"model {spec.label}: name the provider of the replicas in options.provider")


def gpus_of(spec: ModelSpec, present: float) -> float:
    """The GPUs of each replica, if this number is present; raises `ConfigError` for 1.5, say."""
    if spec.gpus is not None:
        if spec.gpus > 1 and spec.gpus % 1:
            raise ConfigError(f"model {spec.label}: gpus above 1 must be whole, got {spec.gpus:g}")
        return spec.gpus
    if spec.provider in WEIGHTLESS or spec.base_url is not None or not present:
        return 0
    return math.prod(int(spec.options.get(name, 1)) for name in _PARALLEL)


async def open_backend(spec: ModelSpec, images: ImageSource) -> Backend:
    """Start the replicas; returns once one is ready. Raises `ConfigError`, or as the provider."""
    await _connect(f"model {spec.label}: replicas")
    from model_zoo.ray import cluster
    from model_zoo.ray.backend import RayBackend

    try:
        replica, places = await asyncio.to_thread(cluster.place_replicas, spec)
        backend = RayBackend(replica, places, images)
    except BaseException:
        await asyncio.to_thread(cluster.disconnect)
        raise
    try:
        await backend.wait_until_ready()
    except BaseException:
        await backend.aclose()
        raise
    return backend


def local_gpus() -> int:
    """The GPUs of this machine that torch sees; 0 without torch."""
    if find_spec("torch") is None:
        return 0
    import torch

    return torch.cuda.device_count()


@asynccontextmanager
async def joined() -> AsyncIterator[float]:
    """Stay connected to Ray's cluster, which has this number of GPUs; raises `ConfigError`.

    Replicas then wait for a node as long as it takes: other models of this process end, too.
    """
    await _connect("several GPUs")
    from model_zoo.ray import cluster

    before, cluster.placing_seconds = cluster.placing_seconds, math.inf
    try:
        yield await asyncio.to_thread(cluster.count_gpus)
    finally:
        cluster.placing_seconds = before
        await asyncio.to_thread(cluster.disconnect)


async def _connect(user: str) -> None:
    hook = sys.excepthook
    try:
        from model_zoo.ray import cluster
    except ImportError as error:
        raise ConfigError(f"{user} need Ray ({error}); run: pip install 'mmconv[ray]'") from error
    # Ray's hook reports errors to the cluster, and waits for it even if it is gone
    sys.excepthook = hook
    # not in a thread that ends: Ray's processes would end with it
    await asyncio.to_thread(cluster.connect, ray_address())
    _take_signal_back()


def _take_signal_back() -> None:
    """Have Python handle SIGTERM again: Ray's library takes it when it connects."""
    handler = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is threading.main_thread() and handler is not None:
        signal.signal(signal.SIGTERM, handler)
