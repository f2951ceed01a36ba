"""The web page as a person uses it, over a real server: start, watch, read, compare, try."""

import re
from itertools import pairwise
from pathlib import Path

import httpx2
import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import Opener
from tests.browser.web_server import ROWS, TOKEN, finish, run_of, serve_scenes, token_entry
from tests.mmconv.service.conftest import Servers

pytestmark = pytest.mark.asyncio(loop_scope="session")

PHONE = 400
LEFT = """node => {
    const text = document.createRange();
    text.selectNodeContents(node);
    return Math.round(text.getBoundingClientRect().left);
}"""
"""Where the text of a node begins."""


async def start_run(page: Page, model: str, judge: str, **fields: str) -> None:
    await page.get_by_role("link", name="New run").first.click()
    await page.wait_for_selector("html[data-ready]")
    await page.select_option("select[name='models.candidate']", model)
    await page.select_option("select[name='models.judge']", judge)
    await page.locator("#further > summary").click()
    for name, value in fields.items():
        await page.fill(f"input[name='{name}']", value)
    await page.get_by_role("button", name="Start the run").click()


async def width_of(page: Page, selector: str) -> int:
    """The width of a picture's own pixels, once it is there."""
    picture = page.locator(selector).first
    await picture.scroll_into_view_if_needed()
    await expect(picture).to_have_attribute("src", re.compile("^blob:"))
    return int(await picture.evaluate("image => image.decode().then(() => image.naturalWidth)"))


async def test_a_run_is_started_watched_and_read(url: str, opened: Opener) -> None:
    page = await opened(url)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await start_run(page, "slow", "judge", limit="5")
    await expect(page.locator(".badge")).to_have_text("running")
    # its samples can be read while it is under way, and show more as time goes on
    await expect(page.locator("#list .name")).to_have_count(5)
    assert await width_of(page, "#detail .detail-head img") == 256
    await expect(page.locator("#detail .answer:not(.given) .text").first).to_be_visible()
    await expect(page.locator("progress")).to_be_visible()
    info = page.locator(".progress .hint")
    seen = {await info.inner_text()}
    while await page.locator(".badge.running").count() and len(seen) < 3:
        seen.add(await info.inner_text())
        await page.wait_for_timeout(50)
    assert len(seen) == 3, f"progress was not seen: {seen}"
    assert len([each for each in asked if each.endswith("/events")]) == 1
    # its end brings the report without a reload
    await expect(page.locator(".badge")).to_have_text("done")
    await expect(page.locator("#findings table").first).to_be_visible()
    await expect(page.locator("#findings figure svg").first).to_be_visible()
    await expect(page.locator("#count")).to_have_text("5 samples")


async def test_a_finished_run_shows_its_report_and_samples(url: str, opened: Opener) -> None:
    page = await opened(f"{url}/runs/{run_of(url, 'careful')}")
    await expect(page).to_have_title("careful on scenes · mmconv")
    await expect(page.locator("#findings .findings li").first).to_contain_text("direct (1-10)")
    await page.click(".tabs a[href='#samples']")
    await expect(page.locator("#list .name")).to_have_text(
        [str(number) for number in range(1, ROWS + 1)]
    )
    assert await width_of(page, "#list img") <= 192
    assert await width_of(page, "#detail .detail-head img") == 256
    await expect(page.locator("#detail .turn").first.locator(".column")).to_have_count(3)
    await page.keyboard.press("j")
    await expect(page.locator("#detail h3")).to_have_text("Sample 2")
    assert page.url.endswith("#sample=2")
    await page.fill("#query", "no such words")
    await expect(page.locator("#count")).to_have_text(f"0 of {ROWS} samples")
    await page.fill("#query", "slogan")
    await expect(page.locator("#detail mark").first).to_be_visible()


async def test_its_files_can_be_kept(url: str, opened: Opener, tmp_path: Path) -> None:
    page = await opened(f"{url}/runs/{run_of(url, 'careful')}")
    async with page.expect_download() as download:
        await page.get_by_role("button", name="Report as one file").click()
    kept = await download.value
    assert kept.suggested_filename.endswith("report.html")
    await kept.save_as(tmp_path / "report.html")
    report = await opened(tmp_path / "report.html")
    await expect(report.locator("#list .name")).to_have_count(ROWS)
    async with page.expect_download() as download:
        await page.get_by_role("button", name="Transcripts", exact=True).click()
    await (await download.value).save_as(tmp_path / "calls.jsonl")
    assert (tmp_path / "calls.jsonl").read_text(encoding="utf-8").startswith('{"sample":')


