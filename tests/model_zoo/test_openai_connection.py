"""How a chat-completions server is reached: through a proxy, or not at all."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from mmconv.config import ModelSpec
from mmconv.errors import ConfigError, Transient
from mmconv.values import Sampling
from model_zoo import openai_api
from tests.mock_server import mock_server
from tests.model_zoo.conftest import NoImages, message


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


async def ask(url: str, patience: float = 5) -> str:
    spec = ModelSpec(provider="openai", model="m", base_url=url, timeout=patience)
    backend = await openai_api.open_backend(spec, NoImages())
    try:
        return (await backend.generate((message("user", "Hm?"),), Sampling(), affinity="")).text
    finally:
        await backend.aclose()


async def probe(url: str) -> tuple[str, ...]:
    spec = ModelSpec(provider="openai", model="m", base_url=url, timeout=5)
    return await openai_api.probe(spec)


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


async def test_hosts_without_a_proxy_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_proxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", ".invalid")
        with pytest.raises(Transient, match=r"far\.invalid"):
            await ask("http://far.invalid/v1")
    assert proxy.asked == []


async def test_the_password_of_a_proxy_is_sent_and_never_told(
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


async def test_what_only_the_environment_knows_of_a_url_is_not_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MMCONV_TEST_URL", "http://hidden.invalid:99/tok-hush/v1")
    for asking in (ask, probe):
        with pytest.raises(Transient, match=r"\$\{MMCONV_TEST_URL\}") as raised:
            await asking("${MMCONV_TEST_URL}")
        assert "hidden" not in str(raised.value)
        assert "hush" not in str(raised.value)


@pytest.mark.parametrize("told", ["socks5://me:hush@host:1080", "http://me:hush@host:port", "//"])
async def test_a_proxy_that_speaks_no_http_is_told(
    told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", told)
    with pytest.raises(ConfigError, match="HTTPS_PROXY: expected the address of") as raised:
        await ask("https://far.invalid/v1")
    assert "hush" not in str(raised.value)


async def test_a_host_that_does_not_connect_is_given_up_before_the_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("model_zoo.openai_api.client._LONGEST_CONNECT", 0.1)
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        url = f"http://127.0.0.1:{full.getsockname()[1]}/v1"
        with socket.create_connection(full.getsockname()):  # and there is no room for another
            async with asyncio.timeout(20):
                with pytest.raises(Transient, match="Connection timeout") as raised:
                    await ask(url, patience=60)
    assert raised.value.kind == "connection"  # nothing was sent: it cannot have been paid for
