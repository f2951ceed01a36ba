"""The page of whole runs: what it holds, what it refuses to load, how large it is."""

import base64
import gzip
import io
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from typing import Any

import orjson
import PIL.Image
import pytest

from images import ImageStore
from mmconv.core.errors import ConfigError
from mmconv.report.comparison.differences import compare
from mmconv.report.page import write_comparison, write_page
from mmconv.report.page.build import LARGER
from mmconv.run_folder.layout import PAGE, SCORES, TRANSCRIPTS
from mmconv.run_folder.saved_run import read_lines
from tests.mmconv.report.page_runs import multiply, simulated_run
from tests.mmconv.report.runs import FAILING, make_run

LIMIT = 5_000_000


class Page(HTMLParser):
    """What a reader of the file's markup finds: tags with attributes, and texts of scripts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: dict[str, str] = {}
        self._open = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = dict(attrs).get("id") or "" if tag == "script" else ""

    def handle_data(self, data: str) -> None:
        if self._open:
            self.scripts[self._open] = data

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def index(self) -> Any:
        return unpacked(self.scripts["index"])

    def samples(self) -> list[Any]:
        names = (name for name in self.scripts if name.startswith("texts-"))
        return [sample for name in names for sample in unpacked(self.scripts[name])]


def unpacked(text: str) -> Any:
    return orjson.loads(gzip.decompress(base64.b64decode(text)))


def library(folder: Path) -> ImageStore:
    found = ImageStore()
    for path in folder.rglob("*.png"):
        found.add_file(str(path))
    return found


async def test_a_run_s_page_holds_its_numbers_and_samples(tmp_path: Path) -> None:
    folder = await simulated_run(tmp_path)
    path = write_page(folder, library(tmp_path), {"1": {"caption": "A red circle."}})
    assert path == folder / PAGE
    page = Page(path)
    text = path.read_text(encoding="utf-8")
    scores = orjson.loads((folder / "tables" / "scores.json").read_bytes())
    assert f"{scores['rows']['S2_hat']['direct (1-10)']['value']:.2f}" in text
    index = page.index()
    assert [each["i"] for each in index["samples"]] == [str(number) for number in range(1, 13)]
    assert index["conditions"] == ["free", "perception", "reasoning"]
    sample = page.samples()[0]
    assert [column["condition"] for column in sample["columns"]] == index["conditions"]
    given = [
        [turn["answers"][0].get("given", False) for turn in column["turns"]]
        for column in sample["columns"]
    ]
    assert given == [[False] * 3, [True, False, False], [True, True, False]]
    assert sample["about"] == [{"name": "caption", "text": "A red circle."}]
    pictures = orjson.loads(page.scripts["pictures-0"])
    data = base64.b64decode(pictures[sample["pictures"][0]])
    assert data[:4] == b"RIFF"


@pytest.mark.parametrize("benchmark", ["fbbench", "cmteval", "mtbench101", "botchat"])
async def test_text_benchmarks_have_pages_of_their_tables(benchmark: str, tmp_path: Path) -> None:
    folder = await make_run(benchmark, tmp_path)
    page = Page(write_page(folder))
    names = orjson.loads((folder / "tables" / "index.json").read_bytes())
    shown = {attributes.get("id") for tag, attributes in page.tags if tag == "details"}
    assert {f"table-{name}" for name in names} <= shown
    assert page.samples()
    assert all(column["turns"] for sample in page.samples() for column in sample["columns"])


async def test_a_run_in_a_bad_state_says_so_before_anything_else(tmp_path: Path) -> None:
    bad = await make_run("convbench", tmp_path / "bad", FAILING)
    text = write_page(bad).read_text(encoding="utf-8")
    warnings = text.split('<div class="quality-warnings"', 1)[1].split("</div>", 1)[0]
    assert re.search(r"of \d\d\d calls \([\d.]+\u00a0%\) have no reply: \d+ failed", warnings)
    assert "<li>R1, " in warnings
    assert text.index('<div class="quality-warnings"') < text.index('<section id="headline"')
    assert "\n- **warning**: " in (bad / "report.md").read_text(encoding="utf-8")
    good = await make_run("convbench", tmp_path / "good")
    assert '<div class="quality-warnings"' not in write_page(good).read_text(encoding="utf-8")
    assert "**warning**" not in (good / "report.md").read_text(encoding="utf-8")
    compared = compare([good, bad], despite=["data"])
    text = write_comparison(tmp_path / "comparison.html", compared).read_text(encoding="utf-8")
    assert re.search(r"<li>gamma: \d+ of \d\d\d calls .* R1, .*</li>", text)
    assert "<li>alpha: " not in text


async def test_nothing_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    path = write_page(await simulated_run(tmp_path), library(tmp_path))
    page = Page(path)
    for tag, attributes in page.tags:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            value = attributes.get(name)
            assert value is None or value.startswith("#"), f"{tag} {name}={value}"
    bare = re.sub(r"<script type=[^>]*>.*?</script>", "", path.read_text(encoding="utf-8"))
    assert not re.search(r"(?:https?:)?//[a-z]|@import|url\((?!#)", re.sub(r"/\*.*?\*/", "", bare))
    [policy] = [
        attributes["content"] or ""
        for tag, attributes in page.tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "http" not in policy


class Photographs:
    """An image source that has a busy picture for every hash, one of ten."""

    def read(self, sha256: str) -> bytes:
        return photograph(int(sha256[:16]) % 10)


@cache
def photograph(number: int) -> bytes:
    noise = PIL.Image.frombytes("RGB", (60, 45), Random(number).randbytes(60 * 45 * 3))
    file = io.BytesIO()
    noise.resize((640, 480), PIL.Image.Resampling.BICUBIC).save(file, "JPEG")
    return file.getvalue()


def give_own_pictures(transcripts: Path) -> None:
    """Make a run of samples that share pictures one in which each has its own."""
    lines = []
    for line in transcripts.read_bytes().splitlines():
        sample = orjson.loads(line)["sample"]
        lines.append(
            re.sub(rb'"image":"[0-9a-f]{64}"', b'"image":"%016d%048d"' % (int(sample), 0), line)
        )
    transcripts.write_bytes(b"\n".join([*lines, b""]))


async def test_five_hundred_samples_stay_below_five_megabytes(tmp_path: Path) -> None:
    folder = await simulated_run(tmp_path)
    multiply(folder, 500)
    give_own_pictures(folder / "transcripts.jsonl")
    path = write_page(folder, Photographs())
    page = Page(path)
    pictures = [orjson.loads(page.scripts[f"pictures-{number}"]) for number in range(32)]
    assert len({name for block in pictures for name in block}) == 500
    assert len(page.samples()) == 500
    assert path.stat().st_size < LIMIT


async def test_samples_beyond_the_pages_room_are_beside_it_and_it_says_so(
    tmp_path: Path,
) -> None:
    folder = await simulated_run(tmp_path)
    multiply(folder, 40)
    path = write_page(folder, library(tmp_path), block_bytes=60_000)
    beside = sorted(path.with_suffix(".samples").iterdir())
    held = len(Page(path).samples())
    assert 0 < held < 40
    assert f"The first {held} samples are in this file" in path.read_text(encoding="utf-8")
    texts = [int(each.stem) for each in beside if int(each.stem) < LARGER]
    assert texts == list(range(held // 16, 3))
    write_page(folder, library(tmp_path))
    assert len(Page(path).samples()) == 40
    assert not path.with_suffix(".samples").exists()


async def test_pictures_that_are_gone_are_named(tmp_path: Path) -> None:
    path = write_page(await simulated_run(tmp_path), ImageStore())
    text = path.read_text(encoding="utf-8")
    assert "12 images are not shown" in text
    assert "not in this image store" in text


def scores_shown(page: Page) -> dict[str, dict[str, float | str]]:
    """The scores of each sample by their column."""
    index = page.index()
    columns = [" ".join(map(str, column)) for column in index["columns"]]
    return {
        sample["i"]: {
            column: score
            for column, score in zip(columns, sample["s"], strict=True)
            if score is not None
        }
        for sample in index["samples"]
    }


async def test_a_sample_without_calls_or_scores_takes_those_of_no_other(tmp_path: Path) -> None:
    folder = await make_run("fbbench", tmp_path)
    whole = scores_shown(Page(write_page(folder)))
    uncalled, _, unscored, *_ = whole
    for name, without in ((TRANSCRIPTS, uncalled), (SCORES, unscored)):
        lines = [line for line in read_lines(folder / name) if line.record["sample"] != without]
        (folder / name).write_bytes(b"".join(line.text for line in lines))
    page = Page(write_page(folder))
    assert scores_shown(page) == whole | {unscored: {}}
    assert {each["id"] for each in page.samples() if each["columns"]} == whole.keys() - {uncalled}


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run found"):
        write_page(tmp_path)
