"""What a run leaves behind, over HTTP; what exists is sent at once."""

import asyncio
import csv
import io
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
from pyarrow import parquet

from mmconv.report.page import write_page
from mmconv.run_folder.layout import MANIFEST, TRANSCRIPTS
from mmconv.run_folder.saved_run import read_tables
from mmconv.service import results as reports
from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.run_settings import (
    CALLS,
    ROWS,
    begun,
    drawn,
    ended,
    finished,
    request,
    until,
)

SECRET = "not-for-clients"

MODELS = {
    "slow": {
        "provider": "fake",
        "model": "judge",
        "options": {"seconds": 0.1, "highest": 9},
        "max_concurrency": 2,
    },
    "broken": {
        "provider": "openai",
        "model": SECRET,
        "base_url": f"http://127.0.0.1:9/{SECRET}",
        "attempts": 1,
        "wait_for_server": 0.3,
    },
}


LOST = {
    "models": {"candidate": "echo", "judge": "broken"},
    "options": {"order": "random"},
    "limit": 1,
    "conditions": ["reasoning"],
}
"""A run whose candidate answers, with too few calls to the judge to stop it."""


@pytest.fixture
async def served(serve: Serve, tmp_path: Path) -> Served:
    return await serve(data=drawn(tmp_path), models=MODELS)


async def run(client: httpx2.AsyncClient, **fields: Any) -> str:
    """The id of a run that is done."""
    return str((await finished(client, **fields))["id"])


async def get(client: httpx2.AsyncClient, path: str, **params: Any) -> Any:
    answer = await client.get(f"/v1/{path}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def folder_of(served: Served) -> Path:
    [path] = served.shared.settings.out.glob("*/scores.jsonl")
    return path.parent


async def test_scores_come_in_pages_and_as_files(served: Served) -> None:
    name = await run(served.client)
    lines = (folder_of(served) / "scores.jsonl").read_bytes()
    scores = [orjson.loads(line) for line in lines.splitlines()]
    page = await get(served.client, f"runs/{name}/scores", limit=7)
    pages = [page["data"]]
    while page["next"]:
        page = await get(served.client, f"runs/{name}/scores", limit=7, after=page["next"])
        pages.append(page["data"])
    assert [score for page in pages for score in page] == scores
    assert {len(page) for page in pages[:-1]} == {7}
    chosen = {"sample": scores[0]["sample"], "metric": "rating", "condition": "free"}
    found = (await get(served.client, f"runs/{name}/scores", **chosen))["data"]
    assert found == [each for each in scores if chosen.items() <= each.items()]
    assert found
    unmet = await get(served.client, f"runs/{name}/scores", **chosen | {"metric": "win"})
    assert {each["metric"] for each in unmet["data"]} == {"win"}
    file = await served.client.get(f"/v1/runs/{name}/scores", params={"format": "jsonl"})
    assert file.content == lines
    table = await served.client.get(f"/v1/runs/{name}/scores", params={"format": "parquet"})
    assert parquet.read_table(io.BytesIO(table.content)).num_rows == len(scores)


async def test_a_file_holds_the_scores_that_are_chosen(served: Served) -> None:
    name = await run(served.client)
    chosen = {"metric": "rating", "condition": "free"}
    wanted = (await get(served.client, f"runs/{name}/scores", **chosen))["data"]
    assert wanted
    lines = await served.client.get(f"/v1/runs/{name}/scores", params=chosen | {"format": "jsonl"})
    assert [orjson.loads(line) for line in lines.content.splitlines()] == wanted
    assert f"{name}-scores.jsonl" in lines.headers["content-disposition"]
    given = chosen | {"format": "parquet"}
    table = await served.client.get(f"/v1/runs/{name}/scores", params=given)
    rows = parquet.read_table(io.BytesIO(table.content)).to_pylist()
    assert [row["value"] for row in rows] == [each["value"] for each in wanted]
    paged = await served.client.get(f"/v1/runs/{name}/scores", params=given | {"limit": 1})
    assert (paged.status_code, paged.json()["error"]["param"]) == (400, "limit")


@pytest.mark.parametrize("form", ["json", "jsonl", "parquet"])
@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("metric", "there are: truncated, filtered, empty, tokens, rating, win"),
        ("condition", "there are: free, perception, reasoning"),
        ("sample", "there are: 1"),
    ],
)
async def test_bad_choices_are_named(served: Served, form: str, field: str, words: str) -> None:
    name = await run(served.client, limit=1)
    params = {"format": form, field: "nonsense"}
    answer = await served.client.get(f"/v1/runs/{name}/scores", params=params)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == field
    assert words in answer.json()["error"]["message"]


