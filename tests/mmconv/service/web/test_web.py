"""What the web page is made of and asks for: HTML, files, reports in parts, the form's choices."""

import hashlib
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mmconv.report.page.build import SERVED_BLOCK
from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.run_settings import ROWS, drawn, finished

PAGES = ("/", "/new", "/runs/some-run", "/compare", "/try")

MODELS = {
    "other": {"provider": "fake", "model": "echo", "name": "other"},
    "slow": {
        "provider": "fake",
        "model": "slow",
        "options": {"seconds": 0.2},
        "max_concurrency": 1,
    },
}


@pytest.fixture
async def served(serve: Serve, tmp_path: Path) -> Served:
    return await serve(data=drawn(tmp_path), models=MODELS)


async def two_runs(served: Served) -> list[str]:
    """Two runs that are done."""
    roles = [{"candidate": name, "judge": "judge"} for name in ("echo", "other")]
    return [(await finished(served.client, models=each))["id"] for each in roles]


async def get(client: httpx2.AsyncClient, path: str, **params: Any) -> Any:
    answer = await client.get(path, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_may_load_only_this_servers_files(served: Served, path: str) -> None:
    answer = await served.client.get(path)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert "frame-ancestors 'none'" in policy
    loaded = re.findall(r'(?:src|<link[^>]* href)="([^"]+)"', answer.text)
    assert len(loaded) > 5
    for name in loaded:
        assert name.startswith("/static/")
        assert (await served.client.get(name)).status_code == 200
    # a script or style in the page would not be run, and somebody would wonder why
    assert not re.search(r"<script(?![^>]*src)|<style|\son\w+=|style=", answer.text)


@pytest.mark.parametrize(
    "name", ["nothing.js", "runs.html.j2", "..%2Fweb.py", "%2e%2e%2fapp.py", "report.js"]
)
async def test_only_the_pages_files_are_given_out(served: Served, name: str) -> None:
    assert (await served.client.get(f"/static/{name}")).status_code == 404


async def test_the_form_offers_what_a_run_may_be_made_of(served: Served) -> None:
    choices = await get(served.client, "/web/choices")
    assert choices["models"] == [*served.shared.settings.models]
    [data] = choices["data"]
    assert data["name"] == "shapes"
    assert data["benchmark"] == {"id": "convbench", "name": "ConvBench"}
    assert data["conditions"][:3] == ["free", "perception", "reasoning"]
    options = {option["name"]: option for option in data["options"]}
    # what is a path is the operator's to set
    assert not {"data", "images", "annotations", "positions"} & options.keys()
    assert options["grading"] == {
        "name": "grading",
        "about": options["grading"]["about"],
        "kind": "choices",
        "values": ["direct", "pairwise"],
        "default": ["direct", "pairwise"],
    }
    assert options["judge_retries"]["kind"] == "number"
    assert options["focus_points"]["kind"] == "flag"
    assert options["focus_points"]["default"] is True
    assert options["candidate_system"]["kind"] == "text"
    assert "side in pairs" in options["order"]["about"]
    assert "`denominator`" in data["about"]


async def test_the_form_offers_the_judges_that_a_data_set_can_have(serve: Serve) -> None:
    """A benchmark that needs a judge offers no run without one."""
    models = {"overlap": {"provider": "reference", "model": "chrf"}}
    data = {name: {"benchmark": name} for name in ("convbench", "fbbench")}
    own = {"mine": {"benchmark": "somewhere:Riddles"}}
    served = await serve(models=models, data=data | own)
    judges = [each["judges"] for each in (await get(served.client, "/web/choices"))["data"]]
    language_models = ["echo", "slow", "judge"]
    assert judges == [[*language_models, "overlap"], language_models, None]


async def test_a_finished_run_comes_in_parts(served: Served, tmp_path: Path) -> None:
    run = (await finished(served.client))["id"]
    head = await get(served.client, f"/web/runs/{run}")
    [made] = served.shared.settings.out.glob("shown/*/parts-*/page.json.gz")
    before = made.stat().st_mtime_ns
    for path in (f"/web/runs/{run}", f"/web/runs/{run}/blocks/0"):
        assert str(tmp_path) not in (await served.client.get(path)).text
    assert made.stat().st_mtime_ns == before
    assert head["title"] == "echo on ConvBench"
    assert '<section id="headline"' in head["html"]
    assert "<script" not in head["html"]
    index = head["index"]
    assert index["block"] == SERVED_BLOCK
    block = await get(served.client, f"/web/runs/{run}/blocks/0")
    names = [sample["i"] for sample in index["samples"]]
    assert [sample["id"] for sample in block["samples"]] == names
    assert len(names) == ROWS
    # a picture is named as the API names it
    [picture] = block["samples"][0]["pictures"]
    assert index["samples"][0]["p"] == picture
    image = await served.client.get(f"/v1/runs/{run}/images/{picture}")
    assert hashlib.sha256(image.content).hexdigest() == picture
    assert (await served.client.get(f"/web/runs/{run}/blocks/1")).status_code == 404


async def test_a_comparison_comes_in_parts(served: Served) -> None:
    runs = await two_runs(served)
    asked = {"runs": ",".join(runs)}
    head = await get(served.client, "/web/compare", **asked)
    assert head["title"] == "2 runs of ConvBench compared"
    assert head["index"]["runs"] == ["echo", "other"]
    block = await get(served.client, "/web/compare/blocks/0", **asked)
    columns = block["samples"][0]["columns"]
    assert {column["run"] for column in columns} == {0, 1}


async def test_a_few_comparisons_are_kept(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mmconv.service.web.data.COMPARISONS_KEPT", 1)
    one, two = await two_runs(served)
    for runs in (f"{one},{two}", f"{two},{one}"):
        await get(served.client, "/web/compare", runs=runs)
    assert len([*served.shared.settings.out.glob("compared/*")]) == 1


async def test_pages_are_open_and_their_data_need_a_token(serve: Serve, tmp_path: Path) -> None:
    digest = hashlib.sha256(b"secret").hexdigest()
    tokens = [{"name": "ada", "sha256": digest, "scopes": ["read"]}]
    served = await serve(data=drawn(tmp_path), models=MODELS, tokens=tokens)
    for path in (*PAGES, "/static/web.css"):
        assert (await served.client.get(path)).status_code == 200
    assert 'data-tokens="needed"' in (await served.client.get("/")).text
    paths = ["choices", "runs/x", "runs/x/blocks/0", "samples?runs=x", "samples/1?runs=x"]
    for path in (*paths, "compare?runs=a,b", "compare/blocks/0?runs=a,b"):
        assert (await served.client.get(f"/web/{path}")).status_code == 401
    known = {"Authorization": "Bearer secret"}
    answer = await served.client.get("/web/choices", headers=known)
    assert answer.json()["scopes"] == ["read"]
