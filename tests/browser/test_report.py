"""The report as a person uses it: list, filters, search, keys, addresses, dark mode, phone."""

import io
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import orjson
import PIL.Image
import pytest
from playwright.async_api import Browser, Locator, Page, expect

from tests.browser.conftest import Opener, is_dark
from tests.mmconv.report.page_runs import HOSTILE, OTHER_CATEGORY, SIZE

pytestmark = pytest.mark.asyncio(loop_scope="session")

PHONE = 400


async def expect_sample(page: Page, name: str) -> None:
    await expect(page.locator("#detail h3")).to_have_text(f"Sample {name}")


async def expect_list(page: Page, names: list[str]) -> None:
    await expect(page.locator("#list .name")).to_have_text(names)


def scores(path: Path, condition: str, turn: int) -> dict[str, float]:
    """The direct ratings of a run's samples, from its folder."""
    lines = (path.parent / "scores.jsonl").read_bytes().splitlines()
    return {
        record["sample"]: record["value"]
        for record in map(orjson.loads, lines)
        if (record["metric"], record["condition"], record["turn"]) == ("rating", condition, turn)
    }


async def test_a_sample_shows_its_picture_and_conversations(run: Path, opened: Opener) -> None:
    page = await opened(run, "#samples")
    await expect_list(page, [str(number) for number in range(1, 41)])
    await expect_sample(page, "1")
    picture = page.locator("#detail .detail-head img")
    assert await picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 192
    first, third = (page.locator("#detail .turn").nth(at) for at in (0, 2))
    await expect(first.locator(".column")).to_have_count(3)
    await expect(first.locator(".answer.given")).to_have_count(2)
    await expect(third.locator(".answer.given")).to_have_count(0)


async def test_a_verdict_opens_to_its_rationale(run: Path, opened: Opener) -> None:
    page = await opened(run, "#samples")
    verdicts = page.locator("#detail details.verdict")
    rationale = verdicts.first.locator("p")
    await expect(rationale).to_be_hidden()
    await verdicts.first.locator("summary").click()
    await expect(rationale).to_be_visible()
    await expect(rationale).not_to_be_empty()
    await page.keyboard.press("v")
    await expect(page.locator("#detail details.verdict:not([open])")).to_have_count(0)
    assert await verdicts.count() == 27


async def test_keys_go_from_sample_to_sample(run: Path, opened: Opener) -> None:
    page = await opened(run, "#samples")
    for key, name in (("j", "2"), ("ArrowRight", "3"), ("k", "2"), ("ArrowLeft", "1")):
        await page.keyboard.press(key)
        await expect_sample(page, name)
        await expect(page.locator("#list a[aria-current] .name")).to_have_text(name)
        assert page.url.endswith(f"#sample={name}")


async def test_an_address_opens_a_sample_and_a_link_another(run: Path, opened: Opener) -> None:
    page = await opened(run, "#sample=34")
    await expect_sample(page, "34")
    await expect(page.locator("#list a[aria-current]")).to_be_in_viewport()
    await page.locator("#list a", has_text="17").first.click()
    await expect_sample(page, "17")
    await page.go_back()
    await expect_sample(page, "34")


async def test_an_address_of_no_sample_says_so(run: Path, opened: Opener) -> None:
    page = await opened(run, "#sample=999")
    await expect(page.locator("#detail")).to_have_text("There is no sample 999 in this page.")
    assert page.url.endswith("#sample=999")
    await page.fill("#query", "(33)")
    await expect_sample(page, "34")


async def test_buttons_go_to_the_next_sample_and_back(run: Path, opened: Opener) -> None:
    page = await opened(run, "#samples")
    await page.get_by_role("button", name="Next").click()
    await expect_sample(page, "2")
    await page.get_by_role("button", name="Previous").click()
    await expect_sample(page, "1")


