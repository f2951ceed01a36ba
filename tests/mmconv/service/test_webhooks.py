"""Webhooks: posted at the end of runs, signed, repeated, and to no private address."""

import base64
import hashlib
import hmac
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
from aiohttp import web

from mmconv.core.errors import ConfigError
from mmconv.service import webhooks
from mmconv.service.app import open_app
from mmconv.service.settings import Settings
from tests.mmconv.service.conftest import MODELS, Serve
from tests.mmconv.service.run_settings import begun, drawn, finished, request, until

KEY = b"0123456789abcdef"
LOOPBACK = ["127.0.0.0/8"]
SHORT = ("127.1", "2130706433", "0177.0.0.1", "0", "127.0.0.1.", "\N{FULLWIDTH DIGIT ZERO}")
"""Hosts that the system reads as addresses."""


@dataclass(slots=True)
class Receiver:
    """A server that answers with these statuses, then with 204, and keeps what it got."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    seen: list[tuple[Mapping[str, str], bytes]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        self.seen.append((request.headers, await request.read()))
        status = self.statuses.pop(0) if self.statuses else 204
        return web.Response(status=status, headers={"Location": self.url})


@pytest.fixture
async def receiver(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Receiver]:
    secret = f"whsec_{base64.b64encode(KEY).decode()}"
    monkeypatch.setenv("MMCONV_WEBHOOK_SECRET", secret)
    monkeypatch.setattr(webhooks, "PAUSES", (0.0, 0.0))
    receiver, app = Receiver(), web.Application()
    app.router.add_post("/{path:.*}", receiver.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.url = f"{site.name}/ended"
    yield receiver
    await runner.cleanup()


async def post(client: httpx2.AsyncClient, url: str) -> httpx2.Response:
    return await client.post("/v1/runs", json=request(limit=1, webhook=url))


async def test_ends_are_posted_and_signed(serve: Serve, receiver: Receiver, tmp_path: Path) -> None:
    served = await serve(data=drawn(tmp_path), webhook_networks=LOOPBACK)
    receiver.statuses[:] = [500, 302]
    info = await finished(served.client, limit=1, webhook=receiver.url)
    await until(lambda: len(receiver.seen) == 3)
    # readers of the run may not be trusted with the address
    assert "webhook" not in info["request"]
    for headers, body in receiver.seen:
        assert orjson.loads(body) == info
        assert headers["webhook-id"].startswith(info["id"])
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        digest = hmac.new(KEY, signed, hashlib.sha256).digest()
        assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
    assert len({headers["webhook-id"] for headers, _ in receiver.seen}) == 1
    # it is the same run with or without
    assert (await finished(served.client, limit=1))["id"] == info["id"]


async def test_a_failure_is_posted_too(serve: Serve, receiver: Receiver, tmp_path: Path) -> None:
    dead = {"provider": "openai", "model": "x", "base_url": "http://127.0.0.1:9", "attempts": 1}
    models = {"echo": dead | {"wait_for_server": 0.1}, "judge": dead}
    served = await serve(data=drawn(tmp_path), models=models, webhook_networks=LOOPBACK)
    await post(served.client, receiver.url)
    await until(lambda: bool(receiver.seen), seconds=60)
    info = orjson.loads(receiver.seen[0][1])
    assert info["state"] == "failed"
    assert info["error"]


async def test_stopped_runs_are_posted(serve: Serve, receiver: Receiver, tmp_path: Path) -> None:
    """The second waits for its turn when it is stopped."""
    served = await serve(data=drawn(tmp_path), webhook_networks=LOOPBACK, runs_at_once=1)
    roles = {"candidate": "slow", "judge": "judge"}
    posted = await served.client.post("/v1/runs", json=request(models=roles, webhook=receiver.url))
    run = posted.json()["id"]
    await begun(served.client, run, replies=0)
    waiting = (await post(served.client, receiver.url)).json()
    assert waiting["state"] == "queued"
    for stopped in (waiting["id"], run):
        await served.client.delete(f"/v1/runs/{stopped}")
    await until(lambda: len(receiver.seen) == 2, seconds=60)
    infos = [orjson.loads(body) for _, body in receiver.seen]
    assert {info["id"]: info["state"] for info in infos} == {
        waiting["id"]: "stopped",
        run: "stopped",
    }


async def test_one_under_way_is_sent_by_the_next_server(
    serve: Serve, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.statuses[:] = [503]
    monkeypatch.setattr(webhooks, "PAUSES", (600.0,))
    settings: dict[str, Any] = {"data": drawn(tmp_path), "webhook_networks": LOOPBACK}
    async with AsyncExitStack() as first:
        document = {"models": MODELS, "out": tmp_path / "out"} | settings
        app = await first.enter_async_context(open_app(Settings.model_validate(document)))
        transport = httpx2.ASGITransport(app)
        client = httpx2.AsyncClient(transport=transport, base_url="http://localhost")
        await post(await first.enter_async_context(client), receiver.url)
        await until(lambda: len(receiver.seen) == 1, seconds=60)
    await serve(**settings)
    await until(lambda: len(receiver.seen) == 2)
    (before, body), (after, same) = receiver.seen
    assert (before["webhook-id"], body) == (after["webhook-id"], same)
    await until(lambda: not [*(tmp_path / "out" / "webhooks").iterdir()])


async def test_nothing_is_posted_to_a_private_address(
    serve: Serve, receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    served = await serve(data=drawn(tmp_path))
    private = receiver.url.replace("http:", "https:")
    for url, words in (
        (receiver.url, "must be https"),
        (private, "not public"),
        ("https://[::ffff:10.0.0.1]/x", "not public"),
        *((f"https://{host}/x", "a full IP address") for host in SHORT),
        ("https://me:secret@example.com/x", "without a password"),
    ):
        refused = await post(served.client, url)
        error = refused.json()["error"]
        assert (refused.status_code, error["param"]) == (400, "webhook")
        assert words in error["message"]
    # a name is resolved when the run has ended
    assert (await post(served.client, private.replace("127.0.0.1", "localhost"))).is_success
    await until(lambda: "no attempt is left" in caplog.text)
    assert caplog.text.count("not public") == 3
    assert receiver.seen == []


async def test_a_server_without_a_key_sends_none(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MMCONV_WEBHOOK_SECRET", raising=False)
    served = await serve(data=drawn(tmp_path))
    refused = await post(served.client, "https://example.com/x")
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "webhooks_off")
    monkeypatch.setenv("MMCONV_WEBHOOK_SECRET", "no base64!")
    with pytest.raises(ConfigError, match="expected whsec_ and base64"):
        await serve()
