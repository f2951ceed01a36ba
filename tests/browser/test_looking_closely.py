"""Pictures that are enlarged, tables that are sorted, keys that are switched off."""

import re
import shutil
from pathlib import Path
from typing import Any

import PIL.Image
import pytest
from playwright.async_api import Page, expect

from mmconv.report.page import build, write_page
from tests.browser.conftest import Opener, library
from tests.browser.test_report import expect_sample
from tests.mmconv.report.page_runs import simulated_run

pytestmark = pytest.mark.asyncio(loop_scope="session")

IS_LARGER = re.compile("^data:image/jpeg")
WIDTH = "image => image.decode().then(() => image.naturalWidth)"


async def width(page: Page) -> Any:
    return await page.locator("#enlarged img").evaluate(WIDTH)


async def test_a_picture_is_enlarged_and_closed_by_keyboard(run: Path, opened: Opener) -> None:
    page = await opened(run, "#samples")
    picture = page.get_by_role("button", name="The picture of sample 1")
    await picture.focus()
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Picture, enlarged")
    await expect(dialog.get_by_role("img", name="The picture of sample 1")).to_be_visible()
    source = next((run.parents[2] / "data").rglob("*.png"))
    with PIL.Image.open(source) as image:
        assert await width(page) == image.width
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    await expect(picture).to_be_focused()
    await picture.click()
    await dialog.get_by_role("img").click()
    await expect(dialog).to_be_hidden()


async def test_a_larger_picture_is_loaded_from_beside_the_page(apart: Path, opened: Opener) -> None:
    page = await opened(apart, "#samples")
    await page.locator(".detail .enlarge").click()
    await expect(page.locator("#enlarged img")).to_have_attribute("src", IS_LARGER)
    await expect(page.locator("#enlarged .problem")).to_be_hidden()


async def test_a_page_without_its_folder_says_that_a_picture_is_the_small_one(
    tmp_path: Path, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "LARGER_BYTES", 0)
    run = await simulated_run(tmp_path)
    whole = write_page(run, library(tmp_path))
    (tmp_path / "alone").mkdir()
    alone = Path(shutil.copy(whole, tmp_path / "alone"))
    page = await opened(alone, "#samples", expected="ERR_FILE_NOT_FOUND")
    await page.locator(".detail .enlarge").click()
    await expect(page.locator("#enlarged .problem")).to_have_text(
        "This is the small image: report.samples/1000000.js is not beside this page."
    )
    assert await width(page) > 0


async def test_a_table_is_sorted_by_a_column_and_set_back(run: Path, opened: Opener) -> None:
    page = await opened(run)
    table = page.locator("#headline table").first
    rows = table.locator("tbody th")
    column = table.get_by_role("columnheader", name="free")
    before = await rows.all_inner_texts()

    async def values() -> list[float]:
        cells = await table.locator("tbody td:nth-child(2)").all_inner_texts()
        return [float(cell.split()[0]) for cell in cells if cell.strip()]

    await column.get_by_role("button").press("Enter")
    await expect(column).to_have_attribute("aria-sort", "descending")
    assert (falling := await values()) == sorted(falling, reverse=True)
    assert len(set(falling)) > 2
    await column.get_by_role("button").press("Enter")
    await expect(column).to_have_attribute("aria-sort", "ascending")
    assert await values() == falling[::-1]
    await (
        table.get_by_role("columnheader", name="perfect perception")
        .first.get_by_role("button")
        .click()
    )
    assert await column.get_attribute("aria-sort") is None
    # a row without a number is below those that have one
    assert not (await table.locator("tbody tr:last-child td:nth-child(3)").inner_text()).strip()
    for _ in range(2):
        await (
            table.get_by_role("columnheader", name="perfect perception")
            .first.get_by_role("button")
            .click()
        )
    assert await rows.all_inner_texts() == before


async def test_keys_of_a_single_sign_can_be_switched_off(run: Path, opened: Opener) -> None:
    page = await opened(run, "#samples")
    await page.keyboard.press("?")
    await page.get_by_role("checkbox", name="Keys of a single sign work").uncheck()
    await page.keyboard.press("Escape")
    await page.keyboard.press("j")
    await page.keyboard.press("?")
    await expect(page.locator("#help")).to_be_hidden()
    await expect_sample(page, "1")
    await page.keyboard.press("ArrowRight")
    await expect_sample(page, "2")
    await page.reload()
    await page.wait_for_selector("html[data-ready]")
    await page.keyboard.press("j")
    await page.keyboard.press("ArrowLeft")
    await expect_sample(page, "1")


async def test_a_served_picture_is_enlarged_as_it_is(url: str, opened: Opener) -> None:
    page = await opened(url)
    await page.locator("a[href*='/runs/']").first.click()
    await page.click(".tabs a[href='#samples']")
    await page.locator(".detail .enlarge").click()
    assert await width(page) > 0
