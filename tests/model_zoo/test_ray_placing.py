"""What is decided without Ray: how many replicas there are, on which GPUs, and who answers what."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorUnavailableError

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, Transient
from mmconv.core.types import Message, Reply, Sampling
from model_zoo.providers import find_provider, provider_of
from model_zoo.ray import backend as module
from model_zoo.ray import gpus_of
from model_zoo.ray.backend import RayBackend
from model_zoo.ray.cluster import count_replicas, over_nodes
from tests.messages import user
from tests.model_zoo.conftest import NoImages

HELLO = (user("hello"),)
LOST = ActorUnavailableError("it is away", None)


class Actor:
    """Stands in for an actor with room for two calls, which it answers once it may."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_open = asyncio.Event()
        self.may_open.set()
        self.may_answer = asyncio.Event()
        self.failure: Exception | None = None
        methods = {"start": self._start, "open": self._open, "generate": self._generate}
        for name, method in methods.items():
            setattr(self, name, SimpleNamespace(remote=method))
        self.close = SimpleNamespace(remote=lambda: None)

    async def _start(self) -> None:
        if self.failure:
            raise self.failure

    async def _open(self) -> int:
        await self.may_open.wait()
        return 2

    async def _generate(
        self, messages: Sequence[Message], sampling: Sampling, affinity: str, images: Any
    ) -> Reply:
        self.asked.append(affinity)
        await self.may_answer.wait()
        if self.failure:
            raise self.failure
        return Reply(text=affinity)


OpenReplicas = Callable[..., tuple[RayBackend, list[Actor]]]


@pytest.fixture
def replicas(monkeypatch: pytest.MonkeyPatch) -> OpenReplicas:
    """Opens a backend of so many stand-ins."""

    def open_replicas(count: int, **fields: Any) -> tuple[RayBackend, list[Actor]]:
        actors = [Actor() for _ in range(count)]
        waiting = iter(actors)
        kind = SimpleNamespace(options=lambda: SimpleNamespace(remote=lambda *_: next(waiting)))
        stand_in = SimpleNamespace(remote=lambda **_: lambda _: kind)
        monkeypatch.setattr(module, "ray", stand_in)
        spec = ModelSpec(provider="fake", model="echo", **fields)
        return RayBackend(spec, [{}] * count, NoImages()), actors

    monkeypatch.setattr(module, "RETRY_SECONDS", 0)
    return open_replicas


async def ask(backend: RayBackend, affinity: str) -> str:
    return (await backend.generate(HELLO, Sampling(), affinity=affinity)).text


async def under_way(backend: RayBackend, *affinities: str) -> list[asyncio.Task[str]]:
    """Ask without waiting for the answers."""
    tasks = [asyncio.create_task(ask(backend, affinity)) for affinity in affinities]
    for _ in range(10):
        await asyncio.sleep(0)
    return tasks


async def test_new_conversations_go_to_the_least_loaded(replicas: OpenReplicas) -> None:
    backend, (first, second) = replicas(2)
    await backend.wait_until_ready()
    assert backend.max_concurrency == 4
    tasks = await under_way(backend, "a", "b", "c", "d")
    assert sorted([*first.asked, *second.asked]) == ["a", "b", "c", "d"]
    assert len(first.asked) == 2
    first.may_answer.set()
    second.may_answer.set()
    assert await asyncio.gather(*tasks) == ["a", "b", "c", "d"]


async def test_a_conversation_stays_until_its_replica_is_full(replicas: OpenReplicas) -> None:
    backend, (first, second) = replicas(2)
    await backend.wait_until_ready()
    tasks = await under_way(backend, "a", "b", "a")
    assert (first.asked, second.asked) == (["a", "a"], ["b"])
    tasks += await under_way(backend, "a")
    assert (first.asked, second.asked) == (["a", "a"], ["b", "a"])
    # both are full: a call waits for the first place that is free
    tasks += await under_way(backend, "b")
    first.may_answer.set()
    assert await tasks[-1] == "b"
    assert first.asked == ["a", "a", "b"]
    second.may_answer.set()
    await asyncio.gather(*tasks)


async def test_a_lost_replica_gets_calls_when_it_is_ready_again(replicas: OpenReplicas) -> None:
    backend, (first, second) = replicas(2)
    await backend.wait_until_ready()
    calls = await under_way(backend, "a", "a", "b")
    first.may_open.clear()
    first.failure = LOST
    first.may_answer.set()
    for lost in calls[:2]:
        with pytest.raises(Transient, match="a replica was lost") as caught:
            await lost
        assert caught.value.kind == "connection"
    first.failure = None
    calls = [calls[2], *await under_way(backend, "a", "a", "c")]
    assert (first.asked, second.asked) == (["a", "a"], ["b", "a"])
    first.may_open.set()
    await asyncio.gather(*await under_way(backend, "d"))
    assert len(first.asked) > 2
    second.may_answer.set()
    await asyncio.gather(*calls)