async def test_a_run_is_removed(url: str, opened: Opener) -> None:
    page = await opened(url)
    # What the page still reads when the run goes would be an error in its console.
    async with page.expect_response("**/blocks/0", timeout=30_000):
        await start_run(page, "careful", "judge", limit="2", seed="9")
        await expect(page.locator(".badge")).to_have_text("done")
    gone = page.url.rpartition("/")[2]
    page.once("dialog", lambda dialog: dialog.dismiss())
    await page.get_by_role("button", name="Remove").click()
    await expect(page.locator(".badge")).to_have_text("done")
    page.once("dialog", lambda dialog: dialog.accept())
    await page.get_by_role("button", name="Remove").click()
    await expect(page).to_have_url(f"{url}/")
    await expect(page.locator("tr.run", has_text="seed 9")).to_have_count(0)
    async with httpx2.AsyncClient() as client:
        assert (await client.get(f"{url}/v1/runs/{gone}")).status_code == 404


async def test_a_run_is_stopped_and_resumed(url: str, opened: Opener) -> None:
    page = await opened(url)
    await start_run(page, "patient", "judge", seed="5")
    await expect(page.locator("progress:not([value='0'])")).to_be_visible()
    await page.get_by_role("button", name="Stop").click()
    await expect(page.locator(".badge")).to_have_text("stopped")
    await expect(page.locator("#findings")).to_contain_text("no scores")
    await page.get_by_role("link", name="Runs").click()
    row = page.locator("tr.run", has_text="seed 5")
    await expect(row.locator(".badge")).to_have_text("stopped")
    await row.get_by_role("button", name="Resume").click()
    # the list is live as well
    await expect(row.locator(".badge")).to_have_text("done")


async def test_the_list_is_filtered_and_the_address_says_how(url: str, opened: Opener) -> None:
    page = await opened(url)
    await page.select_option("select[name=model]", "careful")
    rows = page.locator("tr.run")
    await expect(rows.locator(".name")).to_have_text(["careful"])
    await expect(page.locator("#status")).to_contain_text("1 of ")
    assert page.url.endswith("?model=careful")
    await page.reload()
    await expect(rows.locator(".name")).to_have_text(["careful"])
    await page.select_option("select[name=state]", "failed")
    await expect(page.locator("#status")).to_contain_text("No run matches.")
    await page.select_option("select[name=state]", "")
    await page.fill("input[name=q]", "arbiter blurr")
    await expect(page.locator("#status")).to_contain_text("No run matches.")
    await page.select_option("select[name=model]", "")
    await expect(rows.locator(".name")).to_have_text(["blurred"])
    await page.fill("input[name=since]", "2999-01-01")
    await expect(rows).to_have_count(0)


async def test_the_list_is_sorted_by_any_number(url: str, opened: Opener) -> None:
    page = await opened(url)
    await page.fill("input[name=q]", "arbiter")
    head = page.locator("#heads th", has=page.locator("[data-key=S0]"))
    await head.get_by_role("button").click()
    await expect(head).to_have_attribute("aria-sort", "descending")
    # with the focus it can be turned round by keyboard
    names = page.locator("tr.run .name")
    best = await names.first.inner_text()
    await page.keyboard.press("Enter")
    await expect(head).to_have_attribute("aria-sort", "ascending")
    await expect(names.last).to_have_text(best)
    await page.select_option("select[name=numbers]", label="ConvBench, pairwise win rate (%)")
    await expect(page.locator("tr.run td.number").first).to_contain_text(" to ")
    await page.reload()
    await expect(head).to_have_attribute("aria-sort", "ascending")
    await expect(page.locator("select[name=numbers]")).to_have_value(
        "ConvBench, pairwise win rate (%)"
    )


