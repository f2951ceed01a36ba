"""The page that tries a dialogue, and the API's document, as a person uses them."""

from __future__ import annotations

from itertools import pairwise

import orjson
import pytest
from playwright.async_api import expect

from tests.browser.conftest import Opener

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_dialogue_is_tried_with_a_picture(
    url: str, opened: Opener, tmp_path_factory: pytest.TempPathFactory
) -> None:
    picture = next(iter(tmp_path_factory.getbasetemp().glob("web*/scenes/images/*.png")))
    page = await opened(f"{url}/try")
    await page.get_by_role("button", name="Ask").click()
    await expect(page.locator(".fault")).to_have_text("Say something")
    await page.select_option("select[name=model]", "slow")
    await page.set_input_files("input[type=file]", str(picture))
    await expect(page.locator("#preview")).to_be_visible()
    for turn, text in enumerate(("What is there?", "How many?", "Write a line.")):
        await page.fill(f"textarea[name='turns[{turn}].instruction']", text)
    await page.fill("textarea[name='turns[0].reference']", "A red square.")
    await page.get_by_role("button", name="Ask").click()
    turns = page.locator("#dialogue .turn")
    await expect(turns).to_have_count(3)
    await expect(turns.first.locator(".column-title")).to_have_text(["free", "perception"])
    await expect(turns.first.locator(".answer.given")).to_have_text("referenceA red square.")
    await expect(turns.nth(2).locator(".answer .text")).to_have_text(["Write a line."] * 2)
    await expect(turns.first.locator(".small").first).to_contain_text("sent as 256 × 256")
    tags = "all => all.filter(each => each.checkVisibility()).map(each => each.tagName)"
    levels = [int(tag[1]) for tag in await page.locator("h1, h2, h3, h4, h5").evaluate_all(tags)]
    assert levels[:3] == [1, 2, 3]
    assert all(below <= above + 1 for above, below in pairwise(levels))


async def test_a_judge_of_scenes_grades_a_dialogue_and_an_error_leaves_no_old_answer(
    url: str, opened: Opener, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = next(iter(tmp_path_factory.getbasetemp().glob("web*/scenes")))
    row = orjson.loads((folder / "data.jsonl").read_bytes().splitlines()[0])
    page = await opened(f"{url}/try", expected="status of 400")
    await page.wait_for_selector("html[data-ready]")
    await page.select_option("select[name=model]", "slow")
    await page.set_input_files("input[type=file]", str(folder / "images" / row["image_id"]))
    for turn, number in enumerate(("first", "second", "third")):
        asked, right = row[f"The_{number}_turn_instruction"], row[f"{number}_turn_answer"]
        await page.fill(f"textarea[name='turns[{turn}].instruction']", asked)
        await page.fill(f"textarea[name='turns[{turn}].reference']", right)
    await page.locator("#judging > summary").click()
    await page.select_option("select[name=judge]", "facts")
    await expect(page.locator("select[name=prompts]")).to_have_value("convbench")
    await expect(page.locator("#prompts-note")).to_contain_text("ConvBench's prompts only")
    await page.fill("textarea[name=caption]", row["instruction-conditioned-caption"])
    await page.get_by_role("button", name="Ask").click()
    verdicts = page.locator("#dialogue details.verdict b")
    await expect(verdicts.first).to_be_visible()
    # another question, which is refused: what stood under the old one goes
    await page.fill("textarea[name=caption]", "")
    await page.get_by_role("button", name="Ask").click()
    await expect(page.locator(".fault")).to_contain_text("Caption")
    await expect(page.locator("#answer")).to_be_hidden()
    await expect(page.locator("#dialogue .turn")).to_have_count(0)


@pytest.mark.parametrize("width", [400, 1280])
async def test_the_api_s_document_is_read_and_tried(url: str, opened: Opener, width: int) -> None:
    page = await opened(f"{url}/docs", width=width, expected="an error of ours")
    operation = page.locator("#operations-health-ready_ready_get")
    await operation.get_by_role("button").first.click()
    await operation.get_by_role("button", name="Try it out").click()
    await operation.get_by_role("button", name="Execute").click()
    status = operation.locator(".live-responses-table tbody .response-col_status")
    await expect(status).to_have_text("200")
    assert await page.evaluate("document.documentElement.scrollWidth") == width
    sources = "() => performance.getEntriesByType('resource').map(each => each.name)"
    assert all(source.startswith(url) for source in await page.evaluate(sources))
