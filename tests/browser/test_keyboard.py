"""The report by keyboard: what has the focus keeps it, and arrows go to what scrolls."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Opener
from tests.browser.test_report import PHONE, expect_sample

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_keyboard_keeps_its_place(run: Path, opened: Opener) -> None:
    page = await opened(run, "#samples")
    await page.get_by_role("button", name="Next").focus()
    for name in ("2", "3"):
        await page.keyboard.press("Enter")
        await expect_sample(page, name)
        await expect(page.locator("#opened")).to_have_text(f"Sample {name}")
        await expect(page.get_by_role("button", name="Next")).to_be_focused()
    await page.get_by_role("button", name="Open rationales").press("Enter")
    await expect(page.get_by_role("button", name="Close rationales")).to_be_focused()
    await page.locator("#list a", has_text="17").first.press("Enter")
    await expect_sample(page, "17")
    await expect(page.locator("#detail")).to_be_focused()


async def test_arrows_move_a_scrolling_table_and_not_the_samples(run: Path, opened: Opener) -> None:
    page = await opened(run, "#details", width=PHONE)
    scrolled = page.locator("#cost .scroll").first
    await scrolled.focus()
    await page.keyboard.press("ArrowRight")
    await expect(scrolled).not_to_have_js_property("scrollLeft", 0)
    await page.keyboard.press("j")
    await expect_sample(page, "2")
