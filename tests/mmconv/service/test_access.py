from __future__ import annotations

from typing import Any

import pytest

from tests.mmconv.service.conftest import Serve
from tests.mmconv.service.run_settings import CHAT
from tests.mmconv.service.tokens import bearer, token

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
async def test_strangers_are_refused_before_their_body_is_read(
    serve: Serve, headers: dict[str, Any]
) -> None:
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
