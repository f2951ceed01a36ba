"""`/v1/judgements`: replies judged as a run judges them, paid once, and refused with the field."""

import asyncio
from importlib import resources
from pathlib import Path
from typing import Any

import orjson
import pytest

from mmconv.benchmarks.convbench.data import CAPTION, FOCUS_POINTS, INSTRUCTIONS, REFERENCES
from mmconv.benchmarks.registry import CLASSES
from mmconv.run_folder.transcripts import score_of
from tests.drawn_data import write_scenes
from tests.images.pictures import encode, halves
from tests.mmconv.benchmarks.botchat import samples as botchat
from tests.mmconv.benchmarks.cmteval import dialogues as cmteval
from tests.mmconv.benchmarks.fbbench.samples import correction
from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.judged import KITES, REPLIES, SPIDERS, TURN
from tests.mmconv.service.run_settings import ended

COUNTED = 'mmconv_calls_total{model="judge",outcome="reply",token="local",work="judgement"}'
URL = "/v1/judgements"
FAILING = {"rate": 1.0, "kinds": ["server"]}
MODELS: dict[str, Any] = {
    "mute": {"provider": "fake", "model": "unreadable"},
    "failing": {"provider": "fake", "model": "echo", "options": FAILING, "attempts": 1},
    "overlap": {"provider": "reference", "model": "chrf"},
}
PNG = encode(halves(), "png")


@pytest.fixture
async def judging(serve: Serve) -> Served:
    return await serve(models=MODELS)


