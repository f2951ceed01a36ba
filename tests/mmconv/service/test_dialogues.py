"""`/v1/dialogues`: answered at once or as a run, asked as ConvBench asks, and hard to misuse."""

import asyncio
import base64
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from mmconv.benchmarks.convbench.data import CAPTION, FOCUS_POINTS, INSTRUCTIONS, REFERENCES
from mmconv.core.types import Reply
from model_zoo.simulated.fake import FakeBackend
from tests.drawn_data import write_scenes
from tests.images.pictures import encode, halves
from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.dialogue_samples import TURNS
from tests.mmconv.service.run_settings import ended, until
from tests.mmconv.service.tokens import bearer, token
from tests.pictures import picture

URL = "/v1/dialogues"
MODELS: Mapping[str, Any] = {
    "overlap": {"provider": "reference", "model": "chrf"},
    "slow": {"provider": "fake", "model": "slow", "options": {"seconds": 0.3}},
}
PNG = encode(halves(), "png")
PICTURE = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
DIALOGUE: dict[str, Any] = {
    "model": "echo",
    "judge": "judge",
    "images": [PICTURE],
    "caption": "Red beside blue.",
    "turns": TURNS,
    "conditions": ["free", "perception", "reasoning"],
    "gradings": ["direct", "pairwise"],
}

LONG = [{"instruction": "x" * 20_000, "reference": "y"}] * 150
"""Within the limits of any text or list, and too much for every judge to read."""


@pytest.fixture
async def talking(serve: Serve) -> Served:
    return await serve(models=MODELS)


