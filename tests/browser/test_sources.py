"""What sources of samples may hold: pages to come, several pictures, several scores of a metric."""

import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Opener
from tests.browser.test_report import expect_list, expect_sample

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHOW = """async () => {
    const names = ["a".repeat(64), "b".repeat(64)];
    const listed = (name) => ({ i: name, t: "", f: [], s: [] });
    const asked = (text, name) => [{ role: "user", text, pictures: [name.slice(0, 16)] }];
    const turn = (name, at) => ({ n: at + 1, asked: asked(`Q${at + 1}`, name), answers: [] });
    const turns = names.map(turn);
    const columns = [{ run: 0, condition: "free", turns, verdicts: [] }];
    const drawn = (name) => `<svg xmlns='http://www.w3.org/2000/svg' id='${name[0]}'/>`;
    const index = {
        runs: ["one"], conditions: ["free"], levels: {}, labels: {}, scale: "", given: "given",
        endings: [], columns: [], facets: [], marks: [], reasons: {}, samples: [listed("1")],
    };
    const source = {
        index,
        sample: async (at) => ({ id: String(at + 1), pictures: names, about: [], columns }),
        picture: async (_, name) => `data:image/svg+xml,${encodeURIComponent(drawn(name))}`,
        more: async () => {
            index.samples.push(listed(String(index.samples.length + 1)));
            if (index.samples.length === 4) source.more = null;
        },
    };
    await samples.show(source);
}"""
"""Shows four samples of two turns, each with a picture of its own; one is there at first."""


async def test_an_address_of_a_sample_not_there_yet_loads_it(run: Path, opened: Opener) -> None:
    page = await opened(run, "#samples")
    await page.evaluate(SHOW)
    await expect(page.locator("#count")).to_have_text("1 or more samples")
    await page.evaluate("() => { location.hash = '#sample=3'; }")
    await expect_sample(page, "3")
    await expect(page.locator("#list li")).to_have_count(3)
    await page.evaluate("() => { location.hash = '#sample=9'; }")
    await expect(page.locator("#detail")).to_have_text("There is no sample 9 in this page.")
    await expect(page.locator("#count")).to_have_text("4 samples")


async def test_several_pictures_stand_in_their_turns(run: Path, opened: Opener) -> None:
    page = await opened(run, "#samples")
    await page.evaluate(SHOW)
    turns = page.locator("#detail .turn")
    for place, sign in enumerate("ab"):
        picture = turns.nth(place).locator(".asked img")
        await expect(picture).to_have_attribute("src", re.compile(f"id%3D'{sign}'"))
        await expect(picture).to_have_attribute("alt", f"Picture {place + 1} of 2 of sample 1")
    await expect(page.locator("#detail .detail-head img")).to_have_count(0)


SHOW_SCORES = """async () => {
    const scored = (name, id, ...scores) => ({ i: name, t: "", f: [[id]], s: scores });
    const index = {
        runs: ["one"], conditions: ["free"], levels: {}, labels: { fit: "fitness" }, scale: "",
        given: "given", endings: ["tokens"], marks: [], reasons: {},
        columns: [["fit", "echo"], ["fit", "GT"], ["tokens", ""]]
            .map(([metric, apart]) => [0, "free", metric, 1, apart]),
        facets: [{ name: "length", turned: false, values: [[null, "10"], [null, "4"]] }],
        samples: [scored("1", 0, 0, 1, 5), scored("2", 1, 1, 0, 5)],
    };
    const sample = async () => ({ id: "", pictures: [], about: [], columns: [] });
    await samples.show({ index, sample, texts: async function* () {} });
}"""


async def test_distinct_scores_of_one_metric_are_chosen_singly(run: Path, opened: Opener) -> None:
    page = await opened(run, "#samples")
    await page.evaluate(SHOW_SCORES)
    metrics = page.locator("select[name=metric] option")
    await expect(metrics).to_have_text(["fitness (echo)", "fitness (GT)"])
    await page.select_option("select[name=sort]", "high")
    await expect_list(page, ["2", "1"])
    await page.select_option("select[name=metric]", "fit (GT)")
    await expect_list(page, ["1", "2"])


async def test_values_that_are_numbers_are_sorted_as_numbers(run: Path, opened: Opener) -> None:
    page = await opened(run, "#samples")
    await page.evaluate(SHOW_SCORES)
    lengths = page.locator("select[name=length] option")
    await expect(lengths).to_have_text(["any", "4", "10"])
