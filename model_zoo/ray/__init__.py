"""Provider `ray`: replicas of another provider's model in Ray actors, on one machine or many.

A model file with `replicas` opens its model this way. Everything else is answered by the model's
own provider, so that the fingerprint is that of the model in process. The actors belong to this
process: Ray ends them when it ends, for whatever reason. Importing this package does not import
Ray.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading

from mmconv.core.config import ModelSpec, RayOptions, ray_address
from mmconv.core.errors import ConfigError
from mmconv.core.protocols import Backend, ImageSource

__all__ = ["RayOptions", "fingerprint", "open_backend"]


def fingerprint(spec: ModelSpec) -> str:
    """Raise `ConfigError`: `provider: ray` becomes the provider of its replicas when it is read."""
    raise ConfigError(f"model {spec.label}: name the provider of the replicas in options.provider")


async def open_backend(spec: ModelSpec, images: ImageSource) -> Backend:
    """Start the replicas, and return as soon as one of them is ready.

    Raises `ConfigError` without Ray, its cluster or enough GPUs, and what the model's own provider
    raises if no replica can be opened.
    """
    hook = sys.excepthook
    try:
        from model_zoo.ray import cluster
        from model_zoo.ray.backend import RayBackend
    except ImportError as error:
        raise ConfigError(
            f"model {spec.label}: replicas need Ray ({error}); run: pip install 'mmconv[ray]'"
        ) from error
    # Ray's hook reports errors to the cluster, and waits for it even if it is gone
    sys.excepthook = hook
    # not in a thread that ends: Ray's processes would end with it
    await asyncio.to_thread(cluster.connect, ray_address())
    try:
        _take_signal_back()
        own, places = await asyncio.to_thread(cluster.place_replicas, spec)
        backend = RayBackend(own, places, images)
    except BaseException:
        await asyncio.to_thread(cluster.disconnect)
        raise
    try:
        await backend.wait_until_ready()
    except BaseException:
        await backend.aclose()
        raise
    return backend


def _take_signal_back() -> None:
    """Have Python handle SIGTERM again: Ray's library takes it when it connects."""
    handler = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is threading.main_thread() and handler is not None:
        signal.signal(signal.SIGTERM, handler)
