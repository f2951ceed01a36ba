"""`GET /v1/dialogues`: those that became jobs, for whom they are, page by page."""

from __future__ import annotations

from typing import Any

import pytest

from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.tokens import bearer, token

URL = "/v1/dialogues"


@pytest.fixture
async def served(serve: Serve) -> Served:
    """With `ada`, an admin, and `bob` and `kim`, who may have two jobs each; all is queued."""
    tokens = [
        token("ada", "admin"),
        *(token(name, "chat", "run", concurrent_runs=2) for name in ("bob", "kim")),
    ]
    return await serve(tokens=tokens, synchronous_calls=0)


async def start(served: Served, name: str, number: int, **fields: Any) -> Any:
    body = {"model": "echo", "turns": [{"instruction": f"Turn {number}"}], **fields}
    answer = await served.client.post(URL, json=body, headers=bearer(name))
    return answer.json()


async def listed(served: Served, name: str, **params: Any) -> Any:
    answer = await served.client.get(URL, params=params, headers=bearer(name))
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_ones_own_are_listed_and_an_admins_list_holds_all(served: Served) -> None:
    ids = {name: (await start(served, name, 1))["id"] for name in ("bob", "kim")}
    for name, found in ids.items():
        [own] = (await listed(served, name))["data"]
        assert (own["id"], own["owner"], own["model"]) == (found, name, "echo")
        assert own["location"] == f"{URL}/{found}"
        assert "result" not in own
    everything = (await listed(served, "ada"))["data"]
    assert [each["id"] for each in everything] == [ids["kim"], ids["bob"]]
    assert (await served.client.get(URL)).status_code == 401


async def test_a_list_comes_in_pages_and_by_state_and_model(served: Served) -> None:
    ids = [(await start(served, "ada", number))["id"] for number in range(3)]
    page = await listed(served, "ada", limit=2)
    assert [each["id"] for each in page["data"]] == [ids[2], ids[1]]
    rest = await listed(served, "ada", limit=2, after=page["next"])
    assert ([each["id"] for each in rest["data"]], rest["next"]) == ([ids[0]], None)
    slow = (await start(served, "ada", 3, model="slow"))["id"]
    assert [each["id"] for each in (await listed(served, "ada", model="slow"))["data"]] == [slow]
    await served.client.delete(f"{URL}/{slow}", headers=bearer("ada"))
    assert slow not in str(await listed(served, "ada", state="done"))


async def test_a_page_does_not_begin_behind_anothers(served: Served) -> None:
    anothers = (await start(served, "bob", 1))["id"]
    for after in (anothers, "dialogue-0123456789ab"):
        answer = await served.client.get(URL, params={"after": after}, headers=bearer("kim"))
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "after")


async def test_who_has_too_many_is_told_what_counts_and_where_it_is(served: Served) -> None:
    for number in range(2):
        turns = [{"instruction": f"I am number {number}"}] * 40
        await start(served, "bob", number, model="slow", turns=turns)
    refused = (await start(served, "bob", 3))["error"]
    assert refused["code"] == "too_many_runs"
    assert "2 runs and long dialogues of this token" in refused["message"]
    assert "GET /v1/dialogues" in refused["message"]