async def test_a_replica_that_ends_while_it_loads_is_given_up(replicas: OpenReplicas) -> None:
    backend, (only,) = replicas(1)

    async def end() -> int:
        raise LOST

    only.open = SimpleNamespace(remote=end)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="a replica ended 3 times while it loaded its model"):
        await backend.wait_until_ready()


def test_provider_ray_is_the_long_form_of_replicas() -> None:
    options = {"provider": "fake", "replicas": 8, "gpus": 0.5, "options": {"seed": 3}}
    fields = {"provider": "ray", "model": "echo", "options": options}
    long = ModelSpec.model_validate(fields)
    short = {"provider": "fake", "model": "echo", "options": {"seed": 3}}
    assert long == ModelSpec.model_validate({**short, "replicas": 8, "gpus": 0.5})
    # --set models.candidate.replicas=2 wins, and the fingerprint is that of the model in process
    assert ModelSpec.model_validate({**fields, "replicas": 2}).replicas == 2
    plain = ModelSpec.model_validate(short)
    assert provider_of(long).fingerprint(long) == provider_of(plain).fingerprint(plain)
    assert provider_of(long).open_backend is find_provider("ray").open_backend
    assert provider_of(plain).open_backend is find_provider("fake").open_backend


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "options.provider is needed and not set"),
        ({"provider": "hf", "replica": 2}, "options.replica is not a field here; did you mean"),
        ({"provider": "hf", "replicas": 0}, "options.replicas"),
    ],
)
def test_wrong_options_name_the_field(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ModelSpec.model_validate({"provider": "ray", "model": "m", "options": options})


def model(provider: str = "hf", **fields: Any) -> ModelSpec:
    return ModelSpec(provider=provider, model="m", **fields)


PARALLEL = {"tensor_parallel_size": 4, "pipeline_parallel_size": 2}


def test_a_replica_needs_the_gpus_of_its_parallel_sizes() -> None:
    assert gpus_of(model(), 8) == 1
    assert gpus_of(model(), 0) == 0
    assert all(gpus_of(model(name), 8) == 0 for name in ("fake", "anthropic", "google"))
    assert gpus_of(model("vllm", options=PARALLEL), 8) == 8
    assert gpus_of(model("vllm", options=PARALLEL, gpus=0.5), 0) == 0.5
    with pytest.raises(ConfigError, match=r"gpus above 1 must be whole, got 1.5"):
        gpus_of(model(gpus=1.5), 8)


@pytest.mark.parametrize(
    ("replicas", "share", "gpus", "available", "count"),
    [
        ("auto", 1, [8, 4], 12, 12),
        ("auto", 1, [8, 4], 5, 5),
        ("auto", 0.1, [2], 2, 20),
        ("auto", 3, [8, 4], 12, 3),  # a replica is on one node
        ("auto", 8, [4, 4, 4, 4], 16, 2),  # unless none is large enough
        (7, 1, [8], 0, 7),  # it waits for GPUs that are taken
        (3, 0, [], 0, 3),
    ],
)
def test_replicas_are_counted_by_their_gpus(
    replicas: Any, share: float, gpus: list[float], available: float, count: int
) -> None:
    spec = model("vllm", replicas=replicas)
    assert count_replicas(spec, share, gpus, available) == count


@pytest.mark.parametrize(
    ("spec", "share", "message"),
    [
        (model(replicas=9), 1, "has 8 GPUs, enough for 8 replicas with 1 each, not for 9"),
        (model(replicas=1), 5, "enough for 0 replicas with 5 each"),
        (model(replicas="auto"), 0, "replicas: auto counts GPUs"),
        (model(replicas="auto"), 4, "of the 8 in Ray's cluster 3 are free"),
    ],
)
def test_too_few_gpus_are_refused(spec: ModelSpec, share: float, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        count_replicas(spec, share, [4, 4], 3)


def test_a_vllm_over_nodes_uses_ray_and_stays_the_same_model() -> None:
    spec = model("vllm", options={**PARALLEL, "extra_args": ["--seed", "1"], "env": {"A": "b"}})
    options = over_nodes(spec, "10.0.0.1:6379").options
    executor = ("--distributed-executor-backend", "ray")
    assert options["extra_args"] == ("--seed", "1", *executor)
    assert options["env"] == {"A": "b", "RAY_ADDRESS": "10.0.0.1:6379"}
    assert spec.options["extra_args"] == ["--seed", "1"]
