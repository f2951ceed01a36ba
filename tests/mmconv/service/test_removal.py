"""Images, runs and dialogues are removed by their owners, and nothing goes that is needed."""

import asyncio
import base64
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mmconv.core.keys import hash_bytes
from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.run_settings import begun, drawn, ended, finished, request, until
from tests.mmconv.service.tokens import bearer, token
from tests.pictures import picture

PNG = picture(1)
OTHER = picture(2)
NAME = hash_bytes(PNG)

MODELS = {
    "other": {"provider": "fake", "model": "echo", "name": "other"},
    "slow": {
        "provider": "fake",
        "model": "judge",
        "options": {"seconds": 0.2},
        "max_concurrency": 2,
    },
}


TOKENS = [
    token("ann", "read", "chat", "run", stored_bytes=len(PNG) + len(OTHER)),
    token("bob", "read", "chat", "run"),
    token("eve", "read"),
    token("root", "admin"),
]


@pytest.fixture
async def served(serve: Serve, tmp_path: Path) -> Served:
    return await serve(data=drawn(tmp_path), models=MODELS, tokens=TOKENS)


def files(served: Served) -> set[str]:
    """All files that the service keeps beside its database."""
    out = served.shared.settings.out
    found = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    return {name for name in found if not name.startswith(("store.", "uploads/lock"))}


async def send(client: httpx2.AsyncClient, who: str, data: bytes) -> httpx2.Response:
    return await client.post("/v1/images", content=data, headers=bearer(who))


async def delete(client: httpx2.AsyncClient, who: str, path: str, **params: Any) -> httpx2.Response:
    return await client.delete(path, headers=bearer(who), params=params)


async def done(client: httpx2.AsyncClient, **fields: Any) -> str:
    """A run of ann's that is done."""
    client.headers.update(bearer("ann"))
    run = str((await finished(client, **fields))["id"])
    client.headers.update(bearer("eve"))
    return run


async def test_an_image_goes_when_the_last_who_sent_it_removes_it(served: Served) -> None:
    client = served.client
    for who in ("ann", "bob"):
        assert (await send(client, who, PNG)).status_code == 201
    assert (await delete(client, "ann", f"/v1/images/{NAME}")).status_code == 204
    again = await delete(client, "ann", f"/v1/images/{NAME}")
    assert (again.status_code, again.json()["error"]["code"]) == (404, "image_not_found")
    assert (await client.get(f"/v1/images/{NAME}", headers=bearer("bob"))).content == PNG
    assert (await delete(client, "bob", f"/v1/images/{NAME}")).status_code == 204
    assert (await client.get(f"/v1/images/{NAME}", headers=bearer("eve"))).status_code == 404
    assert files(served) == set()


async def test_room_is_given_back(served: Served) -> None:
    client = served.client
    for data in (PNG, OTHER):
        assert (await send(client, "ann", data)).status_code == 201
    assert (await send(client, "ann", picture(3))).status_code == 429
    listed = (await client.get("/v1/images", headers=bearer("ann"))).json()
    assert {each["id"] for each in listed["data"]} == {NAME, hash_bytes(OTHER)}
    assert (listed["used"], listed["room"]) == (len(PNG) + len(OTHER),) * 2
    await delete(client, "ann", f"/v1/images/{NAME}")
    listed = (await client.get("/v1/images", headers=bearer("ann"))).json()
    assert [each["bytes"] for each in listed["data"]] == [len(OTHER)]
    assert listed["used"] == len(OTHER)
    assert (await send(client, "ann", PNG)).status_code == 201


