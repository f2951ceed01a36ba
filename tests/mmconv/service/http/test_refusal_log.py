from __future__ import annotations

import logging
import re

import httpx2
import pytest

from mmconv.service.http import refusal_log
from mmconv.service.http.refusal_log import MOST_TOLD, RefusalLog
from mmconv.service.http.request_tracing import Trace
from tests.mmconv.service.conftest import Serve, Servers, until
from tests.mmconv.service.run_settings import CHAT
from tests.mmconv.service.tokens import bearer, token


async def test_refused_tokens_and_scopes_are_logged_without_the_token(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    client = (await serve(tokens=[token("eve", "read")])).client
    with caplog.at_level(logging.WARNING):
        await client.get("/v1/models", headers={"Authorization": "Bearer wrong"})
        await client.post("/v1/chat/completions", json=CHAT, headers=bearer("eve"))
        await client.get("/v1/models%0AINFO", headers={"Authorization": "Bearer wrong"})
    lines = [each.getMessage() for each in caplog.records if "refused" in each.getMessage()]
    assert [re.sub("[0-9a-f]{16}", "ID", line) for line in lines] == [
        "refused 127.0.0.1: GET '/v1/models', request ID (status 401)",
        "refused 127.0.0.1: POST '/v1/chat/completions', request ID of eve (status 403)",
        r"refused 127.0.0.1: GET '/v1/models\nINFO', request ID (status 401)",
    ]
    assert "wrong" not in caplog.text
    assert "secret" not in caplog.text


async def test_who_asks_too_often_is_logged(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    client = (await serve(tokens=[token("ada", "admin", requests_per_minute=1)])).client
    with caplog.at_level(logging.WARNING):
        answers = [await client.get("/v1/models", headers=bearer("ada")) for _ in range(2)]
    assert answers[-1].status_code == 429
    [line] = [each.getMessage() for each in caplog.records if "refused" in each.getMessage()]
    assert line.endswith(" of ada (status 429)")


@pytest.mark.parametrize(
    ("proxies", "told"), [([], "127.0.0.1"), (["127.0.0.0/8", "::1"], "203.0.113.9")]
)
def test_a_proxy_that_is_trusted_says_who_was_refused(
    start: Servers, proxies: list[str], told: str
) -> None:
    server = start(tokens=[token("eve", "read")], trusted_proxies=proxies)
    httpx2.get(f"{server.url}/v1/models", headers={"X-Forwarded-For": "203.0.113.9"})
    until(lambda: f"refused {told}: GET '/v1/models'" in server.told)


def test_a_flood_of_them_is_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told = RefusalLog()
    scope = {"client": ("10.0.0.7", 1)}
    trace = Trace(method="GET", path="/v1/models")
    for _ in range(MOST_TOLD + 5):
        told.tell(scope, trace, 401)
    assert len(caplog.records) == MOST_TOLD
    monkeypatch.setattr(refusal_log, "WINDOW_SECONDS", 0)
    told.tell(scope, trace, 401)
    assert caplog.records[MOST_TOLD].getMessage() == "5 more requests were refused before"
