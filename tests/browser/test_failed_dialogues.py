"""What the page that tries a dialogue shows of models and judges that fail."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Opener
from tests.mmconv.service.conftest import Servers

pytestmark = pytest.mark.asyncio(loop_scope="session")

DEAD = {
    "provider": "openai",
    "model": "x",
    "base_url": "http://127.0.0.1:9",
    "attempts": 1,
    "wait_for_server": 0.5,
}
MODELS = {
    "brief": {"provider": "fake", "model": "scripted", "options": {"script": ["A kite."]}},
    "dead": DEAD,
}


async def test_failures_are_in_words_and_never_an_answer(tmp_path: Path, opened: Opener) -> None:
    servers = Servers(tmp_path)
    try:
        server = servers(models=MODELS)
        page = await opened(f"{server.url}/try", expected="status of 502")
        await page.wait_for_selector("html[data-ready]")
        await page.fill("textarea[name='turns[0].instruction']", "What is there?")
        await page.fill("textarea[name='turns[1].instruction']", "Why?")
        await page.select_option("select[name=model]", "dead")
        await page.get_by_role("button", name="Ask").click()
        await expect(page.locator("#problem")).to_have_text("The model could not be reached")
        await expect(page.locator("#answer")).to_be_hidden()
        await page.select_option("select[name=model]", "brief")
        await page.locator("#judging > summary").click()
        await page.select_option("select[name=judge]", "dead")
        await page.get_by_role("button", name="Ask").click()
        await expect(page.locator("#answer-note")).to_have_text("brief answered 1 of 2 turns.")
        answers = page.locator("#dialogue")
        await expect(answers).to_contain_text("the script")
        await expect(answers).to_contain_text("the model could not be reached")
    finally:
        servers.end()
