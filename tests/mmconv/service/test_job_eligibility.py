"""A job's id stands for its calls: other settings or files make another job."""

from __future__ import annotations

import asyncio
import re
from importlib import resources
from pathlib import Path
from typing import Any

import httpx2

from mmconv.service.dialogue_run import DialogueRequest
from mmconv.service.run_requests import RunRequest
from mmconv.store.jobs import NewJob
from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.run_settings import drawn, ended, finished, request
from tests.mmconv.service.tokens import bearer, token

TALK = {"model": "m", "turns": [{"instruction": "Why?"}]}


def scripted(text: str) -> dict[str, Any]:
    """The settings of a model that says this."""
    return {"provider": "fake", "model": "scripted", "options": {"script": {".*": text}}}


async def test_another_model_of_the_same_name_makes_a_dialogue_another_one(
    serve: Serve, tmp_path: Path
) -> None:
    said = []
    for text in ("old", "new", "old"):
        served = await serve(models={"m": scripted(text)}, synchronous_calls=0)
        answer = await served.client.post("/v1/dialogues", params={"wait": 30}, json=TALK)
        assert answer.status_code == 200, answer.text
        said.append(answer.json()["conditions"][0]["turns"][0]["text"])
    assert said == ["old", "new", "old"]


async def test_prompts_of_the_operators_own_make_a_dialogue_another_one(
    serve: Serve, tmp_path: Path
) -> None:
    own = tmp_path / "prompts" / "dialogue"
    own.mkdir(parents=True)
    ours = resources.files("judges") / "prompts" / "dialogue" / "direct_turn.md"
    (own / "direct_turn.md").write_text(ours.read_text())
    names = []
    for fields in ({}, {"prompts": tmp_path / "prompts"}):
        served = await serve(models={"m": scripted("x")}, synchronous_calls=0, **fields)
        names.append((await served.client.post("/v1/dialogues", json=TALK)).json()["id"])
    assert names[0] != names[1]


async def test_what_was_changed_in_place_is_run_again(serve: Serve, tmp_path: Path) -> None:
    """The data, then the prompts; what is not changed is found."""
    prompts = tmp_path / "prompts"
    (prompts / "convbench").mkdir(parents=True)
    file = prompts / "convbench" / "direct_turn_1.md"
    ours = resources.files("judges") / "prompts" / "convbench" / file.name
    file.write_text(ours.read_text())
    shapes = drawn(tmp_path)
    data = Path(shapes["shapes"]["options"]["data"])
    tokens = [token("ann", "admin"), token("bob", "run")]

    async def post(name: str = "ann") -> tuple[httpx2.Response, Served]:
        served: Served = await serve(tokens=tokens, data=shapes, prompts=prompts)
        served.client.headers.update(bearer("ann"))
        posted = await served.client.post("/v1/runs", json=request(limit=1), headers=bearer(name))
        if posted.status_code == 202:
            assert (await ended(served.client, posted.json()["id"]))["state"] == "done"
        return posted, served

    before_data = await asyncio.to_thread(data.read_text)
    first, _ = await post()
    found, served = await post()
    assert (found.status_code, found.json()["id"]) == (200, first.json()["id"])
    place = f"/v1/runs/{found.json()['id']}/samples/1"
    before = (await served.client.get(place)).text
    await asyncio.to_thread(data.write_text, before_data.replace("What", "Say what"))
    refused, _ = await post("bob")
    assert refused.status_code == 409
    assert "was made from files that have changed since" in refused.json()["error"]["message"]
    again, served = await post()
    assert again.status_code == 202
    after = (await served.client.get(place)).text
    assert ("Say what" in before, "Say what" in after) == (False, True)
    assert (await post())[0].status_code == 200
    file.write_text(file.read_text() + "\nBe strict.\n")
    assert (await post())[0].status_code == 202
    await asyncio.to_thread(data.unlink)
    assert (await post())[0].status_code == 200


async def test_pictures_of_a_finished_run_stay_whatever_its_models_are_by_now(
    serve: Serve, tmp_path: Path
) -> None:
    data = drawn(tmp_path)
    served = await serve(data=data)
    run = (await finished(served.client, limit=1))["id"]
    shown = (await served.client.get(f"/v1/runs/{run}/samples/1")).json()["calls"][0]["messages"]
    [image] = re.findall("[0-9a-f]{64}", str(shown))
    other = {"echo": scripted("new"), "judge": {"provider": "fake", "model": "judge"}}
    later = await serve(data=data, models=other)
    answer = await later.client.get(f"/v1/runs/{run}/images/{image}")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    assert "data:image/" in (await later.client.get(f"/v1/runs/{run}/report")).text


async def test_jobs_of_earlier_settings_fail_and_say_so(serve: Serve, tmp_path: Path) -> None:
    """Others' results would depend on other models than their ids stand for."""
    served = await serve()
    queue = served.shared.queue
    gone = RunRequest(data="gone", models={"candidate": "echo"}).canonical()
    talk = DialogueRequest.model_validate({**TALK, "model": "echo"}).model_dump_json()
    await queue.submit(NewJob(id="x", kind="run", owner="local", spec=gone))
    await queue.submit(
        NewJob(id="dialogue-000000000000", kind="dialogue", owner="local", spec=talk)
    )
    assert "no dataset 'gone' here" in (await ended(served.client, "x"))["error"]
    talk_ended = await ended(served.client, "dialogue-000000000000", kind="dialogues")
    assert "configured otherwise by now" in talk_ended["error"]
