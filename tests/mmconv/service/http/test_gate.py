from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from tests.mmconv.service.conftest import Serve


async def pieces(count: int, seconds: float = 0.0) -> AsyncIterator[bytes]:
    for _ in range(count):
        await asyncio.sleep(seconds)
        yield b"x" * 1000


async def test_a_body_without_a_length_is_cut_off_where_it_grows_too_large(serve: Serve) -> None:
    client = (await serve(sizes={"body_bytes": 5000})).client
    for path in ("/v1/images", "/v1/chat/completions"):
        answer = await client.post(path, content=pieces(1000))
        assert answer.status_code == 413
        assert answer.json()["error"]["code"] == "request_too_large"


async def test_a_body_that_comes_too_slowly_is_not_waited_for(serve: Serve) -> None:
    client = (await serve(sizes={"body_seconds": 0.1})).client
    for path in ("/v1/images", "/v1/chat/completions"):
        answer = await client.post(path, content=pieces(100, seconds=0.02))
        assert answer.status_code == 408


async def test_all_bodies_together_take_up_so_much_memory(serve: Serve) -> None:
    client = (await serve(sizes={"buffered_bytes": 200_000})).client
    small, *answers = await asyncio.gather(
        client.post("/v1/images", content=pieces(20, seconds=0.01)),
        *(client.post("/v1/images", content=pieces(100, seconds=0.01)) for _ in range(4)),
    )
    assert 503 in [answer.status_code for answer in answers]
    assert small.status_code == 400  # no image either; it was let in beyond the others
    alone = await client.post("/v1/images", content=pieces(10))
    assert alone.status_code == 400  # no image; but its bytes were taken


async def test_an_encoded_body_is_told(serve: Serve) -> None:
    client = (await serve()).client
    for path in ("/v1/images", "/v1/chat/completions"):
        answer = await client.post(path, content=b"x", headers={"Content-Encoding": "gzip"})
        assert answer.status_code == 400
        assert "Content-Encoding: gzip" in answer.json()["error"]["message"]
        plain = await client.post(path, content=b"x", headers={"Content-Encoding": "identity"})
        assert "Content-Encoding" not in plain.text
