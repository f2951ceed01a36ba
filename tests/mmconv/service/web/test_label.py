"""`mmconv label`: what raters are shown, who rates what, and the file of their ratings."""

import csv
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
from click.testing import CliRunner

from images import ImageStore
from mmconv.cli.judging import agree_command
from mmconv.core.errors import ConfigError
from mmconv.report.agreement.files import read_ratings
from mmconv.report.labels import choices
from mmconv.run_folder.layout import SCORES
from mmconv.run_folder.saved_run import read_scores
from mmconv.service.web.label import open_task, write_label_studio
from tests.mmconv.benchmarks.base.test_judges import FAIR, HARSH, spec
from tests.mmconv.report.runs import ALPHA, BETA, FAILING, evaluate, make_run
from tests.mmconv.service.web.people import label

CONDITIONS = {"free", "perception", "reasoning"}


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


async def start(client: httpx2.AsyncClient, rater: str) -> Any:
    return (await client.get("/web/label", params={"rater": rater})).json()


async def take(client: httpx2.AsyncClient, rater: str) -> Any:
    """The next dialogue of a rater; None if nothing is left."""
    item = (await client.post("/web/label/next", json={"rater": rater})).json()["item"]
    if item is None:
        return None
    return (await client.get(f"/web/label/items/{item}", params={"rater": rater})).json()


async def rate(
    client: httpx2.AsyncClient, rater: str, item: int, turn: int | None, key: str | None
) -> httpx2.Response:
    body = {"rater": rater, "item": item, "turn": turn, "key": key}
    return await client.post("/web/label/ratings", json=body)


async def rate_all(client: httpx2.AsyncClient, rater: str, key: str, most: int = 10_000) -> int:
    """Rate every question of at most so many dialogues; returns how many ratings that were."""
    count = 0
    while most and (page := await take(client, rater)) is not None:
        for question in page["rated"]:
            assert (await rate(client, rater, page["item"], question["turn"], key)).is_success
            count += 1
        most -= 1
    return count


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


async def test_raters_see_no_model_or_verdict(tmp_path: Path, stack: AsyncExitStack) -> None:
    runs = [await make_run("convbench", tmp_path, model) for model in (ALPHA, BETA)]
    client = await label(stack, runs, tmp_path / "labels.csv")
    seen = set()
    while (page := await take(client, "Ann")) is not None:
        seen |= {answer for turn in page["turns"] for answer in turn["answers"]}
        text = orjson.dumps(page).decode()
        assert not any(name in text for name in ("alpha", "beta", "convbench-", "free", "arbiter"))
        assert page.keys() == {"item", "turns", "about", "rated"}
        [image] = page["turns"][0]["asked"][0]["images"]
    assert "Another word." in seen
    assert (await client.get(f"/v1/images/{image}")).headers["content-type"] == "image/png"


async def test_ratings_of_all_runs_are_read_by_agree(tmp_path: Path, stack: AsyncExitStack) -> None:
    runs = [await make_run("convbench", tmp_path, model) for model in (ALPHA, BETA)]
    out = tmp_path / "labels.csv"
    client = await label(stack, runs, out, samples=3)
    page = await take(client, "Ann")
    for question in page["rated"]:
        await rate(client, "Ann", page["item"], question["turn"], "0")
    assert await rate_all(client, "Ann", "7") == 3 * 2 * 9 - len(page["rated"])
    rows = read(out)
    assert {row["run"] for row in rows} == {run.name for run in runs}
    assert {row["condition"] for row in rows} == CONDITIONS
    assert len({row["sample"] for row in rows}) == 3
    assert Counter(row["value"] for row in rows)["10"] == len(page["rated"])
    ratings = read_ratings(out)
    assert len(ratings) == 54
    assert all(rating.cluster and rating.metric == "rating" for rating in ratings)
    arguments = [*map(str, runs), "--human", str(out), "--replicates", "10", "--format", "json"]
    result = CliRunner().invoke(agree_command, arguments)
    assert result.exit_code == 0, result.output
    tables = orjson.loads(result.stdout)
    for run in runs:
        agreement = tables[f"{run.name}-agreement-rating"]["agreement"]["judge and person"]
        assert (agreement["n"], agreement["missing"]) == (27, {})


async def test_answers_of_two_judges_share_a_scale(tmp_path: Path, stack: AsyncExitStack) -> None:
    run = (await evaluate(spec(tmp_path, [FAIR, HARSH]), tmp_path / "runs")).folder
    out = tmp_path / "labels.csv"
    client = await label(stack, [run], out, samples=1)
    assert await rate_all(client, "Ann", "7") == 9
    assert {row["metric"] for row in read(out)} == {"rating"}


