"""Pages for tokens that may not do what a page is for: they say so, and offer nothing else."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Opener
from tests.browser.web_server import MODELS, TOKEN, serve_scenes, token_entry
from tests.mmconv.service.conftest import Servers

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize(
    ("scope", "address", "info", "button"),
    [
        ("chat", "/", "This token may not see runs", None),
        ("chat", "/new", "This token may not start runs", "Start the run"),
        ("read", "/new", "This token may not start runs", "Start the run"),
        ("read", "/try", "This token may not ask models", "Ask"),
    ],
)
async def test_what_a_token_may_not_do_is_told_and_not_offered(
    tmp_path: Path, opened: Opener, scope: str, address: str, info: str, button: str | None
) -> None:
    servers = Servers(tmp_path)
    try:
        server = serve_scenes(servers, tmp_path, tokens=[token_entry(scope)])
        page = await opened(f"{server.url}{address}", expected="status of 401")
        await page.locator("#token").fill(TOKEN)
        await page.keyboard.press("Enter")
        await page.wait_for_selector("html[data-ready]")
        await expect(page.locator("#problem")).to_have_text(info)
        await expect(page.get_by_text("Loading…")).to_have_count(0)
        if button is not None:
            await expect(page.get_by_role("button", name=button, exact=True)).to_be_disabled()
        await page.wait_for_load_state("networkidle")
    finally:
        servers.end()


async def test_models_without_their_key_cannot_be_chosen(tmp_path: Path, opened: Opener) -> None:
    keyless = {"provider": "openai", "model": "x", "api_key_env": "MMCONV_NO_SUCH_KEY"}
    servers = Servers(tmp_path)
    try:
        server = serve_scenes(servers, tmp_path, models={**MODELS, "gpt": keyless})
        for address, fields in (
            ("/new", ("models.candidate", "models.judge")),
            ("/try", ("model", "judge")),
        ):
            page = await opened(f"{server.url}{address}")
            for field in fields:
                disabled = page.locator(f"select[name='{field}'] option:disabled")
                await expect(disabled).to_have_text(["gpt (no key here)"])
    finally:
        servers.end()
