"""Calls in batches, against a server that keeps to the providers' protocols and its own clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, Refused, Transient
from mmconv.core.protocols import BatchApi
from mmconv.core.run_stats import ModelStats
from mmconv.core.types import Reply, Sampling
from mmconv.engine import Model
from mmconv.engine.batches import BatchBackend
from mmconv.engine.limiter import Stopped
from mmconv.engine.setup import build_model
from mmconv.store import Store
from model_zoo.providers import find_provider
from tests.messages import user
from tests.model_zoo.batch_server import BatchServer
from tests.model_zoo.openai_support import Pictures

PROVIDERS = ("openai", "anthropic")
each_provider = pytest.mark.parametrize("provider", PROVIDERS)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret-1")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = Store(str(tmp_path / "store.sqlite"))
    yield store
    await store.aclose()


def spec_of(provider: str, url: str) -> ModelSpec:
    base = f"{url}v1" if provider == "openai" else url
    fields: dict[str, Any] = {"provider": provider, "model": "m", "base_url": base, "batch": True}
    return ModelSpec(**fields, timeout=5.0)


class Killed:
    """An object whose process ends before or after one of its awaited calls: all of them hang."""

    def __init__(self, target: Any, calls: Calls) -> None:
        self._target, self._calls = target, calls

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not asyncio.iscoroutinefunction(value) or name in {"encode", "aclose"}:
            return value

        async def call(*arguments: Any) -> Any:
            await self._calls.reach()
            result = await value(*arguments)
            await self._calls.reach()
            return result

        return call


class Calls:
    """Counts moments; the process ends at the moment `last`."""

    def __init__(self, last: int) -> None:
        self._left = last
        self.ended = asyncio.Event()

    async def reach(self) -> None:
        if self._left <= 0:
            self.ended.set()
            await asyncio.Event().wait()
        self._left -= 1


async def open_batches(provider: str, url: str) -> BatchApi:
    functions = find_provider(provider)
    assert functions.open_batches is not None
    return await functions.open_batches(spec_of(provider, url), Pictures())


@asynccontextmanager
async def batched(
    server: BatchServer, provider: str, url: str, store: Store
) -> AsyncIterator[BatchBackend]:
    api, records = await open_batches(provider, url), store.batched_requests
    backend = BatchBackend(api, "f", records, sleep=server.sleep, now=server.time)
    try:
        yield backend
    finally:
        await backend.aclose()


async def ask(backend: BatchBackend, text: str, **sampling: Any) -> Reply:
    messages = [user(text)]
    return await backend.generate(messages, Sampling(**sampling), affinity="a")


async def ask_all(backend: BatchBackend, texts: Iterable[str]) -> list[str]:
    replies = await asyncio.gather(*[ask(backend, text) for text in texts], return_exceptions=True)
    return [reply.text if isinstance(reply, Reply) else repr(reply) for reply in replies]


TEXTS = [f"question {number}" for number in range(6)]
ANSWERS = [f"to {text}" for text in TEXTS]


@each_provider
async def test_calls_are_answered_from_one_batch(provider: str, store: Store) -> None:
    server = BatchServer()
    async with server.running() as url, batched(server, provider, url, store) as backend:
        assert await ask_all(backend, TEXTS) == ANSWERS
        reply = await ask(backend, "alone")
    assert [batch.size for batch in server.batches] == [6, 1]
    assert (reply.batched, reply.input_tokens, reply.output_tokens) == (True, 1000, 100)


@each_provider
async def test_trials_of_an_equal_request_are_two_requests(provider: str, store: Store) -> None:
    server = BatchServer()
    async with server.running() as url, batched(server, provider, url, store) as backend:
        await asyncio.gather(*[ask(backend, "again", trial=trial) for trial in (0, 1, 1)])
    assert server.paid == {"again": 2}


@each_provider
async def test_a_run_killed_at_any_moment_pays_nothing_twice(
    provider: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, moments, is_killed = BatchServer(hours=0.05), 0, True
    async with server.running() as url:
        api, records = await open_batches(provider, url), store.batched_requests
        while is_killed:
            calls, texts = Calls(moments), [f"{moments} {number}" for number in range(3)]
            mortal: tuple[Any, Any] = Killed(api, calls), Killed(records, calls)
            killed = BatchBackend(mortal[0], "f", mortal[1], sleep=server.sleep, now=server.time)
            asking = asyncio.ensure_future(ask_all(killed, texts))
            ending = asyncio.ensure_future(calls.ended.wait())
            await asyncio.wait((asking, ending), return_when=asyncio.FIRST_COMPLETED)
            is_killed = not asking.done()
            for task in (asking, ending, *killed._posts, *killed._tasks):
                task.cancel()
            # the requests of the batch are looked for in two parts
            monkeypatch.setattr(api, "most_requests", 2)
            resumed = BatchBackend(api, "f", records, sleep=server.sleep, now=server.time)
            assert await ask_all(resumed, texts) == [f"to {text}" for text in texts], moments
            assert [server.paid[text] for text in texts] == [1, 1, 1], f"killed at {moments}"
            monkeypatch.setattr(api, "most_requests", 100)
            moments += 1
        await api.aclose()
    assert moments > 10


@each_provider
async def test_a_connection_broken_after_sending_pays_once(provider: str, store: Store) -> None:
    server = BatchServer(drop_answer=True)
    async with server.running() as url, batched(server, provider, url, store) as backend:
        assert await ask_all(backend, TEXTS) == ANSWERS
    assert server.paid == dict.fromkeys(TEXTS, 1)


@each_provider
async def test_a_strangers_batch_of_the_same_size_is_not_taken(provider: str, store: Store) -> None:
    server = BatchServer(drop_answer=True)
    message = {"role": "user", "content": "theirs"}
    async with server.running() as url, batched(server, provider, url, store) as backend:
        asking = asyncio.ensure_future(ask_all(backend, TEXTS))
        await server.create({f"r{number}": {"messages": [message]} for number in range(6)})
        assert await asking == ANSWERS
    assert server.paid == dict.fromkeys(TEXTS, 1) | {"theirs": 6}


@each_provider
async def test_errors_concern_their_requests_only(provider: str, store: Store) -> None:
    server = BatchServer()
    async with server.running() as url, batched(server, provider, url, store) as backend:
        expired = asyncio.ensure_future(ask(backend, "expire 1"))
        failed = asyncio.ensure_future(ask(backend, "fail 1"))
        refused = asyncio.ensure_future(ask(backend, "refuse 1"))
        begun = server.now
        assert await ask_all(backend, TEXTS) == ANSWERS
        with pytest.raises(Transient) as expiry:
            await expired
        with pytest.raises(Transient) as failure:
            await failed
        with pytest.raises(Refused) as refusal:
            await refused
        assert server.now - begun >= 86_400
        assert not any(error.value.overloaded for error in (expiry, failure))
        # a retry is sent, and does not find the error of the first batch
        with pytest.raises(Transient):
            await ask(backend, "fail 1")
    assert "expired" in str(expiry.value)
    assert (expiry.value.kind, failure.value.kind) == ("server", "server")
    assert refusal.value.kind == "rejected"
    assert [batch.size for batch in server.batches] == [9, 1]


@each_provider
async def test_a_cancelled_batch_fails_its_calls_and_the_next_run_sends_them(
    provider: str, store: Store
) -> None:
    server = BatchServer()
    async with server.running() as url:
        async with batched(server, provider, url, store) as backend:
            asking = asyncio.ensure_future(ask(backend, "one"))
            await server.created.wait()
            server.cancel()
            with pytest.raises(Refused, match=r"batch_0 was cancelled; start the run again"):
                await asking
        async with batched(server, provider, url, store) as backend:
            assert (await ask(backend, "one")).text == "to one"


@each_provider
async def test_batches_are_split_at_the_limits(
    provider: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = BatchServer()
    async with server.running() as url, batched(server, provider, url, store) as backend:
        monkeypatch.setattr(backend._api, "most_requests", 4)
        assert await ask_all(backend, TEXTS) == ANSWERS
        monkeypatch.setattr(backend._api, "most_bytes", 2500)
        assert await ask_all(backend, ["x" * 1000, "y" * 1000, "z" * 1000]) == [
            f"to {letter * 1000}" for letter in "xyz"
        ]
    # two batches may be sent at the same time
    assert sorted(batch.size for batch in server.batches) == [1, 2, 2, 4]


async def test_what_the_account_cannot_take_yet_is_sent_in_parts(store: Store) -> None:
    server = BatchServer(most=3)
    async with server.running() as url, batched(server, "openai", url, store) as backend:
        assert await ask_all(backend, TEXTS) == ANSWERS
    assert server.paid == dict.fromkeys(TEXTS, 1)


@each_provider
async def test_a_refused_batch_fails_its_calls_and_a_busy_server_is_waited_for(
    provider: str, store: Store
) -> None:
    server = BatchServer(refusals=[429, 400])
    async with server.running() as url, batched(server, provider, url, store) as backend:
        with pytest.raises(Refused, match="HTTP 400"):
            await ask(backend, "one")
        assert not await store.batched_requests.find(backend._requests)
        assert (await ask(backend, "one")).text == "to one"


@each_provider
async def test_a_refused_batch_leaves_earlier_batches_alone(provider: str, store: Store) -> None:
    server = BatchServer()
    async with server.running() as url:
        async with batched(server, provider, url, store) as backend:
            asking = asyncio.ensure_future(ask(backend, "old"))
            await server.created.wait()
            asking.cancel()
        server.refusals = [400]
        async with batched(server, provider, url, store) as backend:
            old, new = await asyncio.gather(
                ask(backend, "old"), ask(backend, "new"), return_exceptions=True
            )
    assert isinstance(old, Reply) and old.text == "to old"
    assert isinstance(new, Refused)
    assert server.paid == {"old": 1}


@each_provider
async def test_a_batch_is_not_forgotten_if_a_key_is_revoked(provider: str, store: Store) -> None:
    server = BatchServer(looks_refused=1)
    async with server.running() as url, batched(server, provider, url, store) as backend:
        with pytest.raises(Refused, match="HTTP 401"):
            await ask(backend, "one")
        assert (await ask(backend, "one")).text == "to one"
    assert server.paid == {"one": 1}


async def test_a_batch_that_fails_its_check_names_the_reason(store: Store) -> None:
    server = BatchServer(wrong="model_not_found")
    async with server.running() as url, batched(server, "openai", url, store) as backend:
        with pytest.raises(Refused, match="batch batch_0: it failed") as refusal:
            await ask(backend, "one")
    assert refusal.value.kind == "not_found"


@each_provider
async def test_a_batch_deleted_by_the_provider_is_sent_again(provider: str, store: Store) -> None:
    server = BatchServer()
    async with server.running() as url:
        async with batched(server, provider, url, store) as backend:
            await ask(backend, "one")
        server.batches.clear()
        async with batched(server, provider, url, store) as backend:
            assert (await ask(backend, "one")).text == "to one"
    assert server.paid == {"one": 2}


async def test_progress_names_what_it_waits_for_and_a_stopped_run_ends(
    store: Store,
) -> None:
    server, stats, looked = BatchServer(), ModelStats(), asyncio.Event()

    async def sleep(seconds: float) -> None:
        await server.sleep(seconds)
        if server.batches:
            looked.set()
            await asyncio.Event().wait()

    async with server.running() as url:
        async with batched(server, "anthropic", url, store) as backend:
            backend._sleep = sleep

            async def open_backend() -> BatchBackend:
                return backend

            model = Model("f", open_backend)
            messages = (user("one"),)
            asking = asyncio.ensure_future(
                model.ask(messages, Sampling(), priority=0, affinity="a", pinned=None, stats=stats)
            )
            await looked.wait()
            assert stats.describe_wait is not None
            assert stats.describe_wait() == "waiting for 1 batch with 1 call"
            model.stop()
            with pytest.raises(Stopped):
                await asking
        async with batched(server, "anthropic", url, store) as backend:
            assert (await ask(backend, "one")).text == "to one"
    assert server.paid == {"one": 1}


def test_a_provider_without_batches_is_refused() -> None:
    fields: dict[str, Any] = {"provider": "fake", "model": "echo", "batch": True}
    with pytest.raises(ConfigError, match="provider fake sends no batches; leave out batch"):
        build_model(ModelSpec(**fields), Pictures())