async def test_raters_share_some_and_divide_the_rest(tmp_path: Path, stack: AsyncExitStack) -> None:
    run = await make_run("convbench", tmp_path)
    out = tmp_path / "labels.csv"
    client = await label(stack, [run], out, samples=10, double=20)
    await rate_all(client, "Ann", "8", most=12)
    await rate_all(client, "Ben", "9")
    await rate_all(client, "Ann", "8")
    raters: dict[str, set[str]] = {}
    for row in read(out):
        raters.setdefault(f"{row['sample']}/{row['condition']}", set()).add(row["rater"])
    assert len(raters) == 30
    shared = {name.split("/")[0] for name, names in raters.items() if len(names) == 2}
    assert len(shared) == 2
    assert sum(len(names) == 2 for names in raters.values()) == 6
    state = await start(client, "Ben")
    assert (state["done"], state["total"]) == (90, 90)


async def test_work_continues_where_the_file_ends(tmp_path: Path, stack: AsyncExitStack) -> None:
    run = await make_run("convbench", tmp_path)
    out = tmp_path / "labels.csv"
    first = await label(stack, [run], out)
    page = await take(first, "Ann")
    question, *others = page["rated"]
    await rate(first, "Ann", page["item"], question["turn"], "3")
    second = await label(stack, [run], out)
    [item] = (await start(second, "Ann"))["items"]
    assert item == {"item": page["item"], "open": len(others)}
    again = (await second.get(f"/web/label/items/{item['item']}", params={"rater": "Ann"})).json()
    assert again["turns"] == page["turns"]
    assert again["rated"][0]["key"] == "3"
    # the first server keeps what the second one writes
    theirs = await take(second, "Ben")
    await rate(second, "Ben", theirs["item"], theirs["rated"][0]["turn"], "4")
    await rate(first, "Ann", page["item"], question["turn"], "5")
    assert [(row["rater"], row["value"]) for row in read(out)] == [("Ann", "5"), ("Ben", "4")]


async def test_ratings_are_skipped_and_taken_back(tmp_path: Path, stack: AsyncExitStack) -> None:
    out = tmp_path / "labels.csv"
    client = await label(stack, [await make_run("mtbench101", tmp_path)], out)
    page = await take(client, "=Ann")
    [question, *_] = page["rated"]
    for key, expected in (("", [""]), ("9", ["9"]), ("0", ["10"]), (None, [])):
        await rate(client, "=Ann", page["item"], question["turn"], key)
        assert [row["value"] for row in read(out)] == expected
    await rate(client, "=Ann", page["item"], question["turn"], "1")
    assert read(out)[0]["rater"] == "'=Ann"
    [rating] = read_ratings(out)
    assert (rating.rater, rating.value) == ("=Ann", 1.0)


async def test_a_turn_is_rated_after_its_history(tmp_path: Path, stack: AsyncExitStack) -> None:
    run = await make_run("mtbench101", tmp_path)  # whose histories have the authors' answers
    client = await label(stack, [run], tmp_path / "labels.csv", samples=100)
    later = 0
    while (page := await take(client, "Ann")) is not None:
        numbers = [question["turn"] for question in page["rated"]]
        turns = {turn["n"]: turn for turn in page["turns"]}
        for number in numbers:
            [answer] = turns[number]["answers"]
            assert answer == turns[number]["asked"][0]["text"]  # the model repeats what it is asked
            given = turns[number]["given"]
            assert (given is not None) == (number < max(turns))
            later += given is not None
    assert later
    scores = {(s.sample, s.turn) for s in read_scores(run / SCORES) if s.metric == "rating"}
    assert (await start(client, "Ann"))["total"] == len(scores)


async def test_comparisons_hide_sides_and_write_wins(tmp_path: Path, stack: AsyncExitStack) -> None:
    run = await make_run("convbench", tmp_path, BETA)
    out = tmp_path / "labels.csv"
    client = await label(stack, [run], out, metric="win")
    sides = []
    while (page := await take(client, "Ann")) is not None:
        [*_, last] = page["turns"]
        side = "ab"[last["answers"].index("Another word.")]
        sides.append(side)
        assert page["about"] == []
        assert last.keys() == {"n", "asked", "given", "answers"}
        for question, key in zip(page["rated"], (side, "t", "ba"["ab".index(side)]), strict=False):
            await rate(client, "Ann", page["item"], question["turn"], key)
    assert {*sides} == {"a", "b"}
    values = [row["value"] for row in read(out)]
    assert values[:2] == ["1", "0.5"]
    assert {*values} == {"0", "0.5", "1"}


