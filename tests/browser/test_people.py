"""`mmconv label` and `mmconv review` as people use them: by keyboard, interrupted and resumed."""

import csv
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from playwright.async_api import Page, expect

from mmconv.benchmarks.convbench.data import CAPTION
from mmconv.core.config import RunSpec
from tests.browser.conftest import Auditor, Opener, in_session
from tests.drawn_data import write_scenes
from tests.mmconv.report.page_runs import HOSTILE, hostile_run
from tests.mmconv.report.runs import ALPHA, JUDGE, evaluate
from tests.mmconv.service.conftest import ServerProcess, Servers
from tests.mmconv.service.web.people import lines, write_drafts

pytestmark = pytest.mark.asyncio(loop_scope="session")

PHONE = 400
SAMPLES = 20
TURNS = 4
"""The ratings of a sample: three turns and the whole dialogue."""


@dataclass(frozen=True, slots=True)
class Desk:
    """A run to rate, drafts to review, and servers of both."""

    run: Path
    drafts: Path
    data: Path
    images: Path
    servers: Servers

    def label(self, out: Path) -> ServerProcess:
        return self.servers.page("label", self.run, "--samples", SAMPLES, "--out", out)

    def review(self, rater: str) -> ServerProcess:
        named = ("--data", self.data, "--images", self.images, "--rater", rater)
        return self.servers.page("review", self.drafts, *named)


@in_session
async def desk(tmp_path_factory: pytest.TempPathFactory, chromium: str) -> AsyncIterator[Desk]:
    folder = tmp_path_factory.mktemp("people")
    data, images = write_scenes(folder / "scenes", SAMPLES)
    spec = RunSpec(
        benchmark="convbench",
        options={"data": str(data), "images": str(images), "grading": ["direct"]},
        models={"candidate": ALPHA, "judge": JUDGE},
        conditions=["free"],
    )
    run = (await evaluate(spec, folder / "runs")).folder
    data, images, drafts = write_drafts(folder, 4)
    servers = Servers(folder)
    yield Desk(run, drafts, data, images, servers)
    servers.end()


async def press(page: Page, *keys: str) -> None:
    """Press keys, each when what the one before did has ended."""
    for key in keys:
        await expect(page.locator("html")).not_to_have_attribute("data-busy", "")
        await page.keyboard.press(key)
    await expect(page.locator("html")).not_to_have_attribute("data-busy", "")


async def rate(page: Page, key: str, count: int, before: int = 0) -> None:
    for number in range(before + 1, before + count + 1):
        await press(page, key)
        await expect(page.locator("#progress")).to_contain_text(f"You: {number} rating")


async def finish(page: Page, key: str, before: int) -> int:
    """Rate all that is left; returns how many ratings the rater has then."""
    question = page.locator("#question")
    while await question.inner_text() != "Nothing is left for you":
        before += 1
        await rate(page, key, 1, before - 1)
        await expect(page.locator("html")).not_to_have_attribute("data-busy", "")
    return before


def ratings(out: Path) -> dict[tuple[str, str, str], str]:
    with out.open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    found = {(row["rater"], row["sample"], row["turn"]): row["value"] for row in rows}
    assert len(found) == len(rows)
    return found


