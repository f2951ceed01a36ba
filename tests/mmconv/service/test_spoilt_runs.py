"""Files of finished runs that are spoilt: clients get a clear error, and a way on."""

import hashlib
import shutil
from pathlib import Path

import pytest

from tests.mmconv.cli.test_spoilt_runs import cut
from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.run_settings import drawn, finished


@pytest.fixture
async def served(serve: Serve, tmp_path: Path) -> Served:
    return await serve(data=drawn(tmp_path))


async def done(served: Served, **fields: object) -> tuple[str, Path]:
    """The id and the folder of a run that is done."""
    info = await finished(served.client, **fields)
    return info["id"], served.shared.settings.out / info["folder"]


SPOILT = (
    ("scores.jsonl", "scores"),
    ("scores.jsonl", "scores?metric=rating"),
    ("scores.jsonl", "samples/1"),
    ("scores.jsonl", "report"),
    ("scores.jsonl", "scores?metric=rating&format=parquet"),
    ("transcripts.jsonl", "samples"),
    ("transcripts.jsonl", "samples/1"),
    ("transcripts.jsonl", "report"),
    ("tables/scores.json", "tables"),
    ("tables/index.json", "report"),
    ("manifest.json", "report"),
    *((file, "web") for file in ("manifest.json", "tables/index.json", "transcripts.jsonl")),
)
"""Files, and what they are needed for."""

GIVEN_OUT = (("scores.jsonl", "scores?format=jsonl"), ("scores.parquet", "scores?format=parquet"))
"""Files that are given out as they are."""

SPECIFICATION = (("spec.json", "report"),)
"""Without this file a folder is not a run's."""


@pytest.mark.parametrize("gone", [False, True], ids=["cut short", "gone"])
async def test_spoilt_files_hide_their_path(served: Served, tmp_path: Path, gone: bool) -> None:
    name, folder = await done(served, limit=2)
    for file, asked in (*SPOILT, *(GIVEN_OUT if gone else SPECIFICATION)):
        path = folder / file
        whole = path.read_bytes()
        shutil.rmtree(served.shared.settings.out / "shown", ignore_errors=True)
        if gone:
            path.unlink()
        else:
            cut(path)
        url = f"/web/runs/{name}" if asked == "web" else f"/v1/runs/{name}/{asked}"
        answer = await served.client.get(url)
        assert answer.status_code == 409, (file, asked, answer.text)
        error = answer.json()["error"]
        assert error["code"] == "files_spoilt"
        assert path.name in error["message"]
        assert "post it again" in error["message"]
        assert str(tmp_path) not in answer.text
        path.write_bytes(whole)
        assert (await served.client.get(url)).status_code == 200, (file, asked)


async def test_a_folder_without_a_specification_is_not_the_runs(served: Served) -> None:
    name, folder = await done(served, limit=2)
    (folder / "spec.json").unlink()
    for path in ("scores", "report"):
        answer = await served.client.get(f"/v1/runs/{name}/{path}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "not_here")


async def test_a_summary_may_be_gone_and_not_spoilt(served: Served) -> None:
    name, folder = await done(served, limit=2)
    cut(folder / "summary.json")
    spoilt = await served.client.get(f"/v1/runs/{name}/report")
    assert "summary.json: cut short" in spoilt.json()["error"]["message"]
    # as that of a run that was only scored
    (folder / "summary.json").unlink()
    assert (await served.client.get(f"/v1/runs/{name}/report")).status_code == 200


async def test_a_missing_picture_is_no_fault_of_the_run(served: Served, tmp_path: Path) -> None:
    name, _ = await done(served, limit=2)
    picture = sorted((tmp_path / "data" / "images").iterdir())[0]
    digest = hashlib.sha256(picture.read_bytes()).hexdigest()
    picture.unlink()
    report = await served.client.get(f"/v1/runs/{name}/report")
    assert report.status_code == 200, report.text
    assert f"1 image is not shown (image {digest}: its file on the server" in report.text
    image = await served.client.get(f"/v1/runs/{name}/images/{digest}")
    assert image.status_code == 404
    assert "the server's operator can restore it" in image.json()["error"]["message"]
    # the dataset was read when the run began
    planned = await served.client.get(f"/v1/runs/{name}/samples/1?prompts=true")
    assert planned.status_code == 200
    for answer in (report, image, planned):
        assert str(tmp_path) not in answer.text


async def test_a_spoilt_run_is_removed_and_posted_again(served: Served) -> None:
    name, folder = await done(served, limit=2)
    cut(folder / "scores.jsonl")
    removed = await served.client.delete(f"/v1/runs/{name}", params={"purge": True})
    assert removed.status_code == 204
    again, _ = await done(served, limit=2)
    assert again == name
    assert (await served.client.get(f"/v1/runs/{name}")).json()["progress"]["requested"] == 0
    assert (await served.client.get(f"/v1/runs/{name}/scores")).status_code == 200


async def test_a_run_in_a_folder_of_another_server_is_named(serve: Serve, tmp_path: Path) -> None:
    database = str(tmp_path / "store.sqlite")
    common = {"data": drawn(tmp_path), "database": database}
    one = await serve(out=tmp_path / "one", **common)
    run = (await finished(one.client, limit=1))["id"]
    other = await serve(out=tmp_path / "other", **common)
    for path in ("scores", "tables", "samples", "report"):
        assert (await one.client.get(f"/v1/runs/{run}/{path}")).status_code == 200
        error = (await other.client.get(f"/v1/runs/{run}/{path}")).json()["error"]
        assert error["code"] == "not_here"
        assert "give all servers of the database one `out`" in error["message"]
        assert str(tmp_path) not in error["message"]
