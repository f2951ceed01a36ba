"""Reports over HTTP: as a page, with samples beside it, and as an archive of both."""

import html
import io
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from mmconv.service.errors import Problem
from mmconv.service.runs import finished_folder
from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.run_settings import drawn, finished

BLOCK = 2
"""Samples in a block: a dataset of three has two blocks."""


@pytest.fixture
async def served(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    """A service whose pages have room for next to nothing."""
    monkeypatch.setattr("mmconv.service.results.PAGE_BYTES", 100)
    monkeypatch.setattr("mmconv.report.page.build.BLOCK", BLOCK)
    return await serve(data=drawn(tmp_path))


async def test_what_lies_beside_a_report_is_where_the_page_looks_for_it(served: Served) -> None:
    run = (await finished(served.client))["id"]
    report = await served.client.get(f"/v1/runs/{run}/report")
    assert report.status_code == 200
    assert re.search(r"script-src 'sha256-[^;]*' 'self'", html.unescape(report.text))
    assert 'id="texts-0"' not in report.text
    for number in range(2):
        # relative to the page's own address
        address = report.url.join(f"report.samples/{number}.js")
        beside = await served.client.get(address)
        assert beside.headers["content-type"].startswith("text/javascript")
        assert beside.text.startswith(f"mmconvBlock({number}, ")
    assert (await served.client.get(address.join("2.js"))).status_code == 404
    for name in ("x.js", "..%2freport.html", "0.js%00"):
        assert (await served.client.get(f"/v1/runs/{run}/report.samples/{name}")).status_code in (
            400,
            404,
        )


async def test_an_archive_holds_the_page_and_all_beside_it(served: Served, tmp_path: Path) -> None:
    run = (await finished(served.client))["id"]
    answer = await served.client.get(f"/v1/runs/{run}/report", params={"format": "zip"})
    assert answer.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        beside = ("0", "1", "1000000", "1000001")
        names = ["report.html", *(f"report.samples/{number}.js" for number in beside)]
        assert archive.namelist() == names
        page = await served.client.get(f"/v1/runs/{run}/report")
        assert archive.read("report.html") == page.content
    assert str(tmp_path).encode() not in answer.content
    again = await served.client.get(f"/v1/runs/{run}/report", params={"format": "zip"})
    assert again.content == answer.content


@pytest.mark.parametrize("file", ["scores.jsonl", "tables/index.json", "summary.json"])
async def test_a_report_is_made_anew_when_any_result_is_newer(served: Served, file: str) -> None:
    """A run that is resumed writes them one after another, and may be asked for in between."""
    run = (await finished(served.client))["id"]
    assert (await served.client.get(f"/v1/runs/{run}/report")).status_code == 200
    page = served.shared.settings.out / "shown" / run / "report.html"
    made = page.stat().st_mtime_ns
    job = await served.shared.queue.get(run)
    assert job is not None
    (finished_folder(served.shared, job) / file).touch()
    await served.client.get(f"/v1/runs/{run}/report")
    assert page.stat().st_mtime_ns > made
    made = page.stat().st_mtime_ns
    await served.client.get(f"/v1/runs/{run}/report")
    assert page.stat().st_mtime_ns == made


async def test_a_resumed_run_is_not_done_before_its_tables_are(served: Served) -> None:
    job = await served.shared.queue.get((await finished(served.client))["id"])
    assert job is not None
    folder = finished_folder(served.shared, job)
    resumed = replace(job, state="running")
    assert finished_folder(served.shared, resumed) == folder
    (folder / "tables/index.json").unlink()
    with pytest.raises(Problem, match="is not done") as info:
        finished_folder(served.shared, resumed)
    assert info.value.code == "not_finished"
    assert finished_folder(served.shared, job) == folder


async def test_a_server_that_has_read_the_data_gives_out_a_report_when_they_are_away(
    served: Served, tmp_path: Path
) -> None:
    run = (await finished(served.client))["id"]
    (tmp_path / "data").rename(tmp_path / "away")
    for asked in ({}, {"format": "zip"}):
        answer = await served.client.get(f"/v1/runs/{run}/report", params=asked)
        assert answer.status_code == 200
    assert "3 images are not shown" in (await served.client.get(f"/v1/runs/{run}/report")).text


async def test_a_report_made_while_the_data_are_away_is_made_anew_when_they_are_back(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a restart with a folder that is not mounted."""
    data = drawn(tmp_path)
    run = (await finished((await serve(data=data)).client))["id"]
    images = tmp_path / "data" / "images"
    images.rename(tmp_path / "away")
    later = await serve(data=data)
    without = (await later.client.get(f"/v1/runs/{run}/report")).text
    assert "3 images are not shown" in without
    assert (await later.client.get(f"/v1/runs/{run}/report")).text == without
    archive = {"format": "zip"}
    lesser = (await later.client.get(f"/v1/runs/{run}/report", params=archive)).content
    (tmp_path / "away").rename(images)
    # Looking costs reading the data, so it is not done for every file of a page.
    assert (await later.client.get(f"/v1/runs/{run}/report")).text == without
    monkeypatch.setattr("mmconv.service.published.CHECK_SECONDS", 0)
    whole = (await later.client.get(f"/v1/runs/{run}/report")).text
    assert "not shown" not in whole
    assert len(whole) > len(without)
    page = later.shared.settings.out / "shown" / run / "report.html"
    made = page.stat().st_mtime_ns
    assert (await later.client.get(f"/v1/runs/{run}/report")).text == whole
    assert page.stat().st_mtime_ns == made
    zipped = (await later.client.get(f"/v1/runs/{run}/report", params=archive)).content
    assert len(zipped) > len(lesser)
