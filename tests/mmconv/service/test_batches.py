"""Many dialogues in one request: a run with named scores, deltas and attribution."""

import asyncio
import base64
from typing import Any

import httpx2
import pytest

from mmconv.core.keys import hash_bytes
from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.run_settings import ended
from tests.mmconv.service.tokens import bearer, token
from tests.pictures import picture

PNG = picture(1)
URI = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


def dialogue(number: int, **fields: Any) -> dict[str, Any]:
    turns = [
        {"instruction": f"What is {number}?", "reference": f"It is {number}."},
        {"instruction": f"Why {number}?", "reference": "Because."},
        {"instruction": f"Write of {number}.", "reference": "Once upon a time."},
    ]
    return {"turns": turns} | fields


def batch(count: int = 12, **fields: Any) -> dict[str, Any]:
    """Dialogues of three turns under ConvBench's conditions, judged."""
    conditions = ["free", "perception", "reasoning"]
    body = {"model": "echo", "judge": "judge", "conditions": conditions}
    return body | {"dialogues": [dialogue(number) for number in range(count)]} | fields


async def post(client: httpx2.AsyncClient, body: dict[str, Any], wait: int = 60) -> httpx2.Response:
    return await client.post(f"/v1/dialogues:batch?wait={wait}", json=body)


async def test_scores_deltas_and_attribution_of_many_dialogues(served: Served) -> None:
    answer = await post(served.client, batch(gradings=["direct", "pairwise"]))
    assert answer.status_code == 200, answer.text
    result = answer.json()
    assert result["run"]["state"] == "done"
    scores = result["scores"]["rows"]
    for name in ("S1", "S2", "S3", "S0", "S2_hat", "S3_hat", "S0_hat", "S3_tilde", "S0_tilde"):
        cell = scores[name]["direct (1-10)"]
        assert cell["n"] == 12
        assert cell["low"] <= cell["value"] <= cell["high"]
        assert "pairwise win rate (%)" in scores[name]
    deltas = result["deltas"]["rows"]
    assert {"S2_hat - S2", "S3_tilde - S3_hat", "S3_tilde - S3", "S0_tilde - S0"} <= deltas.keys()
    change = deltas["S2_hat - S2"]["direct (1-10)"]["value"]
    direct = [scores[name]["direct (1-10)"]["value"] for name in ("S2", "S2_hat")]
    assert change == pytest.approx(direct[1] - direct[0])
    assert "creation failed: due to perception" in result["attribution"]["rows"]


async def test_a_batch_is_a_run_of_a_dataset(served: Served) -> None:
    client = served.client
    queued = await post(client, batch(3), wait=0)
    assert queued.status_code == 202
    assert queued.json()["scores"] is None
    run = queued.json()["run"]["id"]
    assert queued.headers["location"] == f"/v1/runs/{run}"
    assert (await ended(client, run))["state"] == "done"
    [data] = (await client.get("/v1/data")).json()["data"]
    assert (data["samples"], data["benchmark"]["id"]) == (3, "dialogue")
    samples = (await client.get(f"/v1/runs/{run}/samples")).json()["data"]
    assert [each["sample"] for each in samples] == ["1", "2", "3"]
    again = await post(client, batch(3), wait=0)
    assert (again.status_code, again.json()["run"]["id"]) == (200, run)
    assert again.json()["scores"]["rows"]["S1"]


async def test_its_calls_are_those_of_single_dialogues(served: Served) -> None:
    client, body = served.client, batch(2, images_of_each=None)
    del body["images_of_each"]
    shown = {"images": [URI], "caption": "A drawing."}
    body["dialogues"] = [dialogue(number, **shown) for number in range(2)]
    assert (await post(client, body)).status_code == 200
    for each in body["dialogues"]:
        single = {name: value for name, value in body.items() if name != "dialogues"} | each
        answer = await client.post("/v1/dialogues?wait=60", json=single)
        usage = answer.json()["usage"]
        assert (usage["requested"], usage["cached"]) == (0, 6 + 6 + 3)
    [data] = (await client.get("/v1/data")).json()["data"]
    run = (await post(client, body)).json()["run"]["id"]
    image = await client.get(f"/v1/runs/{run}/images/{hash_bytes(PNG)}")
    assert image.content == PNG
    assert data["bytes"] > len(PNG)


NONE = {"turns": [{"instruction": "Hi"}]}


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"dialogues": []}, "dialogues"),
        ({"dialogues": [dialogue(1), {"turns": []}]}, "dialogues[1].turns"),
        ({"dialogues": [dialogue(1), NONE]}, "dialogues[1].turns"),
        ({"dialogues": [dialogue(1, id="a"), dialogue(2, id="a")]}, "dialogues"),
        ({"dialogues": [dialogue(1, images=["image:" + "0" * 64], caption="x")]}, "images[0]"),
        ({"dialogues": [dialogue(1, images=[URI])]}, "dialogues[0].caption"),
        ({"dialogues": [dialogue(1)] * 201}, "dialogues"),
        ({"conditions": [0], "dialogues": [{"turns": [{"instruction": " "}]}]}, "turns[0]"),
        ({"judge": "nobody"}, "judge"),
        ({"model": "nobody"}, "model"),
        ({"turns": []}, "turns"),
    ],
)
async def test_what_is_wrong_is_named_and_leaves_nothing(
    served: Served, change: dict[str, Any], param: str
) -> None:
    answer = await post(served.client, batch(2) | change)
    assert answer.status_code in (400, 404, 413), answer.text
    assert param in answer.json()["error"]["param"]
    assert (await served.client.get("/v1/data")).json()["data"] == []


async def test_batches_at_once_share_a_tokens_room(serve: Serve) -> None:
    client = (await serve(limits={"stored_bytes": 1000})).client
    bodies = [batch(1, dialogues=[dialogue(number, id="x" * 300)]) for number in range(6)]
    answers = await asyncio.gather(*(post(client, body, wait=0) for body in bodies))
    sets = (await client.get("/v1/data")).json()["data"]
    assert sorted(answer.status_code for answer in answers) == [202] * len(sets) + [429] * (
        6 - len(sets)
    )
    assert 0 < sum(each["bytes"] for each in sets) <= 1000


async def test_a_batch_needs_the_scope_of_runs(serve: Serve) -> None:
    client = (await serve(tokens=[token("ann", "chat")])).client
    answer = await client.post("/v1/dialogues:batch", json=batch(1), headers=bearer("ann"))
    assert answer.status_code == 403
