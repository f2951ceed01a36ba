"""How a chat-completions server is reached: through a proxy, or not at all."""

import asyncio
import socket
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, Refused, Transient
from mmconv.core.types import Reply, Sampling
from model_zoo import openai_api
from model_zoo.openai_api.client import Session
from model_zoo.openai_api.endpoint import Endpoint
from tests.messages import message
from tests.mock_server import Behaviour, mock_server
from tests.model_zoo.conftest import NoImages


@dataclass
class Proxy:
    """A proxy that answers for every host; it keeps what it was asked for, and the passwords."""

    url: str = ""
    asked: list[str] = field(default_factory=list)
    passwords: list[str | None] = field(default_factory=list)

    async def answer(self, request: web.BaseRequest) -> web.Response:
        self.asked.append(f"{request.method} {request.raw_path}")
        self.passwords.append(request.headers.get("Proxy-Authorization"))
        if request.method == "CONNECT":
            return web.Response(status=407)
        choice = {"message": {"content": "Red."}, "finish_reason": "stop"}
        return web.json_response({"data": [{"id": "m"}], "choices": [choice]})


@pytest.fixture(autouse=True)
def no_proxy_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@asynccontextmanager
async def running_proxy() -> AsyncIterator[Proxy]:
    proxy = Proxy()
    async with RawTestServer(proxy.answer) as server:
        proxy.url = str(server.make_url("")).rstrip("/")
        yield proxy


def model_at(url: str) -> ModelSpec:
    return ModelSpec(provider="openai", model="m", base_url=url, timeout=60, wait_for_server=0.3)


async def ask(url: str) -> str:
    spec = model_at(url)
    backend = await openai_api.open_backend(spec, NoImages())
    try:
        return (await backend.generate((message("user", "Hm?"),), Sampling(), affinity="")).text
    finally:
        await backend.aclose()


async def probe(url: str) -> tuple[str, ...]:
    return await openai_api.probe(model_at(url))


async def test_calls_and_probes_take_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_proxy() as proxy:
        # as many write it: without a scheme
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removeprefix("http://"))
        assert await probe("http://far.invalid/v1") == ("m",)
        assert await ask("http://far.invalid/v1") == "Red."
    assert proxy.asked == [
        "GET http://far.invalid/v1/models",
        "POST http://far.invalid/v1/chat/completions",
    ]


async def test_no_proxy_is_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with mock_server() as url:
        for own in (url, url.replace("127.0.0.1", "localhost")):
            assert (await ask(own)).startswith("Answer ")
            assert await probe(own) == ("mock",)


async def test_a_proxys_password_is_sent_and_never_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_proxy() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("://", "://me:hush@"))
        with pytest.raises(Transient, match="proxy answers HTTP 407") as raised:
            await ask("https://far.invalid/v1")
    assert proxy.asked == ["CONNECT far.invalid:443"]
    assert proxy.passwords == ["Basic bWU6aHVzaA=="]
    assert raised.value.kind == "connection"
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    "message", ["socks5://me:hush@host:1080", "http://me:hush@host:port", "//"]
)
async def test_a_proxy_without_http_is_named(message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", message)
    with pytest.raises(ConfigError, match="HTTPS_PROXY: expected the address of") as raised:
        await ask("https://far.invalid/v1")
    assert "hush" not in str(raised.value)


@contextmanager
def full_server() -> Iterator[str]:
    """The address of a server that neither takes nor refuses a connection."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        with socket.create_connection(full.getsockname()):  # and there is no room for another
            yield f"http://127.0.0.1:{full.getsockname()[1]}/v1"


async def test_a_host_without_connection_is_given_up_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("model_zoo.openai_api.client._LONGEST_CONNECT", 0.1)
    async with asyncio.timeout(20):
        with full_server() as url:
            for asking in (ask, probe):
                with pytest.raises(Refused, match=f"^no connection to {url} in 0"):
                    await asking(url)
            # as it would be if it had answered before
            session = Session(Endpoint(url=url, model="m"), 60, 1)
            with pytest.raises(Transient, match="Connection timeout") as raised:
                await session.post(b"{}")
            await session.aclose()
    assert raised.value.kind == "connection"  # nothing was sent: it cannot have been paid for


async def test_a_server_that_starts_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """All calls wait for the same connection."""
    monkeypatch.setattr("model_zoo.openai_api.client._TRY_AGAIN", 0.01)
    starting = asyncio.Event()
    connect = asyncio.open_connection
    refused = 0

    async def open_connection(*address: object) -> object:
        nonlocal refused
        if not starting.is_set():
            refused += 1
            raise ConnectionRefusedError("nothing listens there")
        return await connect(*address)  # type: ignore[arg-type]

    monkeypatch.setattr(asyncio, "open_connection", open_connection)
    with mock_server() as url:
        spec = model_at(url).model_copy(update={"wait_for_server": 60.0})
        backend = await openai_api.open_backend(spec, NoImages())
        calls = [
            asyncio.create_task(
                backend.generate((message("user", "Hm?"),), Sampling(), affinity="")
            )
            for _ in range(3)
        ]
        while refused < 5:  # noqa: ASYNC110 - nothing else says that time has passed
            await asyncio.sleep(0.01)
        calls[0].cancel()
        starting.set()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        await backend.aclose()
    assert isinstance(ended[0], asyncio.CancelledError)
    assert [isinstance(each, Reply) for each in ended[1:]] == [True, True]


async def test_a_server_that_goes_away_is_a_failure_that_may_pass() -> None:
    """It has answered before: the runner retries as often as `attempts` says."""
    with mock_server() as url:
        backend = await openai_api.open_backend(model_at(url), NoImages())
        await backend.generate((message("user", "Hm?"),), Sampling(), affinity="")
    with pytest.raises(Transient) as raised:
        await backend.generate((message("user", "Well?"),), Sampling(), affinity="")
    await backend.aclose()
    assert raised.value.kind == "connection"


def read_stats(url: str) -> bytes:
    with urllib.request.urlopen(url.removesuffix("/v1") + "/stats") as answer:
        data: bytes = answer.read()
    return data


async def test_waiting_for_a_connection_counts_neither_as_seconds_nor_towards_the_timeout() -> None:
    with mock_server(Behaviour(latency=0.6)) as url:
        spec = model_at(url).model_copy(update={"max_concurrency": 8, "timeout": 1.1})
        backend = await openai_api.open_backend(spec, NoImages())
        assert backend.max_concurrency == 10
        questions = [message("user", f"Question {number}?") for number in range(9)]
        replies = await asyncio.gather(
            *(backend.generate((question,), Sampling(), affinity="") for question in questions)
        )
        peak = orjson.loads(await asyncio.to_thread(read_stats, url))["peak"]
        await backend.aclose()
    assert peak == 8
    assert all(0.6 <= reply.seconds < 1.1 for reply in replies)


async def test_probe_lists_the_models_served() -> None:
    with mock_server(Behaviour(model="tiny/llava")) as url:
        assert await probe(url) == ("tiny/llava",)
        with pytest.raises(Refused, match="usually ends in /v1"):
            await probe(url.removesuffix("/v1"))
    with pytest.raises(Refused) as raised:
        await probe(url)
    assert raised.value.kind == "connection"
