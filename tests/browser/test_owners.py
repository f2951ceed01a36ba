"""A run's buttons, which only those see who may use them."""

import hashlib
import re
from pathlib import Path

import httpx2
import pytest
from playwright.async_api import expect

from tests.browser.conftest import Opener
from tests.browser.web_server import TOKEN, serve_scenes, token_entry
from tests.mmconv.service.conftest import Servers

pytestmark = pytest.mark.asyncio(loop_scope="session")

OWNER = "another"


def stopped(url: str) -> str:
    """A run that its owner has started and stopped; its id."""
    known = {"Authorization": f"Bearer {OWNER}"}
    asked = {"data": "scenes", "models": {"candidate": "slow", "judge": "judge"}}
    posted = httpx2.post(f"{url}/v1/runs", json=asked, headers=known).raise_for_status()
    run = str(posted.json()["id"])
    httpx2.delete(f"{url}/v1/runs/{run}", headers=known).raise_for_status()
    return run


@pytest.mark.parametrize(("scopes", "buttons"), [(("run",), 0), (("read",), 0), (("admin",), 2)])
async def test_a_run_of_another_token_has_buttons_for_admins_alone(
    tmp_path: Path, opened: Opener, scopes: tuple[str, ...], buttons: int
) -> None:
    owner = {"name": "bob", "sha256": hashlib.sha256(OWNER.encode()).hexdigest()}
    servers = Servers(tmp_path)
    try:
        tokens = [token_entry(*scopes), {**owner, "scopes": ["run"]}]
        server = serve_scenes(servers, tmp_path, tokens=tokens)
        page = await opened(f"{server.url}/runs/{stopped(server.url)}", expected="status of 401")
        await page.locator("#token").fill(TOKEN)
        await page.keyboard.press("Enter")
        await expect(page.locator("#run-state .badge")).to_have_text("stopped")
        offered = page.get_by_role("button", name=re.compile("Resume|Remove"))
        await expect(offered).to_have_count(buttons)
        await page.close()
    finally:
        servers.end()