@pytest.mark.parametrize("after", [1, 10**9, 2**62 - 1, -1, "x"])
async def test_a_page_begins_where_another_ended(served: Served, after: object) -> None:
    name = await run(served.client, limit=1)
    answer = await served.client.get(f"/v1/runs/{name}/scores", params={"after": str(after)})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "after"


async def test_tables_come_in_every_format(served: Served) -> None:
    name = await run(served.client)
    tables = read_tables(folder_of(served) / "tables")
    listed = await get(served.client, f"runs/{name}/tables")
    assert [each["name"] for each in listed] == [table.name for table in tables]
    one = await get(served.client, f"runs/{name}/tables", table="scores")
    assert one == next(each for each in listed if each["name"] == "scores")
    for form, kind, words in (
        ("csv", "text/csv", "row,"),
        ("md", "text/markdown", "| ---"),
        ("tex", "text/x-tex", "tabular"),
    ):
        params = {"format": form, "table": "scores"}
        answer = await served.client.get(f"/v1/runs/{name}/tables", params=params)
        assert answer.headers["content-type"].startswith(kind)
        assert words in answer.text
        whole = await served.client.get(f"/v1/runs/{name}/tables", params={"format": form})
        assert answer.text in whole.text
    rows = list(
        csv.reader(
            io.StringIO(
                (
                    await served.client.get(
                        f"/v1/runs/{name}/tables", params={"format": "csv", "table": "scores"}
                    )
                ).text
            )
        )
    )
    assert [row[0] for row in rows[1:]] == list(one["rows"])
    missing = await served.client.get(f"/v1/runs/{name}/tables", params={"table": "../spec"})
    assert missing.status_code == 404


async def test_samples_of_a_finished_run(served: Served) -> None:
    name = await run(served.client)
    listed = await get(served.client, f"runs/{name}/samples", limit=2)
    rest = await get(served.client, f"runs/{name}/samples", after=listed["next"])
    samples = [*listed["data"], *rest["data"]]
    assert len(samples) == ROWS
    assert rest["next"] is None
    assert {(each["calls"], each["replies"], each["failures"]) for each in samples} == {
        (CALLS, CALLS, 0)
    }
    assert samples[0]["conditions"] == ["free", "perception", "reasoning"]
    info = await get(served.client, f"runs/{name}/samples/{samples[1]['sample']}")
    assert len(info["calls"]) == CALLS
    assert {call["sample"] for call in info["calls"]} == {samples[1]["sample"]}
    assert {score["sample"] for score in info["scores"]} == {samples[1]["sample"]}
    assert all(call["messages"] is None for call in info["calls"] if call["prompt"])
    filled = await get(served.client, f"runs/{name}/samples/{samples[1]['sample']}", prompts="true")
    assert all(call["messages"] for call in filled["calls"])
    assert filled["scores"] == info["scores"]
    for path in ("no%20such", "..%2F..%2Fspec.json"):
        answer = await served.client.get(f"/v1/runs/{name}/samples/{path}")
        assert answer.status_code == 404


