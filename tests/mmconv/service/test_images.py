"""Images: uploaded, listed and removed; fetched by URL from public addresses only."""

import asyncio
import io
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web
from PIL import Image

from images import Facts
from images.uploads import Uploads
from mmconv.core.keys import hash_bytes
from mmconv.service import request_images
from mmconv.service.addresses import Rules, is_public
from mmconv.service.errors import Problem
from mmconv.service.request_images import PUBLIC, fetch
from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.hostile import show
from tests.mmconv.service.run_settings import drawn, request, until
from tests.mmconv.service.tokens import bearer, token
from tests.pictures import picture

PNG = picture(1)
OTHER = picture(2)


def plain(kind: str, size: tuple[int, int] = (64, 32)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, "red").save(file, kind)
    return file.getvalue()


async def test_an_image_is_kept_as_it_came(served: Served) -> None:
    stored = await served.client.post("/v1/images", content=PNG)
    assert stored.status_code == 201
    assert stored.json() == {
        "id": hash_bytes(PNG),
        "media_type": "image/png",
        "width": 320,
        "height": 160,
        "bytes": len(PNG),
    }
    given = await served.client.get(f"/v1/images/{hash_bytes(PNG)}")
    assert given.content == PNG
    assert given.headers["content-type"] == "image/png"
    assert given.headers["x-content-type-options"] == "nosniff"


async def test_a_form_and_a_body_bring_the_same_image(served: Served, tmp_path: Path) -> None:
    form = await served.client.post("/v1/images", files={"file": ("x.png", PNG, "image/png")})
    body = await served.client.post(
        "/v1/images", content=PNG, headers={"Content-Type": "image/png"}
    )
    assert form.json() == body.json()
    kept = [path for path in (tmp_path / "out" / "uploads" / "files").rglob("*") if path.is_file()]
    assert [path.name for path in kept] == [hash_bytes(PNG)]


async def test_a_thumbnail_is_small_and_webp(served: Served) -> None:
    await served.client.post("/v1/images", content=plain("JPEG", (1000, 500)))
    stored = await served.client.post("/v1/images", content=plain("JPEG", (1000, 500)))
    small = await served.client.get(f"/v1/images/{stored.json()['id']}/thumbnail")
    assert small.headers["content-type"] == "image/webp"
    with Image.open(io.BytesIO(small.content)) as opened:
        assert opened.size == (192, 96)


async def test_an_image_of_too_many_bytes_is_refused_however_it_is_sent(serve: Serve) -> None:
    client = (await serve(sizes={"image_bytes": len(PNG) - 1})).client

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(PNG), 100):
            yield PNG[start : start + 100]

    for sent in ({"content": PNG}, {"content": pieces()}, {"files": {"file": PNG}}):
        assert (await client.post("/v1/images", **sent)).status_code == 413


