"""`mmconv view` as a person uses it: a folder of runs listed, ranked, and read side by side."""

import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from playwright.async_api import expect

from tests.browser.conftest import Auditor, Opener, in_session
from tests.mmconv.report.page_runs import simulated_run
from tests.mmconv.service.conftest import Servers

pytestmark = pytest.mark.asyncio(loop_scope="session")

PHONE = 400


@dataclass(frozen=True, slots=True)
class Viewed:
    """A folder that is viewed, and the address."""

    folder: Path
    url: str


@in_session
async def viewed(tmp_path_factory: pytest.TempPathFactory, chromium: str) -> AsyncIterator[Viewed]:
    """Two finished runs, one that was stopped, and one of which a file is damaged."""
    folder = tmp_path_factory.mktemp("view")
    first = await simulated_run(folder, "careful", 0.2)
    await simulated_run(folder, "blurred", 0.9)
    for name in ("stopped", "damaged"):
        copy = first.with_name(f"convbench-{name}-12345678")
        shutil.copytree(first, copy)
        spec = (copy / "spec.json").read_bytes()
        (copy / "spec.json").write_bytes(spec.replace(b'"careful"', f'"{name}"'.encode()))
        summary = orjson.loads((copy / "summary.json").read_bytes()) | {"complete": False}
        cut = b"{" if name == "damaged" else orjson.dumps(summary)
        (copy / "summary.json").write_bytes(cut)
    servers = Servers(folder)
    yield Viewed(folder / "runs", servers.view(folder / "runs").url)
    servers.end()


async def test_the_list_says_how_each_run_is(viewed: Viewed, opened: Opener) -> None:
    page = await opened(viewed.url)
    await expect(page.locator("#status")).to_have_text("4 runs")
    states = {
        await row.locator(".name").inner_text(): await row.locator(".badge").inner_text()
        for row in await page.locator("tr.run").all()
    }
    damaged = next(name for name in states if "damaged" in name)
    assert states == {"careful": "done", "blurred": "done", "stopped": "stopped", damaged: "failed"}
    row = page.locator("tr.run", has_text="damaged")
    await expect(row.locator(".problem")).to_contain_text("summary.json: cut short, or not JSON")
    for name in ("New run", "Try", "API"):
        await expect(page.get_by_role("link", name=name)).to_have_count(0)


async def test_runs_are_chosen_and_ranked_by_any_column(viewed: Viewed, opened: Opener) -> None:
    page = await opened(f"{viewed.url}/?state=done")
    await page.get_by_label("Choose all finished runs that are listed").check()
    await page.get_by_role("button", name="Leaderboard").click()
    first = page.locator("#findings table").first.locator("tbody th")
    await expect(first).to_have_text(["careful", "blurred"])
    await page.select_option("select[name=sort]", "S2_hat - S2")
    await expect(first).to_have_text(["blurred", "careful"])
    await page.reload()
    await expect(first).to_have_text(["blurred", "careful"])
    await expect(page.locator("select[name=sort]")).to_have_value("S2_hat - S2")
    await first.first.get_by_role("link").click()
    await expect(page.locator("h1")).to_contain_text("blurred on ")
    await expect(page.locator("#findings table").first).to_be_visible()


async def test_a_sample_of_unfinished_runs_has_an_address(viewed: Viewed, opened: Opener) -> None:
    page = await opened(f"{viewed.url}/?q=ed", expected="status of 409")
    for name in ("blurred", "stopped"):
        await page.locator("tr.run", has_text=name).get_by_role("checkbox").check()
    await page.get_by_role("button", name="Compare 2 runs").click()
    await expect(page.locator("#problem")).to_contain_text("is not done (it is stopped)")
    await page.select_option("select[name=condition]", label="perfect perception")
    await page.keyboard.press("Tab")
    await page.keyboard.press("j")
    await expect(page.locator("#detail h3")).to_have_text("Sample 2")
    assert page.url.endswith("#sample=2&condition=perception")
    again = await opened(page.url, expected="status of 409")
    await expect(again.locator("#detail h3")).to_have_text("Sample 2")
    titles = again.locator("#detail .turn").first.locator(".column-title")
    await expect(titles).to_have_text(
        ["blurred · perfect perception", "stopped · perfect perception"]
    )
    await expect(again.locator("#detail .verdict").first).to_be_visible()