async def test_samples_of_a_run_under_way(served: Served) -> None:
    posted = await served.client.post(
        "/v1/runs", json=request(models={"candidate": "slow", "judge": "slow"})
    )
    name = posted.json()["id"]
    await begun(served.client, name, replies=5)
    listed = await get(served.client, f"runs/{name}/samples", limit=2)
    assert listed["next"] == listed["data"][1]["sample"]
    assert 0 < sum(each["replies"] for each in listed["data"]) < 2 * CALLS
    sample = listed["data"][0]["sample"]
    info = await get(served.client, f"runs/{name}/samples/{sample}")
    states = {call["state"] for call in info["calls"]}
    assert "reply" in states
    assert any(score["why"] for score in info["scores"])
    rest = await get(served.client, f"runs/{name}/samples", after=listed["next"])
    assert len(rest["data"]) == ROWS - 2
    await served.client.delete(f"/v1/runs/{name}")
    await ended(served.client, name)


async def test_a_samples_picture_is_given_out(served: Served) -> None:
    name = await run(served.client, limit=1)
    sample = (await get(served.client, f"runs/{name}/samples"))["data"][0]["sample"]
    message = await get(served.client, f"runs/{name}/samples/{sample}")
    parts = [
        part for call in message["calls"] for m in call["messages"] or () for part in m["parts"]
    ]
    shown = next(part["image"] for part in parts if "image" in part)
    picture = await served.client.get(f"/v1/runs/{name}/images/{shown}")
    assert picture.headers["content-type"] == "image/png"
    small = await served.client.get(f"/v1/runs/{name}/images/{shown}", params={"small": True})
    assert small.headers["content-type"] == "image/webp"
    assert (await served.client.get(f"/v1/runs/{name}/images/{'0' * 64}")).status_code == 404


async def test_failures_tell_clients_no_address(served: Served, tmp_path: Path) -> None:
    done = await finished(served.client, **LOST)
    name = done["id"]
    assert done["progress"]["failed"] == 2
    sample = (await get(served.client, f"runs/{name}/samples"))["data"][0]["sample"]
    for path in (
        f"runs/{name}",
        f"runs/{name}/samples/{sample}",
        f"runs/{name}/samples/{sample}?prompts=true",
        f"runs/{name}/report",
        f"runs/{name}/tables",
        f"runs/{name}/scores",
        f"runs/{name}/transcripts",
        f"runs/{name}/manifest",
    ):
        answer = await served.client.get(f"/v1/{path}")
        assert answer.status_code == 200, answer.text
        for word in (SECRET, "127.0.0.1", str(tmp_path)):
            assert word not in answer.text
    info = await get(served.client, f"runs/{name}/samples/{sample}")
    problems = {call["problem"] for call in info["calls"] if call["state"] == "failure"}
    assert any("connection" in problem for problem in problems)


async def test_what_cannot_be_compared_is_refused(served: Served, tmp_path: Path) -> None:
    first = await run(served.client, limit=2)
    other = await run(served.client, limit=2, models={"candidate": "slow", "judge": "slow"})
    for runs, status, words in (
        (first, 400, "2 to"),
        (f"{first},{first}", 400, "different"),
        (f"{first},none", 404, "no run none is here"),
        (f"{first},{other}", 400, "the judge differs"),
        (f"{first},../../etc", 400, "runs"),
    ):
        answer = await served.client.get("/v1/compare", params={"runs": runs})
        assert answer.status_code == status, answer.text
        assert answer.json()["error"]["param"] == "runs"
        assert words in answer.json()["error"]["message"]
        assert str(tmp_path) not in answer.text
    despite = await get(served.client, "compare", runs=f"{first},{other}", despite="judge")
    assert any("WARNING" in note for table in despite["tables"] for note in table["notes"])


