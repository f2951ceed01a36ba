"""Transcripts and manifests of runs over HTTP: whole, in each format, and without secrets."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyarrow import parquet

from mmconv.run_folder.layout import MANIFEST, TRANSCRIPTS
from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.results.test_routes import MODELS, SECRET, folder_of
from tests.mmconv.service.run_settings import drawn, ended, request

LOST = {"models": {"candidate": "echo", "judge": "broken"}, "limit": 1, "conditions": ["reasoning"]}


@pytest.fixture
async def served(serve: Serve, tmp_path: Path) -> Served:
    opened = await serve(data=drawn(tmp_path), models=MODELS)
    assert isinstance(opened, Served)
    return opened


async def run(served: Served, **fields: Any) -> str:
    posted = await served.client.post("/v1/runs", json=request(**fields))
    name = str(posted.json()["id"])
    assert (await ended(served.client, name))["state"] == "done"
    return name


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
    name = await run(served)
    found = await transcripts(served, name, form)
    folder = folder_of(served)
    own = (folder / TRANSCRIPTS).with_suffix(f".{form}")
    answer = await served.client.get(f"/v1/runs/{name}/transcripts", params={"format": form})
    assert answer.content == own.read_bytes()
    assert {each["model"] for each in found} == {"candidate", "judge"}


async def test_a_failure_tells_the_same_in_both_formats_and_no_address(served: Served) -> None:
    name = await run(served, **LOST)
    lines = await transcripts(served, name, "jsonl")
    table = await transcripts(served, name, "parquet")
    info = [each["problem"] for each in lines if each["state"] == "failure"]
    assert info == [each["problem"] for each in table if each["state"] == "failure"]
    assert set(info) == {"connection: the model could not be reached"}
    assert len(table) == len(lines)
    assert SECRET not in str(table)


async def test_the_manifest_is_the_runs_own_but_for_places(served: Served) -> None:
    name = await run(served)
    path = folder_of(served) / MANIFEST
    own = orjson.loads(path.read_bytes())
    assert (await served.client.get(f"/v1/runs/{name}/manifest")).json() == own
    own["about_models"] = {"candidate": {"chat_template": "/srv/checkpoints/chat.jinja"}}
    own["facts"]["data"] = {"/srv/a/rows.csv": "0" * 64, "/srv/b/rows.csv": "1" * 64}
    path.write_bytes(orjson.dumps(own))
    answer = await served.client.get(f"/v1/runs/{name}/manifest")
    assert "/srv" not in answer.text
    assert answer.json()["facts"]["data"] == {"file 1": "0" * 64, "file 2": "1" * 64}
    assert answer.json()["models"] == own["models"]


async def test_a_run_that_is_not_done_has_neither(served: Served) -> None:
    roles = {"candidate": "slow", "judge": "slow"}
    posted = await served.client.post("/v1/runs", json=request(models=roles))
    name = posted.json()["id"]
    for what in ("transcripts", "manifest"):
        answer = await served.client.get(f"/v1/runs/{name}/{what}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "not_finished")
    await served.client.delete(f"/v1/runs/{name}")