async def post(served: Served, **fields: Any) -> Any:
    answer = await served.client.post(URL, json={**DIALOGUE, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_it_is_asked_once(talking: Served) -> None:
    first = await post(talking, gradings=["direct"])
    second = await post(talking, gradings=["direct"])
    assert second["conditions"] == first["conditions"]
    assert (first["usage"]["requested"], second["usage"]["requested"], first["lost"]) == (15, 0, 0)


async def test_one_turn_without_judge(talking: Served) -> None:
    plain = {"model": "echo", "turns": [{"instruction": "Hello"}]}
    found = (await talking.client.post(URL, json=plain)).json()
    [condition] = found["conditions"]
    assert [turn["text"] for turn in condition["turns"]] == ["Hello"]
    assert (found["judge"], found["deltas"], condition["overall"]) == (None, [], [])


async def test_images_are_named_by_bare_ids_and_shown_at_any_turn(talking: Served) -> None:
    stored = (await talking.client.post("/v1/images", content=PNG)).json()["id"]
    other = (await talking.client.post("/v1/images", content=picture(1))).json()["id"]
    turns = [{"instruction": "Which?", "images": [f"image:{other}"]}, {"instruction": "And now?"}]
    turns.append({"instruction": "And this?", "images": [stored, PICTURE]})
    body = {"model": "echo", "images": [stored], "turns": turns}
    answer = await talking.client.post(URL, json=body)
    assert answer.status_code == 200, answer.text
    seen = [
        [image["sha256"] for image in turn["seen"]]
        for turn in answer.json()["conditions"][0]["turns"]
    ]
    [first, _] = answer.json()["conditions"][0]["turns"][0]["seen"]
    size = {"width": 32, "height": 16, "media_type": "image/png"}
    assert first == {"sha256": stored} | size
    # a model sees all that stand before its answer
    assert seen == [[stored, other], [stored, other], [stored, other, stored, stored]]
    chat = {
        "model": "echo",
        "messages": [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": stored}}]}
        ],
    }
    assert (await talking.client.post("/v1/chat/completions", json=chat)).status_code == 200


async def test_a_queued_dialogue_has_its_turns_images_and_one_id(serve: Serve) -> None:
    served = await serve(synchronous_calls=0)
    first = {"instruction": "Which?", "images": [PICTURE]}
    second = {"instruction": "And?", "images": [PICTURE]}
    body = {"model": "echo", "turns": [first, second]}
    posted = await served.client.post(URL, json=body)
    assert posted.status_code == 202, posted.text
    done = await ended(served.client, posted.headers["location"])
    sha256 = hashlib.sha256(PNG).hexdigest()
    turns = done["result"]["conditions"][0]["turns"]
    assert [[image["sha256"] for image in turn["seen"]] for turn in turns] == [
        [sha256],
        [sha256] * 2,
    ]
    same = {"model": "echo", "images": [sha256], "turns": [{"instruction": "Which?"}, second]}
    assert (await served.client.post(URL, json=same)).json() == done["result"]


async def test_the_overlap_measure_judges_by_convbench_prompts(talking: Served) -> None:
    found = await post(
        talking, judge="overlap", prompts="convbench", gradings=["direct"], conditions=["free"]
    )
    assert found["conditions"][0]["overall"][0]["state"] == "parsed"
    answer = await talking.client.post(URL, json={**DIALOGUE, "judge": "overlap"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "prompts")
    assert "the judge 'overlap' is not a language model" in answer.json()["error"]["message"]


async def test_a_dialogue_of_many_calls_says_where_to_look(serve: Serve) -> None:
    served = await serve(synchronous_calls=1)
    answer = await served.client.post(URL, json=DIALOGUE)
    info = answer.json()
    assert answer.status_code == 202
    assert info["location"] == answer.headers["location"] == f"/v1/dialogues/{info['id']}"
    assert f"GET {info['location']} until its state is done" in info["about"]
    assert (await ended(served.client, info["location"]))["about"] is None
    documented = (await served.client.get("/openapi.json")).json()["paths"][URL]["post"]
    assert "synchronous_calls" in documented["description"]


async def test_who_waits_gets_the_dialogue_however_many_calls_it_is(serve: Serve) -> None:
    served = await serve(models=MODELS, synchronous_calls=1, limits={"watchers": 1})
    answer = await served.client.post(URL, params={"wait": 30}, json=DIALOGUE)
    assert answer.status_code == 200
    assert answer.json()["deltas"]
    slow = {**DIALOGUE, "model": "slow"}
    early = await served.client.post(URL, params={"wait": 0.01}, json=slow)
    assert (early.status_code, early.json()["state"]) in ((202, "queued"), (202, "running"))
    waiting = asyncio.create_task(served.client.post(URL, params={"wait": 30}, json=slow))
    await until(lambda: served.shared.meters["local"].watchers == 1)
    queued = await served.client.post(URL, params={"wait": 30}, json=slow)
    assert (queued.status_code, queued.json()["id"]) == (202, early.json()["id"])
    assert (await waiting).json()["deltas"]
    assert served.shared.meters["local"].watchers == 0


@pytest.mark.parametrize(
    ("change", "status", "param"),
    [
        ({"model": "nobody"}, 404, "model"),
        ({"judge": "nobody"}, 404, "judge"),
        ({"images": ["image:" + "0" * 64]}, 404, "images[0]"),
        ({"images": ["data:image/png;base64,AAAA"]}, 400, "images[0]"),
        ({"conditions": ["best"]}, 400, "conditions[0]"),
        ({"turns": [{**TURNS[0], "answer": "x"}]}, 400, "turns[0].answer"),
        ({"sampling": {"max_tokens": 10**9}}, 400, "sampling.max_tokens"),
        ({"turns": TURNS * 100}, 413, "turns"),
        ({"turns": LONG, "caption": "x"}, 413, "turns"),
        ({"turns": [{**TURNS[0], "instruction": "x" * 500_000}]}, 413, "turns[0].instruction"),
        ({"turns": [{"instruction": "x" * 300_000}] * 20}, 413, None),
    ],
)
async def test_the_field_to_blame_is_named(
    talking: Served, change: dict[str, Any], status: int, param: str | None
) -> None:
    plain = {"conditions": [0], "gradings": ["direct"]}
    answer = await talking.client.post(URL, json={**DIALOGUE, **plain, **change})
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param)


async def test_three_turns_in_all_conditions_are_answered_at_once(
    talking: Served,
) -> None:
    assert DIALOGUE["conditions"] == ["free", "perception", "reasoning"]
    answer = await talking.client.post(URL, json=DIALOGUE)
    assert (answer.status_code, answer.json()["usage"]["requested"]) == (200, 33)
    further = [*TURNS, {"instruction": "And then?", "reference": "It flies on."}]
    longer = {**DIALOGUE, "turns": further, "conditions": [0, 1, 2, 3]}
    assert (await talking.client.post(URL, json=longer)).status_code == 202


async def test_a_large_one_is_a_run_with_the_same_result(serve: Serve) -> None:
    small = await serve(synchronous_calls=100)
    at_once = await post(small)
    large = await serve(synchronous_calls=4, out=str(small.shared.settings.out) + "2")
    answer = await large.client.post(URL, json=DIALOGUE)
    assert answer.status_code == 202
    place = answer.headers["location"]
    assert place == f"{URL}/{answer.json()['id']}"
    done = await ended(large.client, place)
    assert (done["state"], done["error"]) == ("done", None)
    assert done["progress"]["conversations"] == done["progress"]["total"] == 3
    assert done["progress"]["calls"] == done["progress"]["planned"] == 33
    assert done["result"] == at_once
    again = await large.client.post(URL, json=DIALOGUE)
    assert again.status_code == 200
    assert again.json() == at_once


async def test_a_queued_one_shows_progress(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    permits = asyncio.Semaphore(2)
    really = FakeBackend.generate

    async def generate(*args: Any, **kwargs: Any) -> Reply:
        await permits.acquire()
        return await really(*args, **kwargs)

    monkeypatch.setattr(FakeBackend, "generate", generate)
    served = await serve(synchronous_calls=1)
    place = (await served.client.post(URL, json=DIALOGUE)).headers["location"]

    async def shows(true: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        async with asyncio.timeout(60):
            while True:
                found: dict[str, Any] = (await served.client.get(place)).json()["progress"]
                if true(found):
                    return found
                await asyncio.sleep(0.01)

    begun = await shows(lambda progress: progress["calls"] == 2)
    assert (begun["planned"], begun["conversations"], begun["total"]) == (33, 0, 3)
    permits.release()
    later = await shows(lambda progress: progress["calls"] == 3 and progress["seconds_left"])
    assert later["conversations"] == 0
    assert later["seconds_left"] > 0
    assert (await served.client.delete(place)).status_code == 202
    for _ in range(33):
        permits.release()
    await ended(served.client, place)


async def test_what_a_token_may_not_have_waiting_is_queued(serve: Serve) -> None:
    tokens = [token("ann", "chat", "run", "read", queued_calls=2)]
    served = await serve(tokens=tokens)
    served.client.headers.update(bearer("ann"))
    two, three = ({"model": "echo", "turns": TURNS[:count]} for count in (2, 3))
    assert (await served.client.post(URL, json=two)).status_code == 200
    answer = await served.client.post(URL, json=three)
    assert answer.status_code == 202
    assert (await ended(served.client, answer.headers["location"]))["state"] == "done"


async def test_a_token_needs_a_scope_for_what_is_queued(serve: Serve) -> None:
    served = await serve(synchronous_calls=1, tokens=[token("ann", "chat")])
    answer = await served.client.post(URL, json=DIALOGUE, headers=bearer("ann"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "missing_scope")


async def test_a_queued_dialogue_is_its_owners(serve: Serve) -> None:
    tokens = [token("ann", "chat", "run", "read"), token("bob", "read"), token("eve", "admin")]
    served = await serve(synchronous_calls=1, tokens=tokens)
    queued = await served.client.post(URL, json=DIALOGUE, headers=bearer("ann"))
    place = queued.headers["location"]
    found = {
        name: (await served.client.get(place, headers=bearer(name))).status_code
        for name in ("ann", "bob", "eve")
    }
    assert found == {"ann": 200, "bob": 404, "eve": 200}


async def test_a_dialogue_is_asked_and_judged_as_convbench(serve: Serve, tmp_path: Path) -> None:
    """After a run over the row, its dialogue is known: nothing is asked, and the scores agree."""
    data, images = write_scenes(tmp_path / "data", 1)
    options = {"data": str(data), "images": str(images)}
    served = await serve(data={"drawn": {"benchmark": "convbench", "options": options}})
    run = {
        "data": "drawn",
        "models": {"candidate": "echo", "judge": "judge"},
        "options": {"grading": ["direct"]},
    }
    posted = await served.client.post("/v1/runs", json=run)
    done = await ended(served.client, posted.headers["location"])
    assert done["state"] == "done"
    row = orjson.loads(data.read_bytes())
    uploaded = await served.client.post(
        "/v1/images", content=(images / row["image_id"]).read_bytes()
    )
    found = await post(
        served,
        prompts="convbench",
        gradings=["direct"],
        images=[f"image:{uploaded.json()['id']}"],
        caption=row[CAPTION],
        turns=[
            {"instruction": row[instruction], "reference": row[reference]}
            | ({"focus_points": row[FOCUS_POINTS]} if instruction == INSTRUCTIONS[2] else {})
            for instruction, reference in zip(INSTRUCTIONS, REFERENCES, strict=True)
        ],
    )
    assert (found["usage"]["requested"], found["usage"]["cached"]) == (0, 15)
    listed = await served.client.get(f"/v1/runs/{done['id']}/scores", params={"metric": "rating"})
    ratings = {(each["condition"], each["turn"]): each["value"] for each in listed.json()["data"]}
    assert ratings == {
        (each["condition"], number): judged["score"]
        for each in found["conditions"]
        for number, judgements in [
            *((turn["turn"], turn["judgements"]) for turn in each["turns"]),
            (0, each["overall"]),
        ]
        for judged in judgements
    }


@pytest.fixture
async def served(serve: Serve) -> Served:
    """With `ada`, an admin, and `bob` and `kim`, who may have two jobs each; all is queued."""
    tokens = [
        token("ada", "admin"),
        *(token(name, "chat", "run", concurrent_runs=2) for name in ("bob", "kim")),
    ]
    return await serve(tokens=tokens, synchronous_calls=0)


async def start(served: Served, name: str, number: int, **fields: Any) -> Any:
    body = {"model": "echo", "turns": [{"instruction": f"Turn {number}"}], **fields}
    answer = await served.client.post(URL, json=body, headers=bearer(name))
    return answer.json()


async def listed(served: Served, name: str, **params: Any) -> Any:
    answer = await served.client.get(URL, params=params, headers=bearer(name))
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_ones_own_are_listed_and_an_admins_list_holds_all(served: Served) -> None:
    ids = {name: (await start(served, name, 1))["id"] for name in ("bob", "kim")}
    for name, found in ids.items():
        [own] = (await listed(served, name))["data"]
        assert (own["id"], own["owner"], own["model"]) == (found, name, "echo")
        assert own["location"] == f"{URL}/{found}"
        assert "result" not in own
    everything = (await listed(served, "ada"))["data"]
    assert [each["id"] for each in everything] == [ids["kim"], ids["bob"]]
    assert (await served.client.get(URL)).status_code == 401


async def test_a_page_does_not_begin_behind_anothers(served: Served) -> None:
    anothers = (await start(served, "bob", 1))["id"]
    for after in (anothers, "dialogue-0123456789ab"):
        answer = await served.client.get(URL, params={"after": after}, headers=bearer("kim"))
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "after")


async def test_who_has_too_many_is_told_what_counts_and_where_it_is(served: Served) -> None:
    for number in range(2):
        turns = [{"instruction": f"I am number {number}"}] * 40
        await start(served, "bob", number, model="slow", turns=turns)
    refused = (await start(served, "bob", 3))["error"]
    assert refused["code"] == "too_many_runs"
    assert "2 runs and long dialogues of this token" in refused["message"]
    assert "GET /v1/dialogues" in refused["message"]