async def test_two_runs_are_compared(url: str, opened: Opener) -> None:
    page = await opened(url)
    for model in ("careful", "blurred"):
        await page.get_by_label(f"Choose {model} on scenes").first.check()
    await page.get_by_role("button", name="Compare 2 runs").click()
    await expect(page.locator("h1")).to_have_text("2 runs of ConvBench compared")
    await expect(page.locator("#findings table").first).to_contain_text("careful")
    await expect(page.locator("#findings .findings li").first).to_contain_text("blurred")
    assert await page.locator("#findings .findings li").count() <= 3
    shown = await page.locator("#overview").inner_text()
    assert not re.search("_hat|_tilde|convbench", shown)
    await page.click(".tabs a[href='#samples']")
    titles = page.locator("#detail .turn").first.locator(".column-title")
    await expect(titles).to_have_count(2)
    first, second = [text.partition(" ")[0] for text in await titles.all_inner_texts()]
    assert {first, second} == {"careful", "blurred"}
    assert await width_of(page, "#detail .detail-head img") == 256
    # the other run as the baseline
    await page.locator("#choose > summary").click()
    await page.get_by_label(f"{second} on scenes is the baseline").check()
    await page.get_by_role("button", name="Compare", exact=True).click()
    await expect(titles.first).to_contain_text(second)


async def test_what_cannot_be_compared_is_told(url: str, opened: Opener) -> None:
    runs = f"{run_of(url, 'careful')},nothing"
    page = await opened(f"{url}/compare?runs={runs}", expected="status of 404")
    await expect(page.locator("#problem")).to_have_text("No run nothing is here")


async def test_a_fault_stands_at_its_field(url: str, opened: Opener) -> None:
    page = await opened(f"{url}/new", expected="status of 400")
    start = page.get_by_role("button", name="Start the run")

    async def blamed(name: str, words: str) -> None:
        field = page.locator(f"[name='{name}']")
        await expect(field).to_have_attribute("aria-invalid", "true")
        info = page.locator(f"[id='{await field.get_attribute('aria-describedby')}']")
        await expect(info).to_contain_text(words)
        await expect(info).to_be_visible()
        await expect(page.locator("[aria-invalid]")).to_have_count(1)

    await expect(page.locator("select[name='models.judge']")).to_have_value("blurred")
    await page.locator("#further > summary").click()
    await page.fill("input[name='sampling.candidate.temperature']", "-1")
    await page.locator("#further > summary").click()
    await start.click()
    await blamed("sampling.candidate.temperature", "greater than or equal to 0")
    await page.fill("input[name='sampling.candidate.temperature']", "")
    await page.fill("input[name=limit]", "1.5")
    await start.click()
    await blamed("limit", "valid value")
    await page.fill("input[name=limit]", "1")
    await page.locator("#options > summary").click()
    await page.select_option("select[name='options.order']", "authors")
    await start.click()
    await blamed("options.order", "positions")


async def test_options_and_conditions_reach_the_run(url: str, opened: Opener) -> None:
    page = await opened(f"{url}/new")
    await page.select_option("select[name='models.candidate']", "careful")
    await page.select_option("select[name='models.judge']", "arbiter")
    await page.get_by_label("reasoning", exact=True).check()
    await page.get_by_label("free").check()
    await page.locator("#options > summary").click()
    await page.get_by_label("pairwise").uncheck()
    await page.get_by_label("judge max tokens").fill("77")
    async with page.expect_request("**/v1/runs") as sent:
        await page.get_by_role("button", name="Start the run").click()
    assert (await sent.value).post_data_json == {
        "data": "scenes",
        "models": {"candidate": "careful", "judge": "arbiter"},
        "conditions": ["free", "reasoning"],
        "options": {"grading": ["direct"], "judge_max_tokens": 77},
    }
    await expect(page.locator("#run-facts")).to_contain_text("free, reasoning")
    await expect(page.locator(".badge")).to_have_text("done")


async def test_a_run_shows_its_folder_and_its_failure_by_line(url: str, opened: Opener) -> None:
    run = run_of(url, "careful")
    async with httpx2.AsyncClient() as client:
        info = (await client.get(f"{url}/v1/runs/{run}")).json()
    assert info["folder"]
    info |= {"error": "1 problem\nno such file\nLook."}
    page = await opened(f"{url}/compare")
    await page.route(f"**/v1/runs/{run}", lambda route: route.fulfill(json=info))
    await page.goto(f"{url}/runs/{run}")
    await expect(page.locator("#run-facts")).to_contain_text(info["folder"])
    problem = page.locator("#run-state .problem")
    lines = "told => told.offsetHeight / parseFloat(getComputedStyle(told).lineHeight)"
    assert round(await problem.evaluate(lines)) == 3