async def test_two_raters_and_a_killed_server(desk: Desk, opened: Opener, tmp_path: Path) -> None:
    out = tmp_path / "labels.csv"
    server = desk.label(out)
    gone = "net::ERR_CONNECTION_REFUSED"
    ann = await opened(server.url, expected=gone)
    await ann.keyboard.type("Ann")
    await ann.keyboard.press("Enter")
    await expect(ann.locator("#question")).to_have_text("Rate turn 1 (perception)")
    assert ann.url.endswith("?rater=Ann")
    ben = await opened(f"{server.url}/?rater=Ben")
    await rate(ann, "0", 10)
    await rate(ben, "3", 6)
    await press(ann, "u")
    await expect(ann.locator("#progress")).to_contain_text("You: 9 ratings")
    await press(ann, "s", "ArrowLeft", "7")
    await expect(ann.locator("#progress")).to_contain_text("You: 10 ratings")
    server.kill()
    before = ratings(out)
    assert len(before) == 16
    assert {value for (rater, *_), value in before.items() if rater == "Ann"} == {"10", "7"}
    question = await ann.locator("#question").inner_text()
    await press(ann, "5")
    await expect(ann.locator("#problem")).to_have_text("The server cannot be reached.")
    await expect(ann.locator("#question")).to_have_text(question)
    again = desk.label(out)
    ann, ben = [await opened(f"{again.url}/?rater={name}") for name in ("Ann", "Ben")]
    await expect(ben.locator("#progress")).to_contain_text("You: 6 ratings")
    await rate(ben, "4", 20, before=6)
    total = await finish(ann, "9", 10) + await finish(ben, "4", 26)
    assert total == SAMPLES * TURNS + SAMPLES // 5 * TURNS
    after = ratings(out)
    assert after | before == after
    assert len(after) == total
    assert len({key[1:] for key in after}) == SAMPLES * TURNS
    both = {key[1:] for key in after if key[0] == "Ann"} & {
        key[1:] for key in after if key[0] == "Ben"
    }
    assert len(both) == SAMPLES // 5 * TURNS


async def test_drafts_are_edited_and_judged_by_keyboard(desk: Desk, opened: Opener) -> None:
    page = await opened(desk.review("Ann").url + "/?rater=Ann")
    title, progress = page.locator("#draft-title"), page.locator("#progress")
    await expect(title).to_have_text("Record 1")
    await press(page, "e", "End")
    await page.keyboard.type(" And more.")
    await press(page, "Control+Enter")
    await expect(title).to_have_text("Record 2")
    assert lines(desk.drafts)[0][CAPTION].endswith(" And more.")
    assert lines(desk.drafts)[0]["status"] == "verified"
    await press(page, "r")
    await expect(progress).to_have_text("1 of 4 verified, 1 rejected, 2 left")
    await press(page, "u")
    await expect(title).to_have_text("Record 2")
    assert lines(desk.drafts)[1]["status"] == "draft"
    # what was edited is saved when the reviewer moves on
    await press(page, "e")
    await page.keyboard.type(" Again.")
    await press(page, "Escape", "ArrowRight")
    await expect(title).to_have_text("Record 3")
    assert lines(desk.drafts)[1][CAPTION].endswith(" Again.")


async def test_a_draft_changed_by_another_program_is_reloaded(desk: Desk, opened: Opener) -> None:
    page = await opened(desk.review("Ann").url + "/?rater=Ann", expected="status of 409")
    await page.locator("#filter").select_option("")
    await expect(page.locator("#draft textarea").first).to_be_visible()
    name = (await page.locator("#draft-title").inner_text()).removeprefix("Record ")
    changed = [
        line | ({"note": "x"} if str(line["ID"]) == name else {}) for line in lines(desk.drafts)
    ]
    desk.drafts.write_bytes(b"\n".join(map(orjson.dumps, changed)))
    await page.locator("body").press("a")
    await expect(page.locator("#problem")).to_contain_text("was changed by another program")
    await page.get_by_role("button", name="Load it again").press("Enter")
    await press(page, "a")
    saved = next(line for line in lines(desk.drafts) if str(line["ID"]) == name)
    assert (saved["note"], saved["status"]) == ("x", "verified")


async def test_answers_with_markup_are_text(desk: Desk, opened: Opener, tmp_path: Path) -> None:
    run = await hostile_run(tmp_path)
    server = desk.servers.page("label", run, "--out", tmp_path / "labels.csv")
    page = await opened(f"{server.url}/?rater=<img src=x onerror=alert(1)>")
    await expect(page.locator(".answer.now")).to_have_text(HOSTILE)
    assert await page.title() == "Label · mmconv"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (PHONE, "dark")])
async def test_axe_finds_nothing_serious(
    desk: Desk, opened: Opener, audit: Auditor, tmp_path: Path, width: int, scheme: str
) -> None:
    label, review = desk.label(tmp_path / "labels.csv").url, desk.review("Ann").url
    for address in (label, f"{label}/?rater=Ann", f"{review}/?rater=Ann"):
        page = await opened(address, width=width, scheme=scheme)
        assert await page.evaluate("document.documentElement.scrollWidth") == width
        await audit(page)