async def test_what_the_attribution_says_is_a_filter(run: Path, opened: Opener) -> None:
    page = await opened(run, "#samples")
    table = orjson.loads((run.parent / "tables" / "attribution_samples.json").read_bytes())
    blamed = [
        name.split("/")[2]
        for name, row in table["rows"].items()
        if name.startswith("direct/reasoning/") and row["attributed to"]["value"] == "perception"
    ]
    assert blamed
    mark = "reasoning failed, attributed to perception (direct)"
    await page.select_option("select[name=show]", label=mark)
    await expect_list(page, sorted(blamed, key=int))
    await expect(page.locator("#detail .mark", has_text=mark)).to_be_visible()


async def test_condition_and_score_filter_and_sort(run: Path, opened: Opener) -> None:
    page = await opened(run, "#samples")
    free = scores(run, "free", 1)
    low = [sample for sample, value in free.items() if value <= 5]
    assert 0 < len(low) < 40
    await page.select_option("select[name=turn]", "1")
    await page.select_option("select[name=condition]", "free")
    await page.fill("input[name=to]", "5")
    await page.keyboard.press("Tab")
    await expect_list(page, low)
    await expect(page.locator("#detail .turn").first.locator(".column")).to_have_count(1)
    await page.select_option("select[name=sort]", "low")
    await expect_list(page, sorted(low, key=lambda sample: (free[sample], int(sample))))
    await page.get_by_role("button", name="Reset").click()
    await expect(page.locator("#count")).to_have_text("40 samples")


async def test_search_reads_all_texts_and_marks_what_it_found(run: Path, opened: Opener) -> None:
    page = await opened(run, "#samples")
    await page.keyboard.press("/")
    await page.keyboard.type("(33)")
    await expect_list(page, ["34"])
    await expect_sample(page, "34")
    await expect(page.locator("#detail mark").first).to_have_text("(33)")
    await page.fill("#query", "no such words")
    await expect(page.locator("#count")).to_have_text("0 of 40 samples")
    await expect(page.locator("#detail")).to_have_text("No sample is open.")


async def test_a_question_mark_tells_the_keys(run: Path, opened: Opener) -> None:
    page = await opened(run)
    await page.keyboard.press("?")
    await expect(page.locator("#help")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.locator("#help")).to_be_hidden()


async def test_a_category_s_name_lists_its_samples(run: Path, opened: Opener) -> None:
    page = await opened(run, "#details")
    await page.locator("#map-categories_reasoning").get_by_role("link", name=OTHER_CATEGORY).click()
    await expect_list(page, [str(number) for number in range(1, 41) if _source(number) % 2])
    await expect(page.locator("#detail .turn").nth(1).locator("h4")).to_contain_text(OTHER_CATEGORY)
    await expect(page.locator("select[name=category]")).to_have_value(f"2:{OTHER_CATEGORY}")


def _source(number: int) -> int:
    """The drawn row that a repeated sample was made of."""
    return (number - 1) % SIZE + 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_page_is_light_or_dark_as_the_system_says_and_can_be_switched(
    run: Path, opened: Opener, scheme: str
) -> None:
    page = await opened(run, scheme=scheme)
    assert await is_dark(page) == (scheme == "dark")
    await page.click("#theme")
    assert await is_dark(page) != (scheme == "dark")
    await page.reload()
    await page.wait_for_selector("html[data-ready]")
    assert await is_dark(page) != (scheme == "dark")


async def test_a_phone_shows_the_page_in_its_width(run: Path, opened: Opener) -> None:
    page = await opened(run, "#sample=3", width=PHONE)
    assert await page.evaluate("document.documentElement.scrollWidth") == PHONE
    columns = page.locator("#detail .turn").first.locator(".column")
    lefts = await columns.evaluate_all(
        "columns => columns.map((column) => column.getBoundingClientRect().left)"
    )
    assert len(lefts) == 3
    assert len(set(lefts)) == 1
    await expect(page.locator("#choices")).to_be_hidden()
    await page.click("#more-filters > summary")
    await expect(page.locator("select[name=show]")).to_be_visible()


