"""The gate: who may send what; bodies within limits, HEAD and 304 on every route."""

from pathlib import Path
from typing import Any

import pytest

from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.run_settings import CHAT, drawn, finished
from tests.mmconv.service.tokens import bearer, token


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


TOKENS = [token("ada", "admin"), token("bob", "chat"), token("eve", "read"), token("kim", "run")]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Basic c2VjcmV0LWFkYQ=="},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer secret-ada2"},
        {"Authorization": b"Bearer \xff\xfe"},
    ],
)
async def test_strangers_are_refused_body_unread(serve: Serve, headers: dict[str, Any]) -> None:
    client = (await serve(tokens=[token("ada", "admin")])).client
    for method, path in (("GET", "/v1/models"), ("POST", "/v1/images"), ("GET", "/metrics")):
        answer = await client.request(method, path, headers=headers, content=b"x" * 1000)
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert answer.json()["error"]["type"] == "authentication_error"


@pytest.mark.parametrize(
    ("name", "models", "chat", "runs"),
    [
        ("ada", 200, 200, 200),
        ("bob", 200, 200, 403),
        ("eve", 200, 403, 200),
        ("kim", 200, 403, 200),
    ],
)
async def test_scopes_say_what_a_token_may(
    serve: Serve, name: str, models: int, chat: int, runs: int
) -> None:
    client = (await serve(tokens=TOKENS)).client
    assert (await client.get("/v1/models", headers=bearer(name))).status_code == models
    assert (await client.get("/v1/images", headers=bearer(name))).status_code == models
    answer = await client.post("/v1/chat/completions", json=CHAT, headers=bearer(name))
    assert answer.status_code == chat
    for path in ("/v1/runs", "/v1/data", "/metrics"):
        assert (await client.get(path, headers=bearer(name))).status_code == runs


async def test_each_route_says_what_it_needs(serve: Serve) -> None:
    client = (await serve()).client
    paths = (await client.get("/openapi.json")).json()["paths"]
    said = {
        (path, method): operation["description"].splitlines()[-1]
        for path, operations in paths.items()
        for method, operation in operations.items()
    }
    needs = "Needs a token with one of the scopes "
    assert said["/v1/models", "get"] == f"{needs}chat, read, admin, run."
    assert said["/v1/runs", "get"] == f"{needs}read, run, admin."
    assert said["/v1/runs", "post"] == f"{needs}run, admin."
    assert said["/health", "get"] == "Needs no token."
    assert all(words.startswith("Needs ") for words in said.values())


async def test_a_token_may_send_so_many_requests_a_minute(serve: Serve) -> None:
    limited = token("ada", "admin", requests_per_minute=3)
    client = (await serve(tokens=[limited, token("eve", "read")])).client
    codes = [(await client.get("/v1/models", headers=bearer("ada"))).status_code for _ in range(4)]
    assert codes == [200, 200, 200, 429]
    refused = await client.get("/v1/models", headers=bearer("ada"))
    assert 15 <= int(refused.headers["Retry-After"]) <= 20
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert (await client.get("/v1/models", headers=bearer("eve"))).status_code == 200


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8080", "[::1]:8080"])
async def test_without_tokens_this_machine_is_served(serve: Serve, host: str) -> None:
    client = (await serve()).client
    headers = {"Host": host, "Origin": f"http://{host}"}
    assert (await client.get("/v1/models", headers=headers)).status_code == 200


async def test_health_and_documents_need_no_token(serve: Serve) -> None:
    client = (await serve(tokens=[token("ada", "admin")])).client
    for path in ("/health", "/ready", "/docs", "/openapi.json"):
        assert (await client.get(path, headers={"Host": "elsewhere"})).status_code == 200
