"""`mmconv view`: a folder of runs, read while other processes write it."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest

from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.errors import ConfigError
from mmconv.engine.run import Place, open_evaluation
from mmconv.run_folder.layout import PROGRESS, SPEC, SUMMARY, TABLES
from mmconv.service.settings import Settings
from mmconv.service.web import folder as folder_module
from mmconv.service.web.folder import open_view
from tests.mmconv.report.runs import ALPHA, BETA, JUDGE, SIZE, evaluate, make_run, write_data

SLOW = ModelSpec(
    provider="fake", model="slow", name="slow", max_concurrency=1, options={"seconds": 0.05}
)

View = Callable[[Path], Awaitable[httpx2.AsyncClient]]


@pytest.fixture
async def view() -> AsyncIterator[View]:
    """Opens the view of a folder, for a client that talks to it as HTTP would."""
    async with AsyncExitStack() as stack:

        async def open_one(folder: Path) -> httpx2.AsyncClient:
            settings = Settings.model_construct(models={}, out=folder)
            app = await stack.enter_async_context(open_view(settings))
            transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
            client = httpx2.AsyncClient(transport=transport, base_url="http://localhost")
            return await stack.enter_async_context(client)

        yield open_one


async def rows(client: httpx2.AsyncClient) -> dict[str, dict[str, Any]]:
    """The rows of the list by id, in its order."""
    answer = await client.get("/web/runs")
    assert answer.status_code == 200, answer.text
    return {row["id"]: row for row in answer.json()["data"]}


async def until(
    client: httpx2.AsyncClient, run: str, true: Callable[[dict[str, Any]], bool]
) -> Any:
    """The run's row once it is so."""
    async with asyncio.timeout(60):
        while True:
            listed = await rows(client)
            if run in listed and true(listed[run]):
                return listed[run]
            await asyncio.sleep(0.02)


async def test_runs_have_the_numbers_of_their_tables(tmp_path: Path, view: View) -> None:
    first = await make_run("convbench", tmp_path)
    second = await make_run("mtbench101", tmp_path / "other", trials=2)
    shutil.move(second, tmp_path / "runs" / "nested" / second.name)
    listed = await rows(await view(tmp_path / "runs"))
    assert [row["title"] for row in listed.values()] == ["MT-Bench-101", "ConvBench"]
    row = listed[first.name]
    assert (row["state"], row["model"], row["error"]) == ("done", "alpha", None)
    assert row["request"]["models"] == {"candidate": "alpha", "judge": "arbiter"}
    assert row["request"]["data"] == "data/data.jsonl"
    scores = orjson.loads((first / TABLES / "scores.json").read_bytes())
    cell = scores["rows"]["S0"][scores["columns"][1]]
    value, text, _, counts, missing = row["numbers"][0]["columns"]["S0"]
    assert (value, text) == (cell["value"], f"{cell['value']:.2f}")
    assert (counts, missing) == (f"n = {SIZE}", "")
    nested = next(row for row in listed.values() if row["title"] == "MT-Bench-101")
    assert nested["folder"] == f"nested/{second.name}"
    assert nested["request"]["trials"] == 2
    assert nested["numbers"][0]["columns"]


async def test_drawn_data_are_called_by_their_benchmark(tmp_path: Path, view: View) -> None:
    options = {"families": "shapes", "levels": "1", "n": 1}
    spec = RunSpec(benchmark="scenes", models={"candidate": ALPHA}, options=options)
    await evaluate(spec, tmp_path / "runs")
    [row] = (await rows(await view(tmp_path / "runs"))).values()
    assert row["request"]["data"] == row["title"] == "Scenes"


async def test_a_list_that_has_not_changed_is_not_sent_again(tmp_path: Path, view: View) -> None:
    client = await view((await make_run("mtbench101", tmp_path)).parent)
    tag = (await client.get("/web/runs")).headers["etag"]
    again = await client.get("/web/runs", headers={"If-None-Match": tag})
    assert again.status_code == 304


async def test_a_run_is_read_with_its_images_and_files(tmp_path: Path, view: View) -> None:
    run = await make_run("convbench", tmp_path)
    client = await view(run.parent)
    before = sorted(run.parent.rglob("*"))
    head = (await client.get(f"/web/runs/{run.name}")).json()
    assert head["title"] == "alpha on ConvBench"
    block = (await client.get(f"/web/runs/{run.name}/blocks/0")).json()
    [picture] = block["samples"][0]["pictures"]
    assert block["samples"][0]["about"]
    image = await client.get(f"/v1/runs/{run.name}/images/{picture}")
    assert image.headers["content-type"] == "image/png"
    for file in ("report", "scores?format=jsonl", "tables?format=csv"):
        assert (await client.get(f"/v1/runs/{run.name}/{file}")).status_code == 200
    assert sorted(run.parent.rglob("*")) == before
    for path in ("/new", "/try", "/docs", "/v1/models"):
        assert (await client.get(path)).status_code == 404
    assert (await client.delete(f"/v1/runs/{run.name}")).status_code == 405


async def test_runs_are_ranked(tmp_path: Path, view: View) -> None:
    runs = [await make_run("mtbench101", tmp_path, model) for model in (ALPHA, BETA)]
    client = await view(tmp_path / "runs")
    asked = {"runs": ",".join(run.name for run in runs)}
    board = (await client.get("/web/leaderboard", params=asked)).json()
    assert board["runs"] == {"alpha": runs[0].name, "beta": runs[1].name}
    assert '<th scope="row">alpha</th>' in board["html"]
    assert "<script" not in board["html"]
    by_another = board["columns"][-1]
    again = await client.get("/web/leaderboard", params=asked | {"sort": by_another})
    assert again.json()["columns"] == board["columns"]
    unknown = await client.get("/web/leaderboard", params=asked | {"sort": "none"})
    assert unknown.json()["error"]["message"].startswith("no column 'none'; there are: ")