async def test_images_are_listed_in_pages_the_newest_first(served: Served) -> None:
    names = [(await send(served.client, "bob", picture(seed))).json()["id"] for seed in range(3)]
    claims = served.shared.settings.uploads / "owners" / "bob"
    for age, name in enumerate(reversed(names)):
        [claim] = claims.glob(f"{name}-*")
        os.utime(claim, (1_700_000_000 - age, 1_700_000_000 - age))
    headers = bearer("bob")
    first = (await served.client.get("/v1/images?limit=2", headers=headers)).json()
    assert [each["id"] for each in first["data"]] == names[:0:-1]
    assert first["data"][0]["sent"].startswith("2023-11-14T")
    rest = await served.client.get(f"/v1/images?after={first['next']}", headers=headers)
    assert ([each["id"] for each in rest.json()["data"]], rest.json()["next"]) == (names[:1], None)
    wrong = await served.client.get(f"/v1/images?after={'0' * 64}", headers=headers)
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "after")
    assert (await served.client.get("/v1/images", headers=bearer("eve"))).json()["data"] == []


async def test_an_image_that_a_dialogue_under_way_needs_stays(serve: Serve) -> None:
    served = await serve(models=MODELS, synchronous_calls=0)
    client = served.client
    turns = [{"instruction": f"Turn {number}"} for number in range(8)]
    turns[3]["images"] = [f"data:image/png;base64,{base64.b64encode(PNG).decode()}"]  # type: ignore[assignment]
    place = (await client.post("/v1/dialogues", json={"model": "slow", "turns": turns})).headers
    refused = await client.delete(f"/v1/images/{NAME}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "image_in_use")
    name = place["location"].rpartition("/")[2]
    assert name in refused.json()["error"]["message"]
    early = await client.delete(place["location"], params={"purge": True})
    assert (early.status_code, early.json()["error"]["code"]) == (409, "under_way")
    await client.delete(place["location"])
    while (await client.get(place["location"])).json()["state"] != "stopped":
        pass
    assert (await client.delete(f"/v1/images/{NAME}")).status_code == 204
    # nothing is lost silently: whoever goes on is told what is lacking
    sent = {"model": "slow", "turns": [*turns[:3], turns[3] | {"images": [NAME]}, *turns[4:]]}
    again = await client.post("/v1/dialogues", json=sent)
    assert (again.status_code, again.json()["error"]["param"]) == (404, "turns[3].images[0]")
    assert (await client.delete(place["location"], params={"purge": True})).status_code == 204
    assert (await client.get(place["location"])).status_code == 404


async def test_who_may_remove_an_image(served: Served) -> None:
    client = served.client
    for who in ("ann", "bob"):
        await send(client, who, PNG)
    assert (await delete(client, "eve", f"/v1/images/{NAME}")).status_code == 403
    everybody = {"everybody": True}
    assert (await delete(client, "ann", f"/v1/images/{NAME}", **everybody)).status_code == 403
    assert (await delete(client, "root", f"/v1/images/{NAME}")).status_code == 404
    assert (await delete(client, "root", f"/v1/images/{NAME}", **everybody)).status_code == 204
    assert served.shared.uploads.used("ann") == served.shared.uploads.used("bob") == 0
    assert files(served) == set()


async def test_a_run_goes_with_all_that_was_made_of_it(served: Served) -> None:
    client = served.client
    roles = {"candidate": "other", "judge": "judge"}
    run, other = await done(client), await done(client, models=roles)
    made = (f"/v1/runs/{run}/report", f"/web/compare?runs={run},{other}", f"/web/runs/{other}")
    for path in made:
        assert (await client.get(path)).status_code == 200
    kept = (await client.get(f"/v1/runs/{other}/scores")).content
    assert (await delete(client, "bob", f"/v1/runs/{run}", purge=True)).status_code == 403
    assert (await delete(client, "eve", f"/v1/runs/{run}", purge=True)).status_code == 403
    assert (await delete(client, "ann", f"/v1/runs/{run}", purge=True)).status_code == 204
    assert (await client.get(f"/v1/runs/{run}")).status_code == 404
    assert [each["id"] for each in (await client.get("/v1/runs")).json()["data"]] == [other]
    assert (await client.get(f"/v1/runs/{other}/scores")).content == kept
    assert (await client.get(f"/web/runs/{other}")).status_code == 200
    assert (await delete(client, "root", f"/v1/runs/{other}", purge=True)).status_code == 204
    assert files(served) == set()


async def test_removals_at_once_clear_all(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """One empties what it threw away while the other is about to throw its run away."""
    client = served.client
    roles = {"candidate": "other", "judge": "judge"}
    first, second = await done(client), await done(client, models=roles)
    folder = (await client.get(f"/v1/runs/{second}")).json()["folder"]
    emptying, throwing, emptied = (threading.Event() for _ in range(3))
    rmtree, rename = shutil.rmtree, Path.rename

    def empty_late(*args: Any, **how: Any) -> None:
        emptying.set()
        assert throwing.wait(10)
        rmtree(*args, **how)
        emptied.set()

    def throw_late(self: Path, target: Path) -> Path:
        if self.name == folder:
            throwing.set()
            assert emptied.wait(10)
        return rename(self, target)

    monkeypatch.setattr(shutil, "rmtree", empty_late)
    monkeypatch.setattr(Path, "rename", throw_late)
    removing = asyncio.create_task(delete(client, "ann", f"/v1/runs/{first}", purge=True))
    await until(emptying.is_set)
    assert (await delete(client, "ann", f"/v1/runs/{second}", purge=True)).status_code == 204
    assert (await removing).status_code == 204
    assert files(served) == set()


async def test_what_is_started_again_after_its_removal_asks_nothing(served: Served) -> None:
    client = served.client
    run = await done(client)
    await delete(client, "ann", f"/v1/runs/{run}", purge=True)
    assert await done(client) == run
    progress = (await client.get(f"/v1/runs/{run}")).json()["progress"]
    assert (progress["requested"], progress["cached"]) == (0, progress["replies"])


async def test_a_run_under_way_is_not_removed_and_a_stopped_one_is(served: Served) -> None:
    client = served.client
    body = request(models={"candidate": "slow", "judge": "slow"})
    run = (await client.post("/v1/runs", json=body, headers=bearer("ann"))).json()["id"]
    client.headers.update(bearer("eve"))
    await begun(client, run)
    refused = await delete(client, "ann", f"/v1/runs/{run}", purge=True)
    assert (refused.status_code, refused.json()["error"]["param"]) == (409, "purge")
    assert (await delete(client, "ann", f"/v1/runs/{run}")).status_code == 202
    assert (await ended(client, run))["state"] == "stopped"
    assert any(name.endswith("spec.json") for name in files(served))
    assert (await delete(client, "ann", f"/v1/runs/{run}", purge=True)).status_code == 204
    assert files(served) == set()


async def test_a_folder_that_another_run_has_too_stays(serve: Serve, tmp_path: Path) -> None:
    """Two datasets of the same files: their runs have one specification, and one folder."""
    data = drawn(tmp_path)
    served = await serve(data=data | {"again": data["shapes"]}, models=MODELS, tokens=TOKENS)
    client = served.client
    run, other = await done(client), await done(client, data="again")
    assert len(list(served.shared.settings.out.glob("*/scores.jsonl"))) == 1
    for name, left in ((run, True), (other, False)):
        assert (await delete(client, "ann", f"/v1/runs/{name}", purge=True)).status_code == 204
        answer = await client.get(f"/v1/runs/{other}/scores")
        assert (answer.status_code == 200) == left
        assert bool(list(served.shared.settings.out.glob("*/scores.jsonl"))) == left


async def test_a_run_that_is_stopped_goes_with_its_folder_whatever_its_model_is_by_now(
    serve: Serve, tmp_path: Path
) -> None:
    data = drawn(tmp_path)
    served = await serve(data=data, models=MODELS)
    roles = {"candidate": "slow", "judge": "judge"}
    run = (await served.client.post("/v1/runs", json=request(models=roles))).json()["id"]
    await begun(served.client, run)
    await served.client.delete(f"/v1/runs/{run}")
    folder = (await ended(served.client, run))["folder"]
    out = served.shared.settings.out
    assert (out / folder / "spec.json").exists()
    later = await serve(data=data, models={"slow": MODELS["other"]})
    gone = await later.client.delete(f"/v1/runs/{run}", params={"purge": True})
    assert gone.status_code == 204
    assert not (out / folder).exists()