async def test_which_run_is_not_done_and_what_to_do_is_told(served: Served) -> None:
    done = await run(served.client, limit=1)
    other = request(models={"candidate": "slow", "judge": "slow"})
    name = (await served.client.post("/v1/runs", json=other)).json()["id"]
    params = {"runs": f"{done},{name}"}
    active = await served.client.get("/v1/compare", params=params)
    assert f"the run {name} is not done" in active.json()["error"]["message"]
    files = ("report", "report?format=zip", "report.samples/0.js", "transcripts", "manifest")
    for file in (*files, "scores", "tables"):
        answer = await served.client.get(f"/v1/runs/{name}/{file}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "not_finished")
    assert active.json()["error"]["message"].endswith("wait for its end")
    await served.client.delete(f"/v1/runs/{name}")
    await ended(served.client, name)
    stopped = await served.client.get("/v1/compare", params=params)
    assert stopped.json()["error"]["message"].endswith("start it again to finish it")


async def transcripts(served: Served, name: str, form: str) -> list[dict[str, Any]]:
    path = f"/v1/runs/{name}/transcripts"
    answer = await served.client.get(path, params={"format": form})
    assert answer.status_code == 200, answer.text
    assert f"{name}-transcripts.{form}" in answer.headers["content-disposition"]
    if form == "jsonl":
        return [orjson.loads(line) for line in answer.content.splitlines()]
    found: list[dict[str, Any]] = parquet.read_table(io.BytesIO(answer.content)).to_pylist()
    return found


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
async def test_all_calls_come_in_one_file(served: Served, form: str) -> None:
    name = await run(served.client)
    found = await transcripts(served, name, form)
    folder = folder_of(served)
    own = (folder / TRANSCRIPTS).with_suffix(f".{form}")
    answer = await served.client.get(f"/v1/runs/{name}/transcripts", params={"format": form})
    assert answer.content == own.read_bytes()
    assert {each["model"] for each in found} == {"candidate", "judge"}


async def test_the_manifest_is_the_runs_own_but_for_places(served: Served) -> None:
    name = await run(served.client)
    path = folder_of(served) / MANIFEST
    own = orjson.loads(path.read_bytes())
    assert (await served.client.get(f"/v1/runs/{name}/manifest")).json() == own
    own["about_models"] = {"candidate": {"chat_template": "/srv/checkpoints/chat.jinja"}}
    own["provenance"]["data"] = {"/srv/a/rows.csv": "0" * 64, "/srv/b/rows.csv": "1" * 64}
    path.write_bytes(orjson.dumps(own))
    answer = await served.client.get(f"/v1/runs/{name}/manifest")
    assert "/srv" not in answer.text
    assert answer.json()["provenance"]["data"] == {"file 1": "0" * 64, "file 2": "1" * 64}
    assert answer.json()["models"] == own["models"]


SECONDS = 10.0
"""A request that waits for the work of another one never ends here."""


class HeldUp:
    """Work in a thread that begins, and goes on when the test says so."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work
        self.begun = threading.Event()
        self.going_on = threading.Event()

    def __call__(self, *args: Any, **how: Any) -> Any:
        self.begun.set()
        assert self.going_on.wait(2 * SECONDS)
        return self._work(*args, **how)


async def test_a_report_that_is_made_waits_for_none_that_is_being_made(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = (await serve(data=drawn(tmp_path))).client
    roles = {"candidate": "judge", "judge": "judge"}
    made, other = [(await finished(client, **fields))["id"] for fields in ({}, {"models": roles})]
    paths = (
        f"/v1/runs/{made}/report",
        f"/v1/runs/{made}/report?format=zip",
        f"/web/runs/{made}",
        f"/web/compare?runs={made},{other}",
    )
    for path in paths:
        assert (await client.get(path)).status_code == 200
    making = HeldUp(write_page)
    monkeypatch.setattr(reports, "write_page", making)
    report = asyncio.create_task(client.get(f"/v1/runs/{other}/report"))
    await until(making.begun.is_set)
    async with asyncio.timeout(SECONDS):
        for path in paths:
            assert (await client.get(path)).status_code == 200
    making.going_on.set()
    assert (await report).status_code == 200