async def test_samples_of_other_runs_are_shown_side_by_side(tmp_path: Path, view: View) -> None:
    """They were judged by different judges, and the second has fewer samples."""
    other_judge = JUDGE.model_copy(update={"name": "another", "system": "Be strict."})
    first = await make_run("convbench", tmp_path)
    second = await make_run("convbench", tmp_path, BETA, other_judge, limit=1)
    client = await view(tmp_path / "runs")
    asked = {"runs": f"{first.name},{second.name}"}
    refused = await client.get("/web/compare", params=asked)
    assert refused.status_code == 400
    assert "despite=judge" in refused.json()["error"]["message"]
    page = (await client.get("/web/samples", params=asked | {"limit": 5})).json()
    assert page["index"]["runs"] == ["alpha", "beta"]
    assert page["index"]["conditions"] == ["free", "perception", "reasoning"]
    assert [row["i"] for row in page["index"]["samples"]] == ["1", "2", "3", "4", "5"]
    assert page["next"] == "5"
    for sample, runs in (("1", [0, 0, 0, 1, 1, 1]), ("2", [0, 0, 0])):
        shown = (await client.get(f"/web/samples/{sample}", params=asked)).json()
        assert [column["run"] for column in shown["columns"]] == runs
        assert len(shown["pictures"]) == 1
        assert shown["about"]


async def test_a_running_run_shows_its_progress_and_samples(tmp_path: Path, view: View) -> None:
    """Another process would write the same files."""
    done = await make_run("convbench", tmp_path)
    options = write_data("convbench", tmp_path / "data")
    spec = RunSpec(
        benchmark="convbench", options=options, models={"candidate": SLOW, "judge": JUDGE}
    )
    client = await view(tmp_path / "runs")
    async with open_evaluation(spec, Place(out=tmp_path / "runs")) as evaluation:
        runner, run = evaluation.runner(), evaluation.run_id
        running = asyncio.create_task(evaluation.run(runner, page=False))
        row = await until(client, run, lambda row: row["progress"]["replies"] > 0)
        assert (row["state"], row["ended"]) == ("running", None)
        assert row["progress"]["total"] == SIZE * 3
        sample = (await client.get(f"/web/samples/1?runs={run}")).json()
        assert sample["columns"][0]["turns"][0]["answers"]
        beside = await client.get("/web/samples/1", params={"runs": f"{done.name},{run}"})
        assert {column["run"] for column in beside.json()["columns"]} == {0, 1}
        answer = await client.get(f"/web/runs/{run}")
        assert answer.status_code == 409
        assert answer.json()["error"]["message"].endswith("wait for its end")
        runner.stop()
        await running
    row = await until(client, run, lambda row: row["state"] == "stopped")
    assert 0 < row["progress"]["calls"] < row["progress"]["planned"]
    await evaluate(spec, tmp_path / "runs")
    row = await until(client, run, lambda row: row["state"] == "done")
    assert row["numbers"]
    assert not (tmp_path / "runs" / run / PROGRESS).exists()


async def test_a_session_that_was_killed_is_stopped(
    tmp_path: Path, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await make_run("mtbench101", tmp_path)
    (run / SUMMARY).unlink()
    (run / TABLES / "index.json").unlink()
    (run / PROGRESS).write_bytes(orjson.dumps({"calls": 3, "planned": 9, "total": 9}))
    client = await view(run.parent)
    assert (await rows(client))[run.name]["state"] == "running"
    monkeypatch.setattr(folder_module, "ALIVE_SECONDS", -1.0)
    row = (await rows(client))[run.name]
    assert (row["state"], row["progress"]["calls"]) == ("stopped", 3)


@pytest.mark.parametrize(
    ("file", "state", "words"),
    [
        (SPEC, "failed", "spec.json: cut short, or not JSON"),
        (SUMMARY, "failed", "summary.json: cut short, or not JSON"),
        (f"{TABLES}/scores.json", "done", "scores.json: cut short, or not JSON"),
    ],
)
async def test_a_broken_run_names_its_file_and_the_others_are_listed(
    tmp_path: Path, view: View, file: str, state: str, words: str
) -> None:
    run = await make_run("mtbench101", tmp_path)
    await make_run("mtbench101", tmp_path, BETA)
    (run / file).write_text("{")
    listed = await rows(await view(run.parent))
    assert len(listed) == 2
    assert listed[run.name]["state"] == state
    assert listed[run.name]["error"].startswith(words)


async def test_a_folder_without_runs_is_refused(tmp_path: Path, view: View) -> None:
    with pytest.raises(ConfigError, match="folder does not exist"):
        await view(tmp_path / "nothing")
    with pytest.raises(ConfigError, match=r"no folder in it has a spec\.json"):
        await view(tmp_path)
    run = await make_run("mtbench101", tmp_path)
    with pytest.raises(ConfigError, match="folder of one run"):
        await view(run)


async def test_a_name_that_no_address_has_still_opens(tmp_path: Path, view: View) -> None:
    run = await make_run("mtbench101", tmp_path)
    run.rename(run.with_name("my best run"))
    client = await view(run.parent)
    [listed] = await rows(client)
    assert (await client.get(f"/web/runs/{listed}")).status_code == 200
