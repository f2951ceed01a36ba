from __future__ import annotations

import logging

import pytest

from mmconv.service import refusals
from mmconv.service.refusals import MOST_TOLD, Refusals
from tests.mmconv.service.conftest import Serve
from tests.mmconv.service.test_access import CHAT, bearer, entry


async def test_refused_tokens_and_scopes_are_logged_without_the_token(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    client = (await serve(tokens=[entry("eve")])).client
    with caplog.at_level(logging.WARNING):
        await client.get("/v1/models", headers={"Authorization": "Bearer wrong"})
        await client.post("/v1/chat/completions", json=CHAT, headers=bearer("eve"))
        await client.get("/v1/models%0AINFO", headers={"Authorization": "Bearer wrong"})
    lines = [each.getMessage() for each in caplog.records if "refused" in each.getMessage()]
    assert lines == [
        "refused 127.0.0.1: GET '/v1/models' (status 401)",
        "refused 127.0.0.1: POST '/v1/chat/completions' (status 403)",
        r"refused 127.0.0.1: GET '/v1/models\nINFO' (status 401)",
    ]
    assert "wrong" not in caplog.text
    assert "secret" not in caplog.text


def test_a_flood_of_them_is_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told = Refusals()
    scope = {"method": "GET", "path": "/v1/models", "client": ("10.0.0.7", 1)}
    for _ in range(MOST_TOLD + 5):
        told.tell(scope, 401)
    assert len(caplog.records) == MOST_TOLD
    monkeypatch.setattr(refusals, "WINDOW_SECONDS", 0)
    told.tell(scope, 401)
    assert caplog.records[MOST_TOLD].getMessage() == "5 more requests were refused before"
