"""Bodies within their limits; HEAD and 304 without bodies, on every route."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from tests.mmconv.service.conftest import Serve, Served, Servers
from tests.mmconv.service.run_settings import drawn, finished, request


async def test_an_encoded_body_is_told(serve: Serve) -> None:
    client = (await serve()).client
    for path in ("/v1/images", "/v1/chat/completions"):
        answer = await client.post(path, content=b"x", headers={"Content-Encoding": "gzip"})
        assert answer.status_code == 400
        assert "Content-Encoding: gzip" in answer.json()["error"]["message"]
        plain = await client.post(path, content=b"x", headers={"Content-Encoding": "identity"})
        assert "Content-Encoding" not in plain.text


STATIC = "/static/samples.js"


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/", STATIC, "/docs", "/v1/runs/none"])
async def test_head_is_answered_as_get_without_a_body(served: Served, path: str) -> None:
    whole = await served.client.get(path)
    head = await served.client.head(path)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    assert head.headers["content-length"] == str(len(whole.content))


async def test_other_methods_are_told_that_head_is_taken(served: Served) -> None:
    other = await served.client.put("/v1/models")
    assert "/docs lists" in other.json()["error"]["message"]
    assert other.headers["allow"] == "GET, HEAD"
    assert other.json()["error"]["code"] == "method_not_allowed"
    nowhere = await served.client.get("/v1/nowhere")
    assert nowhere.json()["error"]["code"] == "no_such_path"
    assert "/docs lists" in nowhere.json()["error"]["message"]
    refused = await served.client.head("/v1/chat/completions")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


def test_head_of_a_real_server_keeps_its_connection(start: Servers, tmp_path: Path) -> None:
    slow = {"provider": "fake", "model": "slow", "options": {"seconds": 60}}
    server = start(models={"slow": slow}, data=drawn(tmp_path))
    with httpx2.Client(base_url=server.url) as client:
        body = request(models={"candidate": "slow", "judge": "slow"})
        run = client.post("/v1/runs", json=body).raise_for_status().json()["id"]
        for path in ("/health", f"/v1/runs/{run}/events", "/static/web.css", "/health"):
            assert client.head(path).status_code == 200
        assert client.get("/health").json()["status"] == "ok"
    assert "Traceback" not in server.output


@pytest.mark.parametrize(
    ("tags", "status"),
    [("{tag}", 304), ("W/{tag}", 304), ('"other", {tag}', 304), ("*", 304), ('"other"', 200)],
)
async def test_what_a_client_has_is_not_sent_again(served: Served, tags: str, status: int) -> None:
    first = await served.client.get(STATIC)
    asked = {"If-None-Match": tags.format(tag=first.headers["etag"])}
    for method in ("GET", "HEAD"):
        again = await served.client.request(method, STATIC, headers=asked)
        assert again.status_code == status
        assert again.headers["etag"] == first.headers["etag"]
        assert bool(again.content) == (status == 200 and method == "GET")


async def test_reports_and_scores_are_not_sent_again(serve: Serve, tmp_path: Path) -> None:
    client = (await serve(data=drawn(tmp_path))).client
    run = (await finished(client, limit=1))["id"]
    for path in (f"/v1/runs/{run}/report", f"/v1/runs/{run}/scores?format=jsonl"):
        first = await client.get(path)
        date, tag = first.headers["last-modified"], first.headers["etag"]
        old = "Thu, 01 Jan 2004 00:00:00 GMT"
        for headers, status in (
            ({"If-None-Match": tag}, 304),
            ({"If-Modified-Since": date}, 304),
            ({"If-Modified-Since": old}, 200),
            ({"If-Modified-Since": "yesterday"}, 200),
            # The tag goes before the date.
            ({"If-Modified-Since": date, "If-None-Match": '"other"'}, 200),
        ):
            again = await client.get(path, headers=headers)
            assert (again.status_code, again.content) == (
                status,
                b"" if status == 304 else first.content,
            )
