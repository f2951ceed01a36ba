"""Leaderboards and the agreement with people, over HTTP."""

import shutil
from pathlib import Path
from typing import Any

import httpx2

from tests.mmconv.service.conftest import Serve
from tests.mmconv.service.run_settings import drawn, finished

RATINGS = [
    {"sample": str(sample), "turn": turn, "value": 1 + (3 * sample + turn) % 9, "rater": rater}
    for sample in (1, 2, 3)
    for turn in (1, 2, 3)
    for rater in ("Ada", "Ben")
]
WAYS = ("compare", "leaderboard")
OF_FREE = {"metric": "rating", "condition": "free"}


async def agreement(client: httpx2.AsyncClient, run: str, **fields: Any) -> httpx2.Response:
    asked = {"ratings": RATINGS, **OF_FREE} | fields
    return await client.post(f"/v1/runs/{run}/agreement", json=asked)


async def test_runs_are_ranked_by_any_column(serve: Serve, tmp_path: Path) -> None:
    served = await serve(data=drawn(tmp_path, 5))
    roles = {"candidate": "judge", "judge": "judge"}
    runs = [(await finished(served.client))["id"]]
    runs.append((await finished(served.client, models=roles))["id"])
    params = {"runs": ",".join(runs)}
    board = (await served.client.get("/v1/leaderboard", params=params)).json()
    assert set(board["runs"].values()) == {*runs}
    first = board["tables"][0]
    assert first["columns"][0] == "rank"
    assert first["notes"][0].startswith("Sorted by ")
    column = first["columns"][-1]
    other = await served.client.get("/v1/leaderboard", params=params | {"sort": column})
    order = [row[column]["value"] for row in other.json()["tables"][0]["rows"].values()]
    assert order in (sorted(order), sorted(order, reverse=True))
    wrong = await served.client.get("/v1/leaderboard", params=params | {"sort": "beauty"})
    assert wrong.status_code == 400
    assert "no column 'beauty'; there are: " in wrong.json()["error"]["message"]


async def test_a_servers_folder_may_be_moved(serve: Serve, tmp_path: Path) -> None:
    data = drawn(tmp_path)
    served = await serve(data=data)
    models = [{"candidate": name, "judge": "judge"} for name in ("echo", "judge")]
    runs = [(await finished(served.client, models=roles))["id"] for roles in models]
    paths = (f"compare?runs={','.join(runs)}", f"runs/{runs[0]}/transcripts")
    before = [(await served.client.get(f"/v1/{path}")).text for path in paths]
    out = served.shared.settings.out
    shutil.copytree(out, tmp_path / "moved", symlinks=True)
    for folder in out.glob("convbench-*"):
        shutil.rmtree(folder)
    moved = await serve(data=data, out=tmp_path / "moved")
    for path, text in zip(paths, before, strict=True):
        answer = await moved.client.get(f"/v1/{path}")
        assert (answer.status_code, answer.text) == (200, text)


async def test_runs_of_a_benchmark_that_draws_its_data_are_compared(serve: Serve) -> None:
    options = {"families": ["shapes"], "levels": [1], "n": 5}
    served = await serve(data={"drawn": {"benchmark": "scenes", "options": options}})
    models = [{"candidate": name} for name in ("echo", "judge")]
    runs = [(await finished(served.client, data="drawn", models=roles))["id"] for roles in models]
    for path in (*(f"{way}?runs={','.join(runs)}" for way in WAYS), f"runs/{runs[0]}/report"):
        answer = await served.client.get(f"/v1/{path}")
        assert answer.status_code == 200, answer.text


async def test_a_judge_is_compared_with_people(serve: Serve, tmp_path: Path) -> None:
    served = await serve(data=drawn(tmp_path))
    run = (await finished(served.client))["id"]
    answer = await agreement(served.client, run, replicates=50)
    assert answer.status_code == 200, answer.text
    measures, counts = answer.json()["tables"]
    assert measures["rows"]["agreement"]["judge and person"]["n"] == 9
    assert "people" in counts["rows"]
    free = [rating | {"condition": "free"} for rating in RATINGS]
    same = await agreement(served.client, run, ratings=free, condition=None, replicates=50)
    assert same.json()["tables"][0]["rows"] == measures["rows"]


async def test_ratings_that_cannot_be_compared_are_refused(serve: Serve, tmp_path: Path) -> None:
    served = await serve(data=drawn(tmp_path))
    run = (await finished(served.client, limit=1))["id"]
    for fields, words in (
        ({"condition": None}, "choose one with condition, or add a field condition"),
        ({"ratings": [{"sample": "none", "value": 3, "turn": 1}]}, "the same sample"),
        ({"metric": "beauty"}, "no rating"),
        ({"ratings": []}, "ratings"),
        ({"ratings": [{"sample": "1", "value": 3, "colour": "red"}]}, "colour"),
    ):
        answer = await agreement(served.client, run, **fields)
        assert answer.status_code == 400, answer.text
        assert words in answer.json()["error"]["message"]
        assert "--" not in answer.text
        assert str(tmp_path) not in answer.text