async def _ink_at_the_right(page: Page, place: Locator) -> int:
    """How far a colour in the last two columns of pixels is from that of the page, 255 at most."""
    await place.scroll_into_view_if_needed()
    box = await place.bounding_box()
    assert box is not None
    edge = {"x": box["x"] + box["width"] - 2, "y": box["y"], "width": 2, "height": box["height"]}
    colour = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    paper = [int(each) for each in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    with PIL.Image.open(io.BytesIO(await page.screenshot(clip=edge))) as image:  # type: ignore[arg-type]
        found = np.asarray(image.convert("RGB"), dtype=int)
    return int(np.abs(found - paper).max())


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_what_goes_on_to_the_right_fades_there_until_its_end_is_reached(
    run: Path, opened: Opener, scheme: str
) -> None:
    page = await opened(run, "#details", width=PHONE, scheme=scheme)
    for name, fading, last in (
        (".bar nav", ".bar nav", "a"),
        ("#cost .scroll", "#cost .scroll > div", "td"),
    ):
        scrolled = page.locator(name).first
        fade = await page.locator(fading).first.evaluate(
            "each => getComputedStyle(each, '::after').width"
        )
        width = float(fade.removesuffix("px"))
        assert await scrolled.evaluate("each => each.scrollWidth > each.clientWidth")
        assert await _ink_at_the_right(page, scrolled) < 25
        await scrolled.evaluate("each => { each.scrollLeft = each.scrollWidth; }")
        end = await scrolled.evaluate("each => each.getBoundingClientRect().right")
        rights = await scrolled.locator(last).evaluate_all(
            "all => all.map((each) => each.getBoundingClientRect().right)"
        )
        # nothing of the last one lies under the fade
        assert max(rights) <= end - width + 1


async def test_samples_beside_the_page_are_loaded_from_there(apart: Path, opened: Opener) -> None:
    page = await opened(apart, "#sample=5")
    await expect_sample(page, "5")
    await expect(page.locator("#detail .answer")).to_have_count(9)
    await page.fill("#query", "picture")
    await expect(page.locator("#detail mark").first).to_be_visible()


async def test_what_a_search_missed_is_shown(apart: Path, opened: Opener, tmp_path: Path) -> None:
    alone = Path(shutil.copy(apart, tmp_path))
    page = await opened(alone, "#samples", expected="ERR_FILE_NOT_FOUND")
    await page.fill("#query", "picture")
    message = (
        "0 of 12 samples (12 could not be searched: report.samples/0.js is not beside this page.)"
    )
    await expect(page.locator("#count")).to_have_text(message)


async def test_right_to_left_texts_begin_at_the_right(run: Path, opened: Opener) -> None:
    page = await opened(run, "#samples")
    for name in (".answer .text", ".asked p"):
        text = page.locator(f"#detail {name}").first
        left = await text.evaluate(
            """each => {
                each.textContent = "سؤال؟";
                const range = document.createRange();
                range.selectNodeContents(each);
                return range.getBoundingClientRect().right - each.getBoundingClientRect().right;
            }"""
        )
        assert left == 0


async def test_runs_are_read_side_by_side(compared: Path, opened: Opener) -> None:
    page = await opened(compared, "#samples")
    first = page.locator("#detail .turn").first
    titles = ["pocket · free", "blurred · free"]
    await expect(first.locator(".column-title")).to_have_text(titles)
    await page.select_option("select[name=condition]", "perception")
    await expect(first.locator(".answer.given")).to_have_count(2)
    await page.select_option("select[name=show]", "worse:run1")
    await expect(page.locator("#count")).to_contain_text("of 12 samples")


async def test_hostile_answers_are_shown_and_not_obeyed(hostile: Path, opened: Opener) -> None:
    page = await opened(hostile, "#samples")
    answers = page.locator("#detail .answer:not(.given) .text")
    await expect(answers.first).to_have_text(HOSTILE)
    await expect(page).to_have_title("<script> on ConvBench")
    await expect(page.locator("img[src=x]")).to_have_count(0)


async def test_print_leaves_out_what_only_a_screen_can_use(run: Path, opened: Opener) -> None:
    page = await opened(run, "#sample=2")
    await page.emulate_media(media="print")
    await expect(page.locator(".filters")).to_be_hidden()
    await expect(page.locator(".list-pane")).to_be_hidden()
    await expect(page.locator("#detail .answer").first).to_be_visible()
    assert (await page.pdf(format="A4")).startswith(b"%PDF")
    await expect(page.locator("#detail details.verdict:not([open])")).to_have_count(0)


async def test_everything_has_a_name_for_those_who_hear_the_page(run: Path, opened: Opener) -> None:
    page = await opened(run)
    unnamed = await page.evaluate(
        """() => [...document.querySelectorAll("select, input, button")].filter((field) =>
        !(field.labels?.length || field.ariaLabel || field.textContent.trim())).length"""
    )
    assert unnamed == 0
    await expect(page.locator("table:not(:has(caption))")).to_have_count(0)
    await expect(page.locator("tbody th:not([scope=row])")).to_have_count(0)
    levels = await page.locator("h1, h2, h3, h4, h5").evaluate_all(
        "headings => headings.map((heading) => Number(heading.tagName[1]))"
    )
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


async def test_titles_of_grouped_columns_are_headings_of_groups(run: Path, opened: Opener) -> None:
    page = await opened(run)
    scopes = await page.locator("tr.groups th").evaluate_all("all => all.map(each => each.scope)")
    assert scopes
    assert {*scopes} == {"colgroup"}


async def test_no_two_regions_of_a_page_have_one_name(compared: Path, opened: Opener) -> None:
    page = await opened(compared)
    named = page.locator("section[aria-labelledby], [role=region][aria-label]")
    names = await named.evaluate_all(
        "all => all.map(each => each.ariaLabel ?? "
        "document.getElementById(each.getAttribute('aria-labelledby')).textContent)"
    )
    assert len({*names}) == len(names) > 1


async def test_a_page_opens_with_pictures_findings_and_a_table(run: Path, opened: Opener) -> None:
    page = await opened(run)
    tops = []
    for name in ("#headline figure", ".findings li", "#headline table"):
        await expect(page.locator(name).first).to_be_visible()
        box = await page.locator(name).first.bounding_box()
        assert box is not None
        tops.append(box["y"])
    assert tops == sorted(tops)
    assert await page.locator(".findings li").count() <= 3
    for tab in ("overview", "details", "samples", "provenance"):
        await page.click(f".tabs a[href='#{tab}']")
        await expect(page.locator("html")).to_have_attribute("data-tab", tab)
        height = await page.evaluate("document.documentElement.scrollHeight")
        assert height <= 4000, tab


async def test_one_tab_is_shown_and_an_address_opens_its_place(run: Path, opened: Opener) -> None:
    page = await opened(run)
    await expect(page.locator("#samples")).to_be_hidden()
    await expect(page.locator("#losses")).to_be_hidden()
    await page.click(".tabs a[href='#samples']")
    await expect(page.locator("#list a").first).to_be_visible()
    await expect(page.locator("#headline")).to_be_hidden()
    await page.go_back()
    await expect(page.locator("#headline")).to_be_visible()
    await page.keyboard.press("j")
    await expect_sample(page, "2")
    await expect(page.locator("#detail .turn").first).to_be_visible()
    page = await opened(run, "#table-deltas")
    await expect(page.locator("details#table-deltas table")).to_be_visible()


async def test_without_scripts_all_but_the_samples_is_shown(run: Path, browser: Browser) -> None:
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(run.as_uri())
    for name in ("#headline", "#losses", "#provenance"):
        await expect(page.locator(name)).to_be_visible()
    await context.close()
