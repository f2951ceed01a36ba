"""The connection to Ray, and which GPUs of its cluster each replica of a model gets."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from typing import Any, TypeAlias

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError
from mmconv.core.keys import hash_json
from model_zoo.ray import gpus_of

Place: TypeAlias = dict[str, Any]
"""The options of an actor that decide on which node and GPUs it runs, and how long."""

NAMESPACE = "mmconv"
"""Where the names of detached replicas are unique in Ray's cluster."""

placing_seconds = 60.0
"""How long no replica may have a node before the run ends, if `wait_for_server` is not set."""

_ROUNDING = 1e-6

_lock = threading.Lock()
_users = 0
_connected = False


def connect(address: str) -> None:
    """Connect to the cluster until `disconnect`; blocks. `local` starts Ray. `ConfigError`."""
    global _users, _connected
    with _lock:
        if not ray.is_initialized():
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            # actors hold no CPU; more of them would start processes that nothing uses
            local: dict[str, Any] = {"num_cpus": 1, "include_dashboard": False}
            options = local if address == "local" else {}
            try:
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **options)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise ConfigError(
                    f"Ray at {address!r} (--ray or RAY_ADDRESS): {error}; start it on this machine "
                    "with `ray start`, set RAY_AUTH_MODE=token if ~/.ray has a token, or leave the "
                    "address out"
                ) from error
            _connected = True
        _users += 1


def disconnect() -> None:
    """Leave the cluster after the last model; this ends the actors that are left. Blocks."""
    global _users, _connected
    with _lock:
        _users -= 1
        if _connected and not _users:
            ray.shutdown()
            _connected = False


def count_gpus() -> float:
    """The GPUs of all nodes that are alive."""
    state: Any = ray
    alive = (node for node in state.nodes() if node["Alive"])
    return sum(float(node["Resources"].get("GPU", 0)) for node in alive)


def place_replicas(spec: ModelSpec) -> tuple[ModelSpec, list[Place]]:
    """The model and the place of each replica; `ConfigError` if there are too few GPUs."""
    state: Any = ray
    alive = [node for node in state.nodes() if node["Alive"]]
    # the nodes with the most GPUs first
    alive.sort(key=lambda node: -node["Resources"].get("GPU", 0.0))
    gpus = [node["Resources"].get("GPU", 0.0) for node in alive]
    share = gpus_of(spec, sum(gpus))
    replica = one_replica(spec)
    # those that other processes have started hold the GPUs that `auto` would count
    count = count_running(replica) if spec.detached and spec.replicas == "auto" else 0
    if not count:
        available = state.available_resources().get("GPU", 0.0)
        count = count_replicas(spec, share, gpus, available)
    lifetimes = [_lifetime(replica, number) for number in range(count)]
    if 0 < share <= gpus[0]:
        place = {"num_gpus": share, "num_cpus": 0, "scheduling_strategy": "SPREAD"}
        return replica, [place | lifetime for lifetime in lifetimes]
    if share:
        # vLLM has to start on a node that has a GPU; it reserves its own, in a placement group
        replica = over_nodes(replica, ray.get_runtime_context().gcs_address)
    # Ray spreads only what needs something of a node
    homes: list[Place] = [
        {"scheduling_strategy": NodeAffinitySchedulingStrategy(node["NodeID"], soft=True)}
        for node in alive
        if node["Resources"].get("CPU")
    ] or [{}]
    return replica, [homes[n % len(homes)] | lifetime for n, lifetime in enumerate(lifetimes)]


def _lifetime(replica: ModelSpec, number: int) -> Place:
    """For a detached replica: its name, by which other processes find it."""
    if not replica.detached:
        return {}
    name = f"{_shared_name(replica)}/{number}"
    return {
        "name": name,
        "namespace": NAMESPACE,
        "lifetime": "detached",
        "get_if_exists": True,
    }


def _shared_name(replica: ModelSpec) -> str:
    return f"{replica.label}-{hash_json(replica.model_dump(mode='json'))[:16]}"


def count_running(replica: ModelSpec) -> int:
    """The detached replicas of this model in the cluster."""
    named: Any = ray.util.list_named_actors(all_namespaces=True)
    beginning = f"{_shared_name(replica)}/"
    return sum(
        each["namespace"] == NAMESPACE and each["name"].startswith(beginning) for each in named
    )


def one_replica(spec: ModelSpec) -> ModelSpec:
    """The model that a replica opens."""
    changes: dict[str, Any] = {"replicas": None, "gpus": None}
    if spec.provider == "vllm":
        changes["options"] = {
            key: value for key, value in spec.options.items() if key != "replicas"
        }
    return spec.model_copy(update=changes)


def count_replicas(spec: ModelSpec, share: float, gpus: Sequence[float], available: float) -> int:
    """How many replicas with `share` GPUs each; `auto` counts those that are free now."""
    if not share:
        if isinstance(spec.replicas, int):
            return spec.replicas
        raise ConfigError(
            f"model {spec.label}: replicas: auto counts GPUs, but Ray's cluster has none, or "
            "the model needs none; set a number"
        )
    room = sum(int(node / share + _ROUNDING) for node in gpus)
    if not room and spec.provider == "vllm":
        room = int(sum(gpus) / share + _ROUNDING)
    if spec.replicas == "auto":
        count = min(room, int(available / share + _ROUNDING))
        if not count:
            raise ConfigError(
                f"model {spec.label}: a replica needs {share:g} GPUs, but of the {sum(gpus):g} in "
                f"Ray's cluster {available:g} are free; set numbers of replicas for all models"
            )
        return count
    count = spec.replicas or 1
    if count > room:
        raise ConfigError(
            f"model {spec.label}: Ray's cluster has {sum(gpus):g} GPUs, enough for {room} replicas "
            f"with {share:g} each, not for {count}; lower replicas or gpus, or set replicas: auto"
        )
    return count


def over_nodes(spec: ModelSpec, address: str) -> ModelSpec:
    """The model whose vLLM takes GPUs of several nodes from the cluster at `address`."""
    arguments = (*spec.options.get("extra_args", ()), "--distributed-executor-backend", "ray")
    # the server's own process needs no GPU, and must not hide those of its workers
    env = {**spec.options.get("env", {}), "RAY_ADDRESS": address}
    options = {**spec.options, "extra_args": arguments, "env": env}
    return spec.model_copy(update={"options": options})
