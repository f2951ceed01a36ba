"""The store on a real PostgreSQL: the same promises as on SQLite."""

import asyncio
from pathlib import Path

import pytest

from mmconv.core.errors import StoreError
from mmconv.core.types import Failure, Reply
from mmconv.store import Store
from mmconv.store.merging import merge
from tests.mmconv.store.conftest import key

pytestmark = pytest.mark.real

TEXTS = ("plain", "nul \x00 inside", "\x1a", "\x1a0", "\x00\x1a\x00", "ünï 汉")


async def test_any_text_comes_back_also_in_another_process(postgres_url: str) -> None:
    store = Store(postgres_url)
    kept = await asyncio.gather(
        *(store.put(key(number), "model", Reply(text=text)) for number, text in enumerate(TEXTS))
    )
    assert [reply.text for reply in kept] == list(TEXTS)
    await store.aclose()
    again = Store(postgres_url)
    found = await asyncio.gather(*(again.get(key(number)) for number in range(len(TEXTS))))
    assert [reply and reply.text for reply in found] == list(TEXTS)
    await again.aclose()


async def test_the_first_reply_stands_between_two_writers(postgres_url: str) -> None:
    one, two = Store(postgres_url), Store(postgres_url)
    await one.put(key(1), "model", Reply(text="first"))
    assert (await two.put(key(1), "model", Reply(text="second"))).text == "first"
    await two.add_failure(key(2), Failure(kind="server", message="500", attempts=1))
    await one.aclose()
    await two.aclose()


async def test_a_shard_in_sqlite_merges_into_postgresql(tmp_path: Path, postgres_url: str) -> None:
    shard = Store(str(tmp_path / "shard.sqlite"))
    for number, text in enumerate(TEXTS):
        await shard.put(key(number), "model", Reply(text=text))
    await shard.aclose()
    assert merge(postgres_url, [str(tmp_path / "shard.sqlite")]).added == len(TEXTS)
    assert merge(postgres_url, [str(tmp_path / "shard.sqlite")]).present == len(TEXTS)
    store = Store(postgres_url)
    assert await store.get(key(1)) == Reply(text=TEXTS[1])
    await store.aclose()


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    with pytest.raises(StoreError, match="cannot open the store") as caught:
        Store("postgresql+psycopg://user:secret@127.0.0.1:9/none")
    assert "secret" not in str(caught.value)
