from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from images import Facts
from images.uploads import Uploads
from mmconv.core.keys import hash_bytes
from tests.mmconv.service.conftest import Serve, Served
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


async def test_the_room_of_a_token_ends(serve: Serve) -> None:
    client = (await serve(limits={"stored_bytes": len(PNG)})).client
    codes = [
        (await client.post("/v1/images", content=data)).status_code for data in (PNG, PNG, OTHER)
    ]
    assert codes == [201, 201, 429]
    assert (await client.get(f"/v1/images/{hash_bytes(OTHER)}")).status_code == 404


async def test_images_that_come_together_take_no_more_room_either(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
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


async def test_many_uploads_at_once_are_all_kept(served: Served) -> None:
    files = [picture(seed) for seed in range(20)]
    answers = await asyncio.gather(
        *(served.client.post("/v1/images", content=data) for data in files)
    )
    assert [answer.json()["id"] for answer in answers] == [hash_bytes(data) for data in files]
    assert served.shared.uploads.used("local") == sum(map(len, files))
