from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import trustme
from aiohttp import web

from mmconv.service import request_images
from mmconv.service.errors import Problem
from mmconv.service.request_images import Rules, fetch, is_public
from tests.mmconv.service.conftest import Serve

AUTHORITY = trustme.CA()


def server_context() -> ssl.SSLContext:
    """TLS as a server named localhost speaks it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert("localhost").configure_cert(context)
    return context


def client_context() -> ssl.SSLContext:
    """TLS as a client speaks it that trusts that server."""
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    return context


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "::127.0.0.1",
        "fec0::1",
        "64:ff9b:1::7f00:1",
    ],
)
def test_addresses_of_ones_own_network_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_addresses_of_the_internet_are(address: str) -> None:
    assert is_public(address)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A web site on loopback, with rules under which it may be fetched from."""

    url: str
    rules: Rules


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async def large(_: web.Request) -> web.Response:
        return web.Response(body=b"x" * 10_000)

    async def redirect(request: web.Request) -> web.Response:
        raise web.HTTPFound(request.query["to"])

    async def slow(request: web.Request) -> web.Response:
        await asyncio.sleep(1)
        return web.Response()

    app = web.Application()
    app.router.add_get("/to", redirect)
    app.router.add_get("/slow", slow)
    app.router.add_get("/large", large)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server_context()).start()
    port = runner.addresses[0][1]
    rules = Rules(
        allowed=lambda address: address in ("127.0.0.1", "::1"),
        port=port,
        trust=client_context(),
    )
    yield Site(url=f"https://localhost:{port}", rules=rules)
    await runner.cleanup()


@pytest.mark.parametrize(
    "path",
    [
        "/to?to=http://localhost/x.png",
        "/to?to=https://localhost:1/x.png",
        "/to?to=https://10.0.0.1/x.png",
        "/to?to=file:///etc/passwd",
        "/to?to=/to%3Fto%3D/to%253Fto%253D/to%25253Fto%25253D/large",
        "/missing",
    ],
)
async def test_a_redirect_or_answer_that_leads_elsewhere_is_refused(site: Site, path: str) -> None:
    with pytest.raises(Problem) as refused:
        await fetch(site.url + path, 10_000, "url", site.rules)
    assert (refused.value.status, refused.value.param) == (400, "url")


async def test_size_and_time_are_capped(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Problem, match="larger than 9,999 bytes"):
        await fetch(f"{site.url}/large", 9999, "url", site.rules)
    monkeypatch.setattr(request_images, "SECONDS", 0.2)
    with pytest.raises(Problem, match="cannot be fetched"):
        await fetch(f"{site.url}/slow", 10_000, "url", site.rules)


async def test_a_client_may_name_urls_only_where_the_operator_allows_it(serve: Serve) -> None:
    asked = {
        "model": "echo",
        "messages": [
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "https://127.0.0.1/x"}}],
            }
        ],
    }
    for fetches, info in ((False, "does not fetch this URL"), (True, "not public")):
        client = (await serve(fetch_urls=fetches)).client
        answer = await client.post("/v1/chat/completions", json=asked)
        assert answer.status_code == 400
        assert info in answer.json()["error"]["message"]