async def test_images_at_once_share_the_room(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(2, timeout=20)
    really = Uploads.keep

    def keep(*args: Any) -> Facts:
        together.wait()
        return really(*args)

    monkeypatch.setattr(Uploads, "keep", keep)
    served = await serve(limits={"stored_bytes": max(len(PNG), len(OTHER))})
    posts = (served.client.post("/v1/images", content=data) for data in (PNG, OTHER))
    codes = {answer.status_code for answer in await asyncio.gather(*posts)}
    assert 429 in codes
    kept = (await served.client.get("/v1/images")).json()["data"]
    assert len(kept) == len(codes) - 1


async def test_a_removed_image_is_gone_for_its_token_unless_it_may_read_a_dataset_with_it(
    serve: Serve, tmp_path: Path
) -> None:
    tokens = [token("chats", "chat"), token("reads", "chat", "run"), token("other", "chat")]
    client = (await serve(data=drawn(tmp_path, rows=1), tokens=tokens)).client
    [path] = (tmp_path / "data" / "images").glob("*")
    data, place = path.read_bytes(), f"/v1/images/{hash_bytes(path.read_bytes())}"
    posted = await client.post("/v1/runs", json=request(), headers=bearer("reads"))
    assert posted.status_code == 202
    for name in ("chats", "reads"):
        await client.post("/v1/images", content=data, headers=bearer(name))
    assert (await client.get(place, headers=bearer("other"))).status_code == 404
    for name, left in (("chats", 404), ("reads", 200)):
        assert (await client.get(place, headers=bearer(name))).content == data
        assert (await client.delete(place, headers=bearer(name))).status_code == 204
        for shown in (place, f"{place}/thumbnail"):
            assert (await client.get(shown, headers=bearer(name))).status_code == left


async def test_an_image_of_another_token_cannot_be_shown_to_a_model(serve: Serve) -> None:
    client = (await serve(tokens=[token("ada", "chat"), token("bob", "chat")])).client
    await client.post("/v1/images", content=PNG, headers=bearer("ada"))
    chat = show(f"image:{hash_bytes(PNG)}")
    for name, status in (("ada", 200), ("bob", 404)):
        answer = await client.post("/v1/chat/completions", json=chat, headers=bearer(name))
        assert answer.status_code == status


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


OUTSIDE, INSIDE = "127.0.0.1", "127.0.0.2"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The port of both servers, whom they were reached as, and rules by which one is public."""

    port: int
    reached: list[str] = field(default_factory=list)

    @property
    def rules(self) -> Rules:
        return replace(
            PUBLIC,
            allowed=lambda address: address == OUTSIDE,
            port=self.port,
            trust=client_context(),
        )

    def url(self, host: str, path: str = "/x.png") -> str:
        return f"https://{host}:{self.port}{path}"

    async def fetch(self, url: str, limit: int = 1_000_000) -> bytes:
        return await fetch(url, limit, "image", self.rules)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    taken = socket.create_server((OUTSIDE, 0))
    found = World(port=taken.getsockname()[1])

    async def image(request: web.Request) -> web.Response:
        assert request.transport is not None
        found.reached.append(request.transport.get_extra_info("sockname")[0])
        return web.Response(body=PNG)

    async def redirect(request: web.Request) -> web.Response:
        await image(request)
        raise web.HTTPFound(request.query["to"])

    async def hang(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return await image(request)

    app = web.Application()
    app.router.add_get("/x.png", image)
    app.router.add_get("/hangs", hang)
    app.router.add_get("/to", redirect)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    server = server_context()
    await web.SockSite(runner, taken, ssl_context=server).start()
    await web.TCPSite(runner, INSIDE, found.port, ssl_context=server).start()
    yield found
    await runner.cleanup()


@pytest.fixture
def resolve_to(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """`resolve_to([a], [b])` resolves any name to a once and then to b; it returns those asked."""

    def set_answers(*answers: list[str]) -> list[str]:
        asked: list[str] = []
        coming = chain(answers, repeat(answers[-1]))

        def getaddrinfo(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
            asked.append(host)
            return [
                (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
                for address in next(coming)
            ]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        return asked

    return set_answers


async def check_refused(world: World, url: str) -> None:
    with pytest.raises(Problem) as refused:
        await world.fetch(url)
    assert (refused.value.status, refused.value.param) == (400, "image")
    assert INSIDE not in refused.value.message


async def test_a_name_that_changes_after_the_check_is_not_followed(
    world: World, resolve_to: Callable[..., list[str]]
) -> None:
    asked = resolve_to([OUTSIDE], [INSIDE])
    assert await world.fetch(world.url("localhost")) == PNG
    assert asked == ["localhost"]
    await check_refused(world, world.url("localhost"))
    assert world.reached == [OUTSIDE]


async def test_rebinding_at_a_redirect(world: World, resolve_to: Callable[..., list[str]]) -> None:
    resolve_to([OUTSIDE], [INSIDE])
    target = world.url("localhost.")
    await check_refused(world, world.url("localhost", f"/to?to={target}"))
    assert world.reached == [OUTSIDE]


@pytest.mark.parametrize("answers", [[OUTSIDE, INSIDE], [INSIDE, OUTSIDE], [INSIDE], []])
async def test_a_name_of_any_address_inside_is_refused(
    world: World, resolve_to: Callable[..., list[str]], answers: list[str]
) -> None:
    resolve_to(answers)
    await check_refused(world, world.url("localhost"))
    assert world.reached == []


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.2",
        "2130706434",
        "0x7f000002",
        "0177.0.0.2",
        "127.2",
        "①②⑦.⓪.⓪.②",
        "127。0。0。2",
        "%31%32%37.0.0.2",
        "[::ffff:127.0.0.2]",
        "[::ffff:7f00:2]",
        "[::127.0.0.2]",
    ],
)
async def test_every_way_to_write_an_address_is_known(world: World, host: str) -> None:
    """Straight, and behind a redirect from where a fetch may go."""
    await check_refused(world, world.url(host))
    assert world.reached == []
    await check_refused(world, world.url("localhost", f"/to?to={world.url(host)}"))
    assert set(world.reached) <= {OUTSIDE}


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.2/x.png",
        "//127.0.0.2/x.png",
        "https://127.0.0.2:22/x.png",
        "https://localhost:1/x.png",
        "https://169.254.169.254/latest/meta-data/",
        "/to?to=/to%3Fto%3D/to%253Fto%253D/to%25253Fto%25253D/x.png",
        "/missing",
        "file:///etc/passwd",
        "data:image/png;base64,AAAA",
        "image:0",
        "https://[",
        "",
    ],
)
async def test_a_redirect_elsewhere_is_refused(world: World, target: str) -> None:
    await check_refused(world, world.url("localhost", f"/to?to={target}"))
    assert set(world.reached) <= {OUTSIDE}


async def test_size_and_time_are_capped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Problem, match=f"larger than {len(PNG) - 1:,} bytes"):
        await world.fetch(world.url("localhost"), len(PNG) - 1)
    monkeypatch.setattr(request_images, "SECONDS", 0.2)
    with pytest.raises(Problem, match="cannot be fetched"):
        await world.fetch(world.url("localhost", "/hangs"))


async def test_what_may_be_fetched_is(world: World) -> None:
    target = world.url("localhost", "/to?to=/x.png")
    assert await world.fetch(target) == PNG
    assert world.reached == [OUTSIDE, OUTSIDE]


async def test_a_public_fetch_opens_no_connection_inside() -> None:
    """With the rules as they are served, but for the port: not even a handshake is tried."""
    tried: list[str] = []

    async def note(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tried.append(str(writer.get_extra_info("peername")))
        writer.close()

    server = await asyncio.start_server(note, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    for host in ("127.0.0.1", "localhost", "2130706433", "127.1", "[::ffff:127.0.0.1]", "0"):
        with pytest.raises(Problem):
            await fetch(f"https://{host}:{port}/", 1000, "image", replace(PUBLIC, port=port))
    # Connections are accepted in order: the test's own is the last, and here the only one.
    _, own = await asyncio.open_connection("127.0.0.1", port)
    await until(lambda: str(own.get_extra_info("sockname")) in tried)
    own.close()
    server.close()
    await server.wait_closed()
    assert len(tried) == 1


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
