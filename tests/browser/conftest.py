"""A real Chromium (Debian's), and pages of finished runs to look at with it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from importlib import resources
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright, expect

from images import ImageStore
from mmconv.report.comparison.differences import compare
from mmconv.report.page import write_comparison, write_page
from tests.browser.web_server import finish, serve_scenes
from tests.mmconv.report.page_runs import hostile_run, multiply, simulated_run
from tests.mmconv.service.conftest import Servers

# However busy the machine is: an expectation waits for a state.
expect.set_options(timeout=30_000)

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

Opener = Callable[..., Awaitable[Page]]
"""Opens a file, or an address: then also its fragment, width in pixels, colour scheme.

`expected` is what the console may say, since a request that is refused is told there too.
"""


Auditor = Callable[[Page], Awaitable[None]]
"""Fails if axe finds anything serious on the page."""

in_session = pytest_asyncio.fixture(scope="session", loop_scope="session")


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser's path; without one, the tests that need it are skipped."""
    if not CHROMIUM.exists():
        pytest.skip(f"no browser: {CHROMIUM} is not there (apt-get install chromium)")
    return str(CHROMIUM)


@in_session
async def browser(chromium: str) -> AsyncIterator[Browser]:
    async with async_playwright() as started:
        browser = await started.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def opened(browser: Browser) -> AsyncIterator[Opener]:
    """An opener that fails the test afterwards if a page wrote an error to its console."""
    errors: list[str] = []
    contexts = []

    async def open_page(
        path: Path | str,
        fragment: str = "",
        width: int = 1280,
        scheme: str = "light",
        expected: str | None = None,
    ) -> Page:
        context = await browser.new_context(
            viewport={"width": width, "height": 850},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        contexts.append(context)

        def note(message: str) -> None:
            if expected is None or expected not in message:
                errors.append(message)

        page = await context.new_page()
        page.on("console", lambda message: note(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        await page.goto((path if isinstance(path, str) else path.as_uri()) + fragment)
        if expected is None:
            await page.wait_for_selector("html[data-ready]")
        return page

    yield open_page
    for context in contexts:
        await context.close()
    assert errors == []


@in_session
async def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of forty samples of ConvBench; the first twelve are the run's own."""
    folder = tmp_path_factory.mktemp("page")
    made = await simulated_run(folder)
    multiply(made, 40)
    return write_page(made, library(folder))


@in_session
async def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs side by side, of which one perceives worse."""
    folder = tmp_path_factory.mktemp("compared")
    runs = [
        await simulated_run(folder, name, perception)
        for name, perception in (("pocket", 0.2), ("blurred", 0.9))
    ]
    comparison = compare(runs)
    page = folder / "comparison.html"
    return write_comparison(page, comparison, library(folder))


@in_session
async def apart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page that holds none of its samples: they lie beside it."""
    folder = tmp_path_factory.mktemp("apart")
    return write_page(await simulated_run(folder), library(folder), block_bytes=0)


@in_session
async def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run whose candidate answers with markup."""
    folder = tmp_path_factory.mktemp("hostile")
    return write_page(await hostile_run(folder), library(folder))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, chromium: str) -> Iterator[str]:
    """A server with two finished runs: of `careful` and of `blurred`."""
    folder = tmp_path_factory.mktemp("web")
    servers = Servers(folder)
    server = serve_scenes(servers, folder)
    for model in ("careful", "blurred"):
        finish(server.url, model, "arbiter")
    yield server.url
    servers.end()


async def is_dark(page: Page) -> bool:
    """Whether the page has a dark ground."""
    colour = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    return int(colour.removeprefix("rgb(").split(",")[0]) < 128


def library(folder: Path) -> ImageStore:
    library = ImageStore()
    for path in folder.rglob("*.png"):
        library.add_file(str(path))
    return library


@pytest.fixture(scope="session")
def audit() -> Auditor:
    package = pytest.importorskip("axe_playwright_python")
    script = (resources.files(package) / "axe.min.js").read_text(encoding="utf-8")

    async def audit_page(page: Page) -> None:
        await page.evaluate(script)
        result = await page.evaluate("axe.run()")
        assert len(result["passes"]) > 10, page.url
        found = [
            (each["id"], each["nodes"][0]["html"])
            for each in result["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        assert found == [], page.url

    return audit_page