async def test_a_sample_s_references_are_called_so(url: str, opened: Opener) -> None:
    page = await opened(f"{url}/runs/{run_of(url, 'careful')}")
    names = page.locator("#detail .about summary")
    await expect(names.nth(1)).to_have_text("reference: perception")


async def test_a_token_is_asked_once_and_kept_in_the_tab(tmp_path: Path, opened: Opener) -> None:
    servers = Servers(tmp_path)
    try:
        server = serve_scenes(servers, tmp_path, tokens=[token_entry("read", "chat", "run")])
        page = await opened(server.url, expected="status of 401")
        dialog = page.locator("#token-dialog")
        await expect(dialog).to_be_visible()
        await page.locator("#token").fill("another")
        await page.keyboard.press("Enter")
        await expect(page.locator("#token-why")).to_have_text("This token is not known.")
        # nobody is signed in yet
        await expect(page.locator("#forget")).to_be_hidden()
        title, field = page.locator("#token-title"), page.locator("#token-form .hint")
        assert await title.evaluate(LEFT) == await field.evaluate(LEFT)
        await page.locator("#token").fill(TOKEN)
        await page.keyboard.press("Enter")
        await expect(page.locator("#status")).to_have_text("There are no runs yet.")
        # progress, pictures and files come with the token too
        await start_run(page, "slow", "judge", limit="2")
        assert await width_of(page, "#detail .detail-head img") == 256
        await expect(page.locator("#findings table").first).to_be_visible()
        await expect(dialog).to_be_hidden()
        await page.get_by_role("button", name="Sign out").click()
        await expect(dialog).to_be_visible()
        # the server ends when nothing is asked of it any more
        await page.wait_for_load_state("networkidle")
        assert TOKEN not in str(await page.evaluate("JSON.stringify({...sessionStorage})"))
    finally:
        servers.end()


PAGES = ("", "new", "compare", "try", "runs/{run}#samples", "compare?runs={run},{other}#samples")


@pytest.mark.parametrize("path", PAGES)
async def test_pages_fit_a_phone_and_name_their_fields(url: str, opened: Opener, path: str) -> None:
    run, other = run_of(url, "careful"), run_of(url, "blurred")
    page = await opened(f"{url}/{path.format(run=run, other=other)}", width=PHONE)
    if "{run}" in path:
        await expect(page.locator("#detail .turn").first).to_be_visible()
    for folded in await page.locator("form details").all():
        await folded.evaluate("folded => { folded.open = true; }")
    assert await page.evaluate("document.documentElement.scrollWidth") == PHONE
    for link in await page.locator(".bar nav a").all():
        await expect(link).to_be_in_viewport(ratio=1)
    unnamed = await page.evaluate(
        """() => [...document.querySelectorAll("select, input, button, textarea")].filter((field) =>
        !(field.labels?.length || field.ariaLabel || field.textContent.trim()))
        .map((field) => field.outerHTML)"""
    )
    assert unnamed == []
    ids = await page.evaluate("[...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(set(ids)) == len(ids)
    headings = page.locator("h1:visible, h2:visible, h3:visible, h4:visible, h5:visible")
    levels = await headings.evaluate_all("all => all.map((each) => Number(each.tagName[1]))")
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


async def test_the_keyboard_reaches_everything(url: str, opened: Opener) -> None:
    page = await opened(url)
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.locator("main")).to_be_focused()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="New run").last).to_be_focused()
    await page.keyboard.press("Enter")
    await page.wait_for_selector("html[data-ready]")
    await page.select_option("select[name='models.candidate']", "careful")
    await page.locator("select[name='models.judge']").focus()
    await page.keyboard.type("arb")
    await page.locator("input[name=limit]").focus()
    await page.keyboard.type("2")
    await page.keyboard.press("Enter")
    await expect(page.locator("#findings table").first).to_be_visible()


async def test_a_run_of_few_samples_says_how_many(url: str, opened: Opener) -> None:
    finish(url, "careful", "arbiter", limit=2)
    page = await opened(url)
    await expect(page.get_by_text("judged by arbiter · at most 2 samples")).to_be_visible()
    missing = await opened(f"{url}/runs/none", expected="status of 404")
    await expect(missing.locator("#problem")).to_have_text("No run none is here")
