"""Notes and tags that people give runs."""

from pathlib import Path

from tests.mmconv.service.conftest import Serve
from tests.mmconv.service.run_settings import drawn, ended, finished, request
from tests.mmconv.service.tokens import bearer, token


async def test_a_run_has_a_note_and_tags_until_their_removal(serve: Serve, tmp_path: Path) -> None:
    served = await serve(data=drawn(tmp_path))
    info = await finished(served.client, limit=1)
    assert (info["note"], info["tags"]) == ("", [])
    path = f"/v1/runs/{info['id']}"
    noted = await served.client.patch(
        path, json={"note": "A new\nprompt.", "tags": ["paper", "é 2"]}
    )
    assert (noted.json()["note"], noted.json()["tags"]) == ("A new\nprompt.", ["paper", "é 2"])
    assert (await served.client.patch(path, json={"tags": []})).json()["note"] == "A new\nprompt."
    await served.client.patch(path, json={"tags": ["paper"]})
    [listed] = (await served.client.get("/v1/runs")).json()["data"]
    [row] = (await served.client.get("/web/runs")).json()["data"]
    assert listed["tags"] == row["tags"] == ["paper"]
    # posted again, it is the same run with its notes
    again = await served.client.post("/v1/runs", json=request(limit=1))
    assert again.json()["tags"] == ["paper"]
    for wrong in ({"tags": ["a,b"]}, {"tags": [" "]}, {"note": 1}, {"colour": "red"}):
        refused = await served.client.patch(path, json=wrong)
        assert refused.status_code == 400, refused.text
    await served.client.delete(path, params={"purge": True})
    await served.client.post("/v1/runs", json=request(limit=1))
    assert (await ended(served.client, info["id"]))["tags"] == []


async def test_only_the_owner_writes_notes(serve: Serve, tmp_path: Path) -> None:
    tokens = [token("ada", "run"), token("ben", "run"), token("eve", "read")]
    served = await serve(data=drawn(tmp_path), tokens=tokens)
    served.client.headers.update(bearer("ada"))
    path = f"/v1/runs/{(await finished(served.client, limit=1))['id']}"
    for name in ("ben", "eve"):
        refused = await served.client.patch(path, json={"note": "Mine."}, headers=bearer(name))
        assert refused.status_code == 403
    assert (await served.client.get(path, headers=bearer("eve"))).json()["note"] == ""


async def test_a_run_that_waits_has_no_notes_yet(serve: Serve, tmp_path: Path) -> None:
    served = await serve(data=drawn(tmp_path), runs_at_once=1)
    slow = request(models={"candidate": "slow", "judge": "judge"})
    first = (await served.client.post("/v1/runs", json=slow)).json()["id"]
    waiting = (await served.client.post("/v1/runs", json=request())).json()["id"]
    refused = await served.client.patch(f"/v1/runs/{waiting}", json={"note": "Soon."})
    assert refused.status_code == 409
    assert "has not begun" in refused.json()["error"]["message"]
    for run in (waiting, first):
        await served.client.delete(f"/v1/runs/{run}")
        await ended(served.client, run)
