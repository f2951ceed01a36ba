"""Makes the picture of README.md again, from the folder of a run of `make demo`:

python -m tests.browser.take_screenshots FOLDER
"""

import asyncio
import sys
from pathlib import Path

from playwright.async_api import async_playwright

from mmconv.run_folder.layout import PAGE
from tests.browser.conftest import CHROMIUM, FLAGS

PICTURE = Path(__file__).parent / "screenshots" / "sample.png"

SAMPLE = "3"
"""A sample of the demo that shows a mistake of perception and what follows from it."""


async def take(report: Path) -> None:
    """The sample in the report, in the dark."""
    async with async_playwright() as started:
        browser = await started.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        page = await browser.new_page(
            viewport={"width": 1280, "height": 1000}, color_scheme="dark", reduced_motion="reduce"
        )
        await page.goto(f"{report.as_uri()}#sample={SAMPLE}")
        await page.wait_for_selector("html[data-ready]")
        await page.locator("#detail .turn").first.wait_for()
        await page.locator("#detail").evaluate(
            "detail => scrollTo(0, scrollY + detail.getBoundingClientRect().top - 90)"
        )
        await page.screenshot(path=PICTURE)
        await browser.close()


if __name__ == "__main__":
    asyncio.run(take(Path(sys.argv[1]).resolve() / PAGE))
