"""Log lines and responses of a request can be matched, and refusals are logged."""

import logging
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mmconv.service import tracing
from mmconv.service.tracing import MOST_LOGGED, RefusalLog, Trace
from tests.mmconv.service.conftest import Serve, Served, Servers, until
from tests.mmconv.service.run_settings import CHAT, drawn, ended, request
from tests.mmconv.service.tokens import bearer, token

DEAD = {
    "provider": "fake",
    "model": "echo",
    "options": {"rate": 1.0, "kinds": ["timeout"]},
    "attempts": 1,
}
DIALOGUE = {"model": "dead", "turns": [{"instruction": "a"}, {"instruction": "b"}]}


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/chat/completions", {**CHAT, "model": "dead"}), ("/v1/dialogues", DIALOGUE)],
)
async def test_a_failed_models_line_names_it_the_request_and_the_token(
    serve: Serve, caplog: pytest.LogCaptureFixture, path: str, body: dict[str, Any]
) -> None:
    served = await serve(models={"dead": DEAD}, tokens=[token("bob", "chat")])
    answer = await served.client.post(path, json=body, headers=bearer("bob"))
    name = answer.headers["x-request-id"]
    [line] = [each.getMessage() for each in caplog.records if "dead failed" in each.getMessage()]
    assert line.startswith(f"POST '{path}', request {name} of bob: the model dead failed (timeout)")


async def test_a_bug_is_logged_with_the_id_that_the_client_got(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_given: object) -> None:
        raise RuntimeError("secret in /srv/x")

    monkeypatch.setattr("mmconv.service.state.Service.model", fail)
    answer = await served.client.get("/v1/models/x")
    name = answer.headers["x-request-id"]
    assert answer.status_code == 500
    # The server closes it, and the next request would be lost.
    assert answer.headers["connection"] == "close"
    assert "/srv" not in answer.text
    assert "Traceback" not in answer.text
    assert f"GET '/v1/models/x', request {name} of local: the server failed" in caplog.text
    page = (await served.client.get("/metrics")).text
    assert 'route="/v1/models/{model:path}",status="500"} 1.0' in page


async def test_a_jobs_end_is_logged(
    serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    served = await serve(data=drawn(tmp_path), models={"dead": DEAD}, synchronous_calls=0)
    with caplog.at_level(logging.INFO):
        for candidate in ("echo", "dead"):
            roles = {"candidate": candidate, "judge": "judge"}
            posted = await served.client.post("/v1/runs", json=request(models=roles))
            run = posted.json()["id"]
            found = await ended(served.client, run)
            info = (
                f"{found['progress']['requested']} calls requested, {found['lost']} lost, of local"
            )
            [line] = [
                each.getMessage()
                for each in caplog.records
                if f"run {run}: {found['state']} after" in each.getMessage()
            ]
            assert line.endswith(info)
        info = (await served.client.post("/v1/dialogues?wait=20", json=DIALOGUE)).json()
    assert f"{info['id']}: no call was answered: timeout" in caplog.text
    assert f"dialogue {info['id']}: failed after" in caplog.text


async def test_refused_tokens_stay_unlogged(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
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


@pytest.mark.parametrize(
    ("proxies", "info"), [([], "127.0.0.1"), (["127.0.0.0/8", "::1"], "203.0.113.9")]
)
def test_a_trusted_proxy_says_who_is_refused(start: Servers, proxies: list[str], info: str) -> None:
    server = start(tokens=[token("eve", "read")], trusted_proxies=proxies)
    httpx2.get(f"{server.url}/v1/models", headers={"X-Forwarded-For": "203.0.113.9"})
    until(lambda: f"refused {info}: GET '/v1/models'" in server.output)


def test_a_flood_of_them_is_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    info = RefusalLog()
    scope = {"client": ("10.0.0.7", 1)}
    trace = Trace(method="GET", path="/v1/models")
    for _ in range(MOST_LOGGED + 5):
        info.record(scope, trace, 401)
    assert len(caplog.records) == MOST_LOGGED
    monkeypatch.setattr(tracing, "WINDOW_SECONDS", 0)
    info.record(scope, trace, 401)
    assert caplog.records[MOST_LOGGED].getMessage() == "5 more requests were refused before"
