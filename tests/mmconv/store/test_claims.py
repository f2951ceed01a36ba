"""Claims: of several stores on one database, one requests a call, and the others get its reply."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import create_engine, select, update

from mmconv.core.types import Failure, Reply
from mmconv.store import Store
from mmconv.store import store as store_module
from mmconv.store.connections import read_address
from mmconv.store.schema import claims
from tests.mmconv.service.run_settings import until
from tests.mmconv.store.conftest import key

REPLY = Reply(text="yes")


@pytest.fixture
async def two(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Store, Store]]:
    """Two stores on one database, as two processes have them."""
    monkeypatch.setattr(store_module, "LOOK_SECONDS", 0.01)
    both = Store(url), Store(url)
    yield both
    for each in both:
        await each.aclose()


def found(url: str) -> dict[str, tuple[str, float]]:
    """Key -> owner and end of each claim in the database."""
    engine = create_engine(read_address(url))
    with engine.connect() as connection:
        rows = {row.key: (row.owner, row.expires) for row in connection.execute(select(claims))}
    engine.dispose()
    return rows


def change(url: str, **values: object) -> None:
    """Change every claim in the database."""
    engine = create_engine(read_address(url))
    with engine.begin() as connection:
        connection.execute(update(claims).values(values))
    engine.dispose()


async def test_a_claimed_call_is_waited_for(two: tuple[Store, Store], url: str) -> None:
    first, second = two
    assert await first.claim(key(1)) is True
    assert await first.claim(key(1)) is True, "a claim is one's own until it ends"
    assert await second.claim(key(1)) is False
    waiting = asyncio.create_task(second.wait_for_others(key(1)))
    await first.put(key(1), "model", REPLY)
    assert await waiting == REPLY
    assert found(url) == {}


async def test_a_claim_finds_a_reply_since_the_lookup(two: tuple[Store, Store], url: str) -> None:
    first, second = two
    assert await second.get(key(1)) is None
    await first.put(key(1), "model", REPLY)
    assert await second.claim(key(1)) == REPLY
    assert found(url) == {}


async def test_many_claims_at_once_are_divided(two: tuple[Store, Store]) -> None:
    keys = [key(number) for number in range(50)]
    won = await asyncio.gather(
        *(store.claim(each) for each in keys for store in two),
        *(store.claim(each) for each in reversed(keys) for store in reversed(two)),
    )
    pairs = zip(won[:100:2], won[1:100:2], strict=True)
    assert {one + other for one, other in pairs if type(one) is type(other) is bool} == {1}


@pytest.mark.parametrize("ending", ["failure", "release", "close"])
async def test_a_call_without_reply_is_the_next_ones(
    two: tuple[Store, Store], url: str, ending: str
) -> None:
    first, second = two
    await first.claim(key(1))
    waiting = asyncio.create_task(second.wait_for_others(key(1)))
    if ending == "failure":
        await first.add_failure(key(1), Failure(kind="server", message="no", attempts=1))
    elif ending == "release":
        first.release(key(1))
    else:
        await first.aclose()
    assert await waiting is None
    assert await second.claim(key(1)) is True
    assert [*found(url)] == [key(1)]


async def test_a_claim_that_is_not_renewed_runs_out(two: tuple[Store, Store], url: str) -> None:
    first, second = two
    await first.claim(key(1))
    change(url, owner="elsewhere/1/x", expires=1.0)
    assert await second.wait_for_others(key(1)) is None
    assert await second.claim(key(1)) is True
    # the first one's reply comes late: it is kept all the same
    assert await first.put(key(1), "model", REPLY) == REPLY


async def test_a_claim_of_a_dead_process_ends_at_once(two: tuple[Store, Store], url: str) -> None:
    first, second = two
    await first.claim(key(1))
    ended = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await ended.wait()
    [(owner, expires)] = found(url).values()
    assert owner.split("/")[1] == str(os.getpid())
    change(url, owner=owner.replace(str(os.getpid()), str(ended.pid)))
    assert await second.wait_for_others(key(1)) is None
    assert found(url) == {}
    assert expires > 0


async def test_claims_are_renewed_while_calls_are_under_way(
    two: tuple[Store, Store], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "LEASE_SECONDS", 0.03)
    first, _ = two
    await first.claim(key(1))
    [(_, before)] = found(url).values()
    async with asyncio.timeout(30):
        await until(lambda: [end for _, end in found(url).values()] != [before])
