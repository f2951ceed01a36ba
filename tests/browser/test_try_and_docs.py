"""The page that tries a dialogue, and the API's document, as a person uses them."""

from itertools import pairwise

import orjson
import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import Auditor, Opener

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
    await expect(page.locator("#previews img")).to_be_visible()
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


async def test_an_offline_judge_grades_dialogues_and_an_error_leaves_no_old_answer(
    url: str, opened: Opener, audit: Auditor, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = next(iter(tmp_path_factory.getbasetemp().glob("web*/scenes")))
    row = orjson.loads((folder / "data.jsonl").read_bytes().splitlines()[0])
    page = await opened(f"{url}/try", expected="status of 400")
    await page.wait_for_selector("html[data-ready]")
    await page.select_option("select[name=model]", "careful")
    await page.get_by_role("button", name="Add a model").click()
    await page.locator("select[name=model]").nth(1).select_option("blurred")
    await page.set_input_files("input[type=file]", str(folder / "images" / row["image_id"]))
    for turn, number in enumerate(("first", "second", "third")):
        asked, right = row[f"The_{number}_turn_instruction"], row[f"{number}_turn_answer"]
        await page.fill(f"textarea[name='turns[{turn}].instruction']", asked)
        await page.fill(f"textarea[name='turns[{turn}].reference']", right)
    await page.locator("#judging > summary").click()
    await page.select_option("select[name=judge]", "overlap")
    await expect(page.locator("select[name=prompts]")).to_have_value("convbench")
    await expect(page.locator("#prompts-note")).to_contain_text("ConvBench's prompts only")
    await page.fill("textarea[name=caption]", row["instruction-conditioned-caption"])
    await page.get_by_role("button", name="Ask").click()
    verdicts = page.locator("#dialogue details.verdict b")
    await expect(verdicts.first).to_be_visible()
    await expect(page.locator("#answer-note")).to_have_text("careful answered. blurred answered.")
    # three conditions of two models scroll within the page
    await expect(page.locator("#dialogue .turn").first.locator(".column")).to_have_count(6)
    assert await page.evaluate("document.documentElement.scrollWidth") == 1280
    await page.locator("#changes > summary").click()
    await expect(page.locator("#deltas li")).to_have_count(14)
    await audit(page)
    # another question, which is refused: what stood under the old one goes
    await page.fill("textarea[name=caption]", "")
    await page.get_by_role("button", name="Ask").click()
    await expect(page.locator(".fault")).to_contain_text("Caption")
    await expect(page.locator("#answer")).to_be_hidden()
    await expect(page.locator("#dialogue .turn")).to_have_count(0)


# fetches of chats are answered by the test, piece by piece
HELD = """() => {
  const real = window.fetch, held = (window.held = []);
  window.fetch = (path, options) => {
    if (path !== "/v1/chat/completions") return real(path, options);
    const body = JSON.parse(options.body), encoder = new TextEncoder();
    const stream = new ReadableStream({ start: (to) => held.push({ body, to, say: (value) =>
      to.enqueue(encoder.encode(`data: ${JSON.stringify(value)}\n\n`)) }) });
    return Promise.resolve(new Response(stream));
  };
}"""


async def say(page: Page, place: int, text: str, end: bool = False) -> None:
    piece = {"choices": [{"delta": {"content": text}}]}
    await page.evaluate("([at, value]) => held[at].say(value)", [place, piece])
    if end:
        await page.evaluate("at => held[at].to.close()", place)


async def test_models_stream_answers_side_by_side(url: str, opened: Opener, audit: Auditor) -> None:
    page = await opened(f"{url}/try", width=400)
    await page.evaluate(HELD)
    await page.select_option("select[name=model]", "careful")
    await page.get_by_role("button", name="Add a model").press("Enter")
    await page.keyboard.type("blurred")  # the new field has the focus
    await page.locator("#settings > summary").press("Enter")
    await page.get_by_label("System prompt", exact=True).fill("Be brief.")
    await page.get_by_label("Temperature").fill("0.5")
    await page.fill("textarea[name='turns[0].instruction']", "What is it?")
    await page.fill("textarea[name='turns[1].instruction']", "Why?")
    await audit(page)
    await page.get_by_role("button", name="Ask").press("Enter")
    await expect(page.locator("#dialogue .waits")).to_have_count(2)
    await say(page, 0, "A ki")
    await expect(page.locator("#dialogue .text")).to_have_text(["A ki"])
    await say(page, 0, "te.", end=True)
    await say(page, 1, "A bird.", end=True)
    await page.wait_for_function("held.length === 4")
    titles = page.locator("#dialogue .turn").first.locator(".column-title")
    await expect(titles).to_have_text(["careful", "blurred"])
    asked = await page.evaluate("held.map(each => each.body)")
    last = next(each for each in asked[2:] if each["model"] == "careful")
    assert last["temperature"] == 0.5
    contents = [each["content"] for each in last["messages"]]
    question, why = ([{"type": "text", "text": text}] for text in ("What is it?", "Why?"))
    assert contents == ["Be brief.", question, "A kite.", why]
    slow, failing = (asked.index(each) for each in asked[2:])
    await say(page, slow, "It has a tail.", end=True)
    error = {"error": {"message": "the model went away"}}
    await page.evaluate("([at, value]) => held[at].say(value)", [failing, error])
    await expect(page.locator("#answer-note")).to_contain_text("answered 1 of 2 turns.")
    await expect(page.locator("#dialogue .problem")).to_have_text("the model went away")
    assert await page.evaluate("document.documentElement.scrollWidth") == 400
    await audit(page)
    async with page.expect_download() as download:
        await page.get_by_role("button", name="Save as JSON").click()
    saved = orjson.loads((await (await download.value).path()).read_bytes())
    assert [each["model"] for each in saved["answers"]] == ["careful", "blurred"]
    assert saved["answers"][0]["turns"][0]["text"] == "A kite."


DROP = """([name, bytes]) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], "scene.png", { type: "image/png" }));
  const form = document.getElementById("try-form");
  if (name === "paste") document.dispatchEvent(new ClipboardEvent(name, { clipboardData: data }));
  else form.dispatchEvent(new DragEvent(name, { dataTransfer: data, cancelable: true }));
}"""


async def test_images_are_dropped_and_pasted_and_a_link_asks_the_same_again(
    url: str, opened: Opener, tmp_path_factory: pytest.TempPathFactory
) -> None:
    first, second, *_ = sorted(tmp_path_factory.getbasetemp().glob("web*/scenes/images/*.png"))
    page = await opened(f"{url}/try")
    pictures = page.locator("#previews img")
    await page.evaluate(DROP, ["drop", [*first.read_bytes()]])
    await expect(pictures).to_have_count(1)
    await page.evaluate(DROP, ["paste", [*second.read_bytes()]])
    await expect(pictures).to_have_count(2)
    await page.get_by_role("button", name="Remove image 1").click()
    await expect(pictures).to_have_count(1)
    await page.select_option("select[name=model]", "slow")
    await page.fill("textarea[name='turns[0].instruction']", "What is there?")
    await page.fill("textarea[name='turns[1].instruction']", "Why?")
    await page.fill("textarea[name='turns[0].reference']", "A square.")
    await page.get_by_role("button", name="Ask").click()
    await expect(page.locator("#answer-note")).to_have_text("slow answered.")
    link = await page.get_by_role("link", name="Link to this dialogue").get_attribute("href")
    again = await opened(f"{url}/try{link}")
    await expect(again.locator("select[name=model]")).to_have_value("slow")
    await expect(again.locator("#previews img")).to_have_count(1)
    await expect(again.locator("textarea[name='turns[0].reference']")).to_have_value("A square.")
    await expect(again.locator("#answer")).to_be_hidden()
    await again.get_by_role("button", name="Ask").click()
    columns = again.locator("#dialogue .turn").first.locator(".column-title")
    await expect(columns).to_have_text(["free", "perception"])
    assert await again.evaluate("location.hash") == link


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
