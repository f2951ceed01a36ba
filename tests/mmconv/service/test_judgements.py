"""`/v1/judgements`: every prompt judged over HTTP, paid once, and refused with the field."""

from __future__ import annotations

import asyncio
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from tests.images.pictures import encode, halves
from tests.mmconv.benchmarks.shared.requests import KITES, REQUESTS
from tests.mmconv.service.conftest import Serve, Served

COUNTED = 'mmconv_calls_total{model="judge",outcome="reply",token="local",work="judgement"}'
URL = "/v1/judgements"
MODELS = {
    "judge": {"provider": "fake", "model": "judge"},
    "mute": {"provider": "fake", "model": "unreadable"},
    "failing": {
        "provider": "fake",
        "model": "echo",
        "options": {"rate": 1.0, "kinds": ["server"]},
        "attempts": 1,
    },
    "overlap": {"provider": "reference", "model": "chrf"},
}
RATED = REQUESTS["convbench/direct_turn_1"]


@pytest.fixture
async def judging(serve: Serve) -> Served:
    opened = await serve(models=MODELS)
    assert isinstance(opened, Served)
    return opened


async def post(served: Served, document: dict[str, Any], **fields: Any) -> Any:
    answer = await served.client.post(URL, json={"judge": "judge", **document, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def refused(served: Served, document: dict[str, Any]) -> tuple[int, str | None]:
    answer = await served.client.post(URL, json=document)
    return answer.status_code, answer.json()["error"]["param"]


@pytest.mark.parametrize("name", REQUESTS)
async def test_every_prompt_is_judged_and_read(judging: Served, name: str) -> None:
    found = await post(judging, REQUESTS[name])
    assert found["state"] == "parsed"
    assert found["score"] is not None or found["choice"] is not None
    assert found["scores"][0]["metric"] == found["metric"]
    assert found["replies"][0]["text"]
    assert len(found["prompt"].partition("@")[2]) == 16


async def test_what_cannot_be_read_is_told_with_all_replies(judging: Served) -> None:
    found = await post(judging, RATED, judge="mute", retries=2)
    assert (found["state"], found["score"], found["why"]) == ("unparsed", None, "unparsed")
    assert [reply["call"] for reply in found["replies"]] == [
        "direct/turn_1",
        "direct/turn_1~retry_1",
        "direct/turn_1~retry_2",
        "direct/turn_1~extract",
    ]


async def test_the_same_judgement_is_asked_once(judging: Served) -> None:
    first, second = await post(judging, RATED), await post(judging, RATED)
    assert first == second
    page = (await judging.client.get("/metrics")).text
    assert f"{COUNTED} 1.0" in page


async def test_the_same_judgement_at_the_same_time_is_asked_once(judging: Served) -> None:
    found = await asyncio.gather(*(post(judging, RATED) for _ in range(5)))
    assert all(each == found[0] for each in found)
    page = (await judging.client.get("/metrics")).text
    assert f"{COUNTED} 1.0" in page


async def test_many_at_once(judging: Served) -> None:
    turns = [[{**KITES[0], "assistant": f"{number} kites."}, *KITES[1:]] for number in range(50)]
    found = await asyncio.gather(*(post(judging, RATED, turns=each) for each in turns))
    assert all(each["state"] == "parsed" for each in found)


async def test_a_judge_that_fails_is_an_error(judging: Served) -> None:
    answer = await judging.client.post(URL, json={**RATED, "judge": "failing"})
    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "server"


async def test_the_overlap_measure_judges_convbench_alone(judging: Served) -> None:
    found = await post(judging, RATED, judge="overlap")
    assert found["state"] == "parsed"
    other = {**REQUESTS["botchat/unieval"], "judge": "overlap"}
    assert await refused(judging, other) == (400, "judge")


async def test_the_judge_is_shown_a_picture_that_was_uploaded(judging: Served) -> None:
    stored = await judging.client.post("/v1/images", content=encode(halves(), "png"))
    found = await post(judging, RATED, image=f"image:{stored.json()['id']}")
    assert found["state"] == "parsed"
    missing = {**RATED, "judge": "judge", "image": "image:" + "0" * 64}
    assert await refused(judging, missing) == (404, "image")


@pytest.mark.parametrize(
    ("change", "status", "param"),
    [
        ({"judge": "nobody"}, 404, "judge"),
        ({"benchmark": "best"}, 400, "benchmark"),
        ({"prompt": "best"}, 400, "prompt"),
        ({"side": "A"}, 400, "side"),
        ({"turns": KITES[:2]}, 400, "turns"),
        ({"turns": [{**KITES[0], "user": ""}, *KITES[1:]]}, 400, "turns[0].user"),
        ({"colour": "red"}, 400, "colour"),
        ({"max_tokens": 10**9}, 400, "max_tokens"),
        ({"caption": "x" * 500_000}, 413, "caption"),
    ],
)
async def test_the_field_to_blame_is_named(
    judging: Served, change: dict[str, Any], status: int, param: str
) -> None:
    assert await refused(judging, {**RATED, "judge": "judge", **change}) == (status, param)


async def test_the_operators_prompts_stand_in_for_ours(serve: Serve, tmp_path: Path) -> None:
    ours = await post(await serve(models=MODELS), RATED)
    folder = tmp_path / "prompts" / "convbench"
    folder.mkdir(parents=True)
    shipped = Path(str(resources.files("judges"))) / "prompts" / "convbench" / "direct_turn_1.md"
    text = shipped.read_text(encoding="utf-8").replace("an experienced judge", "a strict judge")
    (folder / shipped.name).write_text(text, encoding="utf-8")
    theirs = await post(await serve(models=MODELS, prompts=str(folder.parent)), RATED)
    assert theirs["prompt"] != ours["prompt"]


async def test_without_a_benchmark_the_field_is_named_too(judging: Served) -> None:
    assert await refused(judging, {"judge": "judge"}) == (400, "benchmark")