@pytest.mark.parametrize("path", ["", "leaderboard?runs={runs}", "compare?runs={runs}"])
async def test_every_page_fits_a_phone(viewed: Viewed, opened: Opener, path: str) -> None:
    done = sorted(path.name for path in viewed.folder.glob("convbench-[bc]*"))
    page = await opened(f"{viewed.url}/{path.format(runs=','.join(done))}", width=PHONE)
    await expect(page.locator("table:visible").first).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth") == PHONE
    # each run of a leaderboard is a block there, and no table has to be scrolled sideways
    boards = await page.locator(".board .scroll").all()
    assert bool(boards) == path.startswith("leaderboard")
    for board in boards:
        assert await board.evaluate("box => box.scrollWidth - box.clientWidth") == 0
    for link in await page.locator(".bar nav a").all():
        await expect(link).to_be_in_viewport(ratio=1)


WIDE = ("", "leaderboard?runs={runs}", "compare?runs={runs}", "runs/{run}#details")
NARROW = ("?state=failed", "compare?runs={runs}#sample=2", "runs/{run}#details")


@pytest.mark.parametrize(
    ("width", "scheme", "pages"), [(1280, "light", WIDE), (PHONE, "dark", NARROW)]
)
async def test_axe_finds_nothing_serious(
    viewed: Viewed, opened: Opener, audit: Auditor, width: int, scheme: str, pages: tuple[str, ...]
) -> None:
    done = sorted(path.name for path in viewed.folder.glob("convbench-[bc]*"))
    for path in pages:
        address = f"{viewed.url}/{path.format(runs=','.join(done), run=done[0])}"
        page = await opened(address, width=width, scheme=scheme)
        await audit(page)
        await page.close()


async def test_a_run_that_is_deleted_leaves_the_list(viewed: Viewed, opened: Opener) -> None:
    gone = viewed.folder / "convbench-gone-12345678"
    shutil.copytree(next(viewed.folder.glob("convbench-careful-*")), gone)
    page = await opened(viewed.url)
    await expect(page.locator("#status")).to_have_text("5 runs")
    shutil.rmtree(gone)
    await expect(page.locator("#status")).to_have_text("4 runs")
    missing = await opened(f"{viewed.url}/runs/{gone.name}", expected="status of 404")
    await expect(missing.locator("#problem")).to_have_text(f"No run {gone.name} is here")


async def test_a_note_is_written_by_keyboard_and_found_in_the_list(
    viewed: Viewed, opened: Opener, audit: Auditor
) -> None:
    page = await opened(viewed.url, width=PHONE, expected="status of 400")
    await page.locator("tr.run", has_text="blurred").locator(".name").click()
    await page.get_by_role("button", name="Note").press("Enter")
    await expect(page.get_by_label("Tags")).to_be_focused()
    tag, note = "narrow", "Seen on a phone."
    await page.keyboard.type(f" {tag}, paper,, ")
    await page.keyboard.press("Tab")
    await page.keyboard.type(note)
    await audit(page)
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.locator("#run-notes .badge")).to_contain_text([tag, "paper"])
    await expect(page.get_by_role("button", name="Note")).to_be_focused()
    await expect(page.get_by_role("button", name="Remove")).to_have_count(0)
    await page.goto(f"{viewed.url}/?tag={tag}")
    await expect(page.locator("#status")).to_have_text("1 of 4 runs")
    await expect(page.locator("tr.run")).to_contain_text(note)
    assert await page.evaluate("document.documentElement.scrollWidth") == PHONE
    await audit(page)
    # what may not be a tag is refused at its field
    await page.locator("tr.run .name").click()
    await page.get_by_role("button", name="Note").click()
    await page.get_by_label("Tags").fill("x" * 41)
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator("#notes .fault")).to_contain_text("at most 40")
    await page.get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="Note").click()
    await page.get_by_label("Tags").fill("")
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator("#run-notes .badge")).to_have_count(0)
