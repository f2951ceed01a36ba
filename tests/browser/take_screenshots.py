"""Makes the pictures of README.md anew, from the folder of a run of `make demo`:

python -m tests.browser.take_screenshots FOLDER
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from playwright.async_api import Browser, async_playwright

from mmconv.run_folder.layout import PAGE
from tests.browser.conftest import CHROMIUM, FLAGS

FOLDER = Path(__file__).with_name("screenshots")

SAMPLE = "3"
"""A sample of the demo that shows a mistake of perception and what follows from it."""


async def take(report: Path) -> None:
    """The head of the report in the light, and a sample of it in the dark."""
    async with async_playwright() as started:
        browser = await started.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        await _take(browser, report.as_uri(), "report.png", 820, dark=False)
        await _take(browser, f"{report.as_uri()}#sample={SAMPLE}", "sample.png", 1000, dark=True)
        await browser.close()


async def _take(browser: Browser, address: str, name: str, height: int, *, dark: bool) -> None:
    context = await browser.new_context(
        viewport={"width": 1280, "height": height},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
    )
    page = await context.new_page()
    await page.goto(address)
    await page.wait_for_selector("html[data-ready]")
    if "#sample" in address:
        await page.locator("#detail .turn").first.wait_for()
        await page.locator("#detail").evaluate(
            "detail => scrollTo(0, scrollY + detail.getBoundingClientRect().top - 90)"
        )
    await page.screenshot(path=FOLDER / name)
    await context.close()


if __name__ == "__main__":
    asyncio.run(take(Path(sys.argv[1]).resolve() / PAGE))