async def test_answers_that_failed_are_not_rated(tmp_path: Path, stack: AsyncExitStack) -> None:
    run = await make_run("convbench", tmp_path, FAILING)
    client = await label(stack, [run], tmp_path / "labels.csv", samples=12)
    assert 0 < (await start(client, "Ann"))["total"] < 12 * 9
    while (page := await take(client, "Ann")) is not None:
        own = {question["turn"] for question in page["rated"]}
        assert all(turn["answers"][0] for turn in page["turns"] if turn["n"] in own)


async def test_other_sites_and_raters_are_refused(tmp_path: Path, stack: AsyncExitStack) -> None:
    client = await label(stack, [await make_run("convbench", tmp_path)], tmp_path / "labels.csv")
    page = await take(client, "Ann")
    body = {"rater": "Ann", "item": page["item"], "turn": page["rated"][0]["turn"], "key": "5"}
    for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
        answer = await client.post("/web/label/ratings", json=body, headers=headers)
        assert answer.status_code == 403
    for change, status in (
        ({"rater": "Ben"}, 404),
        ({"key": "x"}, 400),
        ({"turn": 7}, 400),
        ({"rater": ""}, 400),
    ):
        answer = await client.post("/web/label/ratings", json=body | change)
        assert answer.status_code == status, change
    assert not (tmp_path / "labels.csv").exists()
    for path in ("/v1/runs", "/web/runs", "/compare"):
        assert (await client.get(path)).status_code == 404


async def test_what_cannot_be_labelled_is_refused(tmp_path: Path, stack: AsyncExitStack) -> None:
    run = await make_run("convbench", tmp_path)
    fbbench = await make_run("fbbench", tmp_path / "fb")
    other = tmp_path / "notes.csv"
    other.write_text("a,b\n1,2\n")
    refused: list[tuple[list[Path], dict[str, Any], str]] = [
        ([run, run], {}, "folders of one name"),
        ([run, fbbench], {}, "several benchmarks"),
        ([fbbench], {}, "people can rate no score of this run"),
        ([run], {"metric": "tokens"}, "people can rate rating, win"),
        ([run], {"out": other}, "not a file that `mmconv label` wrote"),
    ]
    for runs, options, message in refused:
        out = options.pop("out", tmp_path / "labels.csv")
        with pytest.raises(ConfigError, match=message):
            await label(stack, runs, out, **options)


def test_every_value_of_a_scale_has_a_key() -> None:
    assert list(choices((0.0, 10.0), pairwise=False)) == [*map(str, range(10)), "t"]
    assert list(choices((1.0, 5.0), pairwise=False)) == ["1", "2", "3", "4", "5"]
    for scale in ((0.0, 100.0), (0.5, 2.0), (-1.0, 1.0), None):
        with pytest.raises(ConfigError, match="whole numbers"):
            choices(scale, pairwise=False)


async def test_label_studio_rates_the_same_questions(tmp_path: Path) -> None:
    run = await make_run("convbench", tmp_path, options={"grading": ["direct"]})
    images, tasks = ImageStore(), tmp_path / "studio" / "tasks.json"
    drawn = open_task([run], tmp_path / "l.csv", images, metric=None, samples=2, double=0, seed=1)
    interface = write_label_studio(drawn, tasks, images).read_text(encoding="utf-8")
    assert '<Choice value="10"/>' in interface
    assert not any(name in interface for name in ("$run", "$condition", "$sample"))
    exported = orjson.loads(tasks.read_bytes())
    assert len(exported) == sum(len(item.turns) for item in drawn.items)
    assert exported[0]["data"]["images"][0].startswith("data:image/png;base64,")
    for task in exported:
        result = [{"value": {"choices": ["7"]}}]
        task["annotations"] = [{"completed_by": {"email": "ann@x"}, "result": result}]
    tasks.write_bytes(orjson.dumps(exported))
    ratings = read_ratings(tasks)
    assert {(each.value, each.rater, each.run) for each in ratings} == {(7.0, "ann@x", run.name)}
    assert {each.condition for each in ratings} == CONDITIONS


async def test_label_studio_gets_no_comparisons(tmp_path: Path) -> None:
    run = await make_run("convbench", tmp_path)
    images = ImageStore()
    compared = open_task(
        [run], tmp_path / "l.csv", images, metric="win", samples=2, double=0, seed=1
    )
    with pytest.raises(ConfigError, match="no comparisons"):
        write_label_studio(compared, tmp_path / "tasks.json", images)