async def post(served: Served, document: dict[str, Any], **fields: Any) -> Any:
    answer = await served.client.post(URL, json={**document, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def counted(served: Served, calls: int) -> bool:
    return f"{COUNTED} {calls}.0" in (await served.client.get("/metrics")).text


async def test_all_that_the_replies_allow_is_judged_and_scored(judging: Served) -> None:
    whole = await post(judging, SPIDERS)
    assert (whole["condition"], whole["judge"]) == ("golden", "judge")
    assert [each["call"] for each in whole["judgements"]] == ["judge/turn_1", "judge/turn_2"]
    for each in whole["judgements"]:
        assert (each["state"], each["reason"], each["problem"]) == ("parsed", None, None)
        assert each["replies"][0]["text"]
        assert len(each["prompt"].partition("@")[2]) == 16
    scores = {(each["metric"], each["turn"]): each["value"] for each in whole["scores"]}
    assert scores["rating", 1] == whole["judgements"][0]["scores"]["rating"]
    assert scores["dialogue", 0] == min(scores["rating", 1], scores["rating", 2])
    part = await post(judging, SPIDERS, replies={"turn_2": "Sixteen."})
    assert part["judgements"] == whole["judgements"][1:]
    assert {(each["metric"], each["turn"]) for each in part["scores"]} == {
        ("rating", 2),
        ("authors", 2),
    }


async def test_a_history_of_the_models_own_needs_its_replies(judging: Served) -> None:
    own = {**SPIDERS, "condition": "self"}
    assert (await post(judging, own))["condition"] == "self"
    answer = await judging.client.post(URL, json={**own, "replies": {"turn_2": "Sixteen."}})
    assert answer.json()["error"]["message"] == (
        "replies: judge/turn_1 cannot be judged without turn_1"
    )


async def test_calls_limit_what_is_judged_and_judgements_may_be_given(judging: Served) -> None:
    one = await post(judging, TURN)
    assert [each["call"] for each in one["judgements"]] == ["direct/turn_1"]
    turns = {f"direct/turn_{n}": f"It is so.\nRating: {n}" for n in (1, 2, 3)}
    replies = {**REPLIES, **turns}
    whole = await post(judging, TURN, replies=replies, calls=["direct/overall"])
    assert [each["call"] for each in whole["judgements"]] == [*turns, "direct/overall"]
    ratings = [each["value"] for each in whole["scores"]]
    assert ratings[:3] == [1.0, 2.0, 3.0]
    assert await counted(judging, 2)


async def test_an_unreadable_judgement_has_all_replies_and_no_score(judging: Served) -> None:
    options = {"grading": ["direct"], "judge_retries": 2}
    found = await post(judging, TURN, judge="mute", options=options)
    [judged], [score] = found["judgements"], found["scores"]
    assert (judged["state"], judged["scores"], judged["reason"]) == ("unparsed", {}, "unparsed")
    assert (score["value"], score["reason"]) == (None, "unparsed")
    assert [reply["call"] for reply in judged["replies"]] == [
        "direct/turn_1",
        "direct/turn_1~retry_1",
        "direct/turn_1~retry_2",
        "direct/turn_1~extract",
    ]


async def test_equal_judgements_are_requested_once_also_at_the_same_time(judging: Served) -> None:
    found = await asyncio.gather(*(post(judging, TURN) for _ in range(5)))
    assert all(each == found[0] for each in [*found, await post(judging, TURN)])
    assert await counted(judging, 1)


async def test_many_at_once(judging: Served) -> None:
    replies = ({**REPLIES, "turn_1": f"{number} kites."} for number in range(50))
    found = await asyncio.gather(*(post(judging, TURN, replies=each) for each in replies))
    assert all(each["judgements"][0]["state"] == "parsed" for each in found)
    assert await counted(judging, 50)


async def test_a_judge_that_fails_is_an_error(judging: Served) -> None:
    answer = await judging.client.post(URL, json={**TURN, "judge": "failing"})
    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "server"


async def test_an_offline_judge_judges_its_benchmarks_only(judging: Served) -> None:
    found = await post(judging, TURN, judge="overlap")
    assert found["judgements"][0]["state"] == "parsed"
    for document, message in (
        (SPIDERS, "the judge 'overlap' is not a language model"),
        (
            {**TURN, "benchmark": "dialogue", "sample": {"turns": [{"instruction": "Hi"}]}}
            | {"options": {}, "replies": {"turn_1": "Hi"}, "calls": None},
            "an offline judge needs ConvBench's prompts",
        ),
    ):
        answer = await judging.client.post(URL, json={**document, "judge": "overlap"})
        assert answer.status_code == 400
        assert message in answer.json()["error"]["message"]


async def test_the_judge_is_sent_an_image_that_was_uploaded(judging: Served) -> None:
    stored = (await judging.client.post("/v1/images", content=PNG)).json()["id"]
    options = {"grading": ["direct"], "judge_sees_image": True}
    for name in (stored, f"image:{stored}"):
        found = await post(judging, TURN, options=options, sample={**KITES, "image": name})
        assert found["judgements"][0]["state"] == "parsed"
    # with other images of the same texts it is another judgement
    await post(judging, TURN)
    assert await counted(judging, 2)
    turns = [{"instruction": "What?", "images": [stored]}]
    sample = {"turns": turns}
    options = {"judge_sees_images": True}
    document = {"benchmark": "dialogue", "judge": "judge", "sample": sample, "options": options}
    found = await post(judging, document, replies={"turn_1": "A bird."})
    assert found["judgements"][0]["state"] == "parsed"


NO_IMAGE = "image:" + "0" * 64
DIALOGUE: dict[str, Any] = {"benchmark": "dialogue", "calls": None, "options": {}}


@pytest.mark.parametrize(
    ("change", "status", "param"),
    [
        ({"judge": "nobody"}, 404, "judge"),
        ({"benchmark": "best"}, 400, "benchmark"),
        ({"benchmark": None}, 400, "benchmark"),
        ({"condition": "best"}, 400, "condition"),
        ({"colour": "red"}, 400, "colour"),
        ({"replies": {}}, 400, "replies"),
        ({"replies": {"turn_4": "x"}}, 400, "replies"),
        ({"replies": {"turn_1": "x" * 500_000}}, 413, "replies.turn_1"),
        ({"calls": ["turn_1"]}, 400, "calls"),
        ({"calls": ["direct/turn_4"]}, 400, "calls"),
        ({"replies": {"turn_1": "A bird."}}, 400, "replies"),
        ({"options": {"data": "/etc/passwd"}}, 400, "options.data"),
        ({"options": {"generate_only": True}, "calls": None}, 400, "options"),
        ({"options": {"judge_max_tokens": 10**9}}, 400, "options.judge_max_tokens"),
        ({"options": {"judge_retries": 9}}, 400, "options.judge_retries"),
        ({"options": {"grading": ["best"]}}, 400, "options.grading[0]"),
        ({"options": {"judge_sees_image": True}, "calls": None}, 400, "sample"),
        ({"sample": {**KITES, "colour": "red"}}, 400, "sample.colour"),
        ({"sample": {**KITES, "caption": None}}, 400, "sample"),
        ({"sample": {**KITES, "instructions": ["a", "b"]}}, 400, "sample.instructions"),
        ({"sample": {**KITES, "caption": 5.5, "image": 7}}, 400, "sample"),
        ({"sample": {**KITES, "caption": "x" * 500_000}}, 413, "sample.caption"),
        ({"sample": {**KITES, "image": NO_IMAGE}}, 404, "sample.image"),
        ({"sample": {**KITES, "image": "file:///etc/passwd"}}, 400, "sample.image"),
        ({"sample": {**KITES, "image": "data:image/png;base64,AAAA"}}, 400, "sample.image"),
        (
            {**DIALOGUE, "sample": {"turns": [{"instruction": "a", "images": [NO_IMAGE]}]}},
            404,
            "sample.turns[0].images[0]",
        ),
        ({**DIALOGUE, "sample": {"turns": [{"text": "a"}]}}, 400, "sample.turns[0].instruction"),
        (
            {
                **DIALOGUE,
                "sample": {"turns": [{"instruction": "a"}] * 2},
                "condition": "perception",
            },
            400,
            "sample.turns[0].reference",
        ),
        ({**DIALOGUE, "sample": {"turns": [{"instruction": "x" * 300_000}] * 10}}, 413, "sample"),
    ],
)
async def test_the_wrong_field_is_named(
    judging: Served, change: dict[str, Any], status: int, param: str
) -> None:
    answer = await judging.client.post(URL, json={**TURN, **change})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (status, param), error
    assert "passwd" not in error["message"]


async def test_prompts_of_the_operator_replace_ours(serve: Serve, tmp_path: Path) -> None:
    ours = await post(await serve(models=MODELS), TURN)
    folder = tmp_path / "prompts" / "convbench"
    folder.mkdir(parents=True)
    shipped = Path(str(resources.files("judges"))) / "prompts" / "convbench" / "direct_turn_1.md"
    text = shipped.read_text(encoding="utf-8").replace("an experienced judge", "a strict judge")
    (folder / shipped.name).write_text(text, encoding="utf-8")
    served = await serve(models=MODELS, prompts=str(folder.parent))
    theirs = await post(served, TURN)
    assert theirs["judgements"][0]["prompt"] != ours["judgements"][0]["prompt"]
    assert (await post(served, TURN, judge="overlap"))["judgements"][0]["state"] == "parsed"


@pytest.mark.parametrize("name", [name for name in CLASSES if name != "scenes"])
async def test_a_runs_judgements_are_cached(serve: Serve, tmp_path: Path, name: str) -> None:
    """The judge's calls of a run have the same content keys: none is made again."""
    options, shown, sample, image = _data(tmp_path, name)
    data = {"shapes": {"benchmark": name, "options": options}}
    served = await serve(models=MODELS, data=data)
    run = {"data": "shapes", "models": {"candidate": "echo", "judge": "judge"}, "options": shown}
    posted = await served.client.post("/v1/runs", json=run)
    info = await ended(served.client, posted.json()["id"])
    assert (info["state"], info["lost"]) == ("done", 0)
    place = posted.headers["location"]
    [listed] = (await served.client.get(f"{place}/samples")).json()["data"]
    recorded = (await served.client.get(f"{place}/samples/{listed['sample']}")).json()
    if image is not None:
        uploaded = await served.client.post("/v1/images", content=image.read_bytes())
        sample["image"] = uploaded.json()["id"]
    for condition in {call["condition"] for call in recorded["calls"]}:
        calls = [call for call in recorded["calls"] if call["condition"] == condition]
        replies = {call["call"]: call["text"] for call in calls if call["model"] == "candidate"}
        body = {"benchmark": name, "judge": "judge", "sample": sample, "replies": replies}
        found = await post(served, body, condition=condition, options=shown)
        judged = {call["call"]: call["text"] for call in calls if call["model"] == "judge"}
        assert {each["call"]: each["replies"][0]["text"] for each in found["judgements"]} == judged
        scores = {
            (score.metric, score.turn, score.tags.get("side")): score.value
            for score in map(score_of, recorded["scores"])
            if score.condition == condition
        }
        assert found["scores"]
        for each in found["scores"]:
            assert each["value"] == scores[each["metric"], each["turn"], each["tags"].get("side")]
    assert await counted(served, 0)


def _data(folder: Path, name: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], Any]:
    """A dataset of one sample: its options, those of the request, the sample, and its image."""
    path = folder / "standard_data.json"
    shown: dict[str, Any]
    sample: dict[str, Any]
    match name:
        case "convbench":
            data, images = write_scenes(folder / "data", 1)
            row = orjson.loads(data.read_bytes())
            sample = {
                "id": "1",
                "instructions": [row[column] for column in INSTRUCTIONS],
                "references": [row[column] for column in REFERENCES],
                "caption": row[CAPTION],
                "focus_points": row[FOCUS_POINTS],
            }
            shown = {"grading": ["direct", "pairwise"], "order": "both"}
            options = {"data": str(data), "images": str(images)}
            return options, shown, sample, images / row["image_id"]
        case "mtbench101":
            sample = {"id": "1", **SPIDERS["sample"], "task": "MR"}
            shown = {"guidelines": False}
        case "dialogue":
            turns = [{"instruction": "Why?", "reference": "So."}, {"instruction": "And?"}]
            sample, shown = {"id": "1", "turns": turns, "caption": "A kite."}, {}
        case "fbbench":
            sample, shown = correction(), {"reference": False}
        case "botchat":
            sample, shown = botchat.record(1, 4), {"utterances": 4, "protocols": ["unieval"]}
        case _:
            record = cmteval.record()
            turns = [
                {k: v for k, v in turn.items() if k != "预设回复"} for turn in record["会话内容"]
            ]
            path.write_bytes(orjson.dumps([record]))
            sample = {**record, "subset": "standard", "id": "standard/1", "会话内容": turns}
            del sample["origin_id"]
            return {"data": str(path)}, {"judge_settings": "code"}, sample, None
    path.write_bytes(orjson.dumps([sample]))
    return {"data": str(path)}, shown, sample, None
