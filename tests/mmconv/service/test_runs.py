"""Runs over HTTP: what may be requested, and how they start, stop and resume."""

from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest

from mmconv.benchmarks.registry import TITLES
from mmconv.core.config import RunSpec
from mmconv.core.errors import StoreError
from mmconv.service.errors import Problem
from mmconv.service.run_requests import RunRequest, name_run, open_options, resolve
from mmconv.service.settings import Settings
from mmconv.store.jobs import Job
from mmconv.store.queue import Queue
from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.run_settings import CALLS, ROWS, begun, drawn, ended, request
from tests.mmconv.service.tokens import bearer, token

SLOW = {"provider": "fake", "model": "judge", "options": {"seconds": 0.1}, "max_concurrency": 4}
"""Answers everything as a judge would, and takes its time."""


@pytest.fixture
async def running(serve: Serve, tmp_path: Path) -> Served:
    """A service with drawn data; its model `slow` takes its time."""
    return await serve(data=drawn(tmp_path), models={"slow": SLOW})


def slow_request(**fields: Any) -> dict[str, Any]:
    return request(models={"candidate": "slow", "judge": "slow"}, **fields)


async def post(client: httpx2.AsyncClient, body: dict[str, Any], **headers: str) -> httpx2.Response:
    return await client.post("/v1/runs", json=body, headers=headers)


async def test_an_offline_judge_has_prompts_of_its_own(serve: Serve, tmp_path: Path) -> None:
    models = {
        "echo": {"provider": "fake", "model": "echo"},
        "overlap": {"provider": "reference", "model": "chrf"},
    }
    (tmp_path / "prompts" / "convbench").mkdir(parents=True)
    prompts = str(tmp_path / "prompts")
    served = await serve(data=drawn(tmp_path), models=models, prompts=prompts)
    judged = request(models={"candidate": "echo", "judge": "overlap"})
    answer = await post(served.client, judged)
    assert answer.status_code == 202, answer.text
    assert (await ended(served.client, answer.json()["id"]))["state"] == "done"


async def test_a_run_is_queued_carried_out_and_done(running: Served) -> None:
    answer = await post(running.client, request())
    assert answer.status_code == 202, answer.text
    queued = answer.json()
    assert answer.headers["location"] == f"/v1/runs/{queued['id']}"
    assert queued["id"].startswith("shapes-echo-")
    assert queued["request"] == request(options={"order": "both"})
    assert queued["state"] in ("queued", "running")
    done = await ended(running.client, queued["id"])
    assert (done["state"], done["error"], done["lost"]) == ("done", None, 0)
    progress = done["progress"]
    assert progress["replies"] == progress["requested"] + progress["cached"] == ROWS * CALLS
    assert progress["calls"] == progress["planned"] == ROWS * CALLS
    assert progress["conversations"] == progress["total"] == ROWS * 3
    assert done["scores"] > 0
    assert done["benchmark"] == "convbench"
    folders = [path.parent.name for path in running.shared.settings.out.glob("*/scores.jsonl")]
    assert len(folders) == 1
    assert folders[0].startswith("convbench-echo-")


async def test_samples_are_drawn_by_a_seed_or_named(running: Served) -> None:
    async def samples(**chosen: Any) -> list[str]:
        posted = await post(running.client, request(**chosen))
        run = await ended(running.client, posted.json()["id"])
        assert run["state"] == "done", run
        assert run["progress"]["conversations"] == run["progress"]["total"]
        found = (await running.client.get(f"/v1/runs/{run['id']}/samples")).json()["data"]
        return [each["sample"] for each in found]

    every = await samples()
    assert await samples(samples=[every[1]]) == [every[1]]
    drawn = await samples(limit=1, shuffle=1)
    assert len(drawn) == 1
    others = [await samples(limit=1, shuffle=seed) for seed in (2, 3)]
    assert any(other != drawn for other in others)
    unknown = await post(running.client, request(samples=["no such"]))
    assert unknown.status_code == 400
    error = unknown.json()["error"]
    assert error["param"] == "samples"
    assert error["message"] == "samples: no sample has the key no such; there are: 1, 2, 3"


async def test_posting_a_run_again_finds_it(running: Served) -> None:
    first = (await post(running.client, request())).json()
    await ended(running.client, first["id"])
    again = await post(running.client, request())
    assert again.status_code == 200
    assert (again.json()["id"], again.json()["state"]) == (first["id"], "done")
    other = await post(running.client, request(limit=1))
    assert other.status_code == 202
    assert other.json()["id"] != first["id"]
    await ended(running.client, other.json()["id"])


async def test_an_idempotency_key_stands_for_one_request(running: Served) -> None:
    key = {"Idempotency-Key": "k-1"}
    first = await post(running.client, request(limit=1), **key)
    again = await post(running.client, request(limit=1), **key)
    assert again.json()["id"] == first.json()["id"]
    other = await post(running.client, request(limit=2), **key)
    assert other.status_code == 422
    assert other.json()["error"]["code"] == "idempotency_key_reused"
    listed = (await running.client.get("/v1/runs")).json()["data"]
    assert [run["id"] for run in listed] == [first.json()["id"]]
    await ended(running.client, first.json()["id"])


async def test_a_stopped_run_keeps_its_answers_and_is_resumed(running: Served) -> None:
    run = (await post(running.client, slow_request())).json()["id"]
    await begun(running.client, run, replies=4)
    stopping = await running.client.delete(f"/v1/runs/{run}")
    assert stopping.status_code == 202
    assert stopping.json()["stopping"] or stopping.json()["state"] == "stopped"
    stopped = await ended(running.client, run)
    assert (stopped["state"], stopped["scores"]) == ("stopped", None)
    again = await running.client.delete(f"/v1/runs/{run}")
    assert (again.status_code, again.json()["state"]) == (200, "stopped")
    answered = stopped["progress"]["replies"]
    assert 4 <= answered < ROWS * CALLS
    assert (await running.client.get(f"/v1/runs/{run}/scores")).status_code == 409
    resumed = await post(running.client, slow_request())
    assert (resumed.status_code, resumed.json()["id"]) == (202, run)
    done = await ended(running.client, run)
    assert done["state"] == "done"
    assert done["progress"]["cached"] >= answered
    assert done["progress"]["replies"] == ROWS * CALLS


async def test_a_run_that_lost_calls_asks_them_again(serve: Serve, tmp_path: Path) -> None:
    options = {"rate": 0.3, "kinds": ["server"], "seed": 5}
    failing = {"provider": "fake", "model": "echo", "attempts": 1, "options": options}
    served = await serve(data=drawn(tmp_path), models={"failing": failing})
    body = request(models={"candidate": "failing", "judge": "judge"})
    run = (await post(served.client, body)).json()["id"]
    lossy = await ended(served.client, run)
    assert lossy["state"] == "done"
    assert lossy["lost"] == lossy["progress"]["failed"] + lossy["progress"]["skipped"] > 0
    for _ in range(12):
        assert (await post(served.client, body)).status_code in (200, 202)
        again = await ended(served.client, run)
        if not again["lost"]:
            break
    assert again["lost"] == 0
    assert (await post(served.client, body)).status_code == 200


async def test_lists_are_filtered_and_have_pages(running: Served) -> None:
    runs = [(await post(running.client, request(limit=1, seed=seed))).json() for seed in range(3)]
    names = [run["id"] for run in reversed(runs)]
    for name in names:
        await ended(running.client, name)
    first = (await running.client.get("/v1/runs", params={"limit": 2})).json()
    assert ([run["id"] for run in first["data"]], first["next"]) == (names[:2], names[1])
    rest = (await running.client.get("/v1/runs", params={"after": first["next"]})).json()
    assert ([run["id"] for run in rest["data"]], rest["next"]) == (names[2:], None)
    for chosen, count in (
        ({"state": "done", "model": "echo", "benchmark": "convbench"}, 3),
        ({"state": "queued"}, 0),
        ({"model": "slow"}, 0),
    ):
        found = (await running.client.get("/v1/runs", params=chosen)).json()
        assert len(found["data"]) == count
    answer = await running.client.get("/v1/runs", params={"after": "gone"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "after")


@pytest.mark.parametrize(
    ("body", "status", "param", "words"),
    [
        (request(data="/etc/passwd"), 404, "data", "no dataset"),
        (request(data="other"), 404, "data", "shapes"),
        (request(models={"candidate": "gpt-x"}), 404, "models.candidate", "no model"),
        (request(models={"candidate": "fake/echo"}), 404, "models.candidate", "no model"),
        (request(models={"judge": "judge"}), 400, "models", "candidate"),
        (request(options={"data": "/etc/passwd"}), 400, "options.data", "cannot be set here"),
        (request(options={"annotations": "x"}), 400, "options.annotations", "cannot be set"),
        (request(options={"no_such": 1}), 400, "options.no_such", "cannot be set here"),
        (request(options={"grading": ["odd"]}), 400, "options.grading[0]", "pairwise"),
        (request(options={"max_tokens": 10**6}), 400, "options.max_tokens", "at most"),
        (request(sampling={"judge": {"max_tokens": 10**6}}), 400, "sampling.judge.max_tokens", ""),
        (
            request(sampling={"judge": {"temperature": 2.5}}),
            400,
            "sampling.judge.temperature",
            "at most 2",
        ),
        (request(sampling={"nobody": {}}), 400, "sampling", "which has no model"),
        (request(conditions=["free", "odd"]), 400, "conditions[1]", "odd"),
        (request(options={"order": "authors"}), 400, "options.order", "positions"),
        (request(options={"grading": []}), 400, "options.grading", "name direct"),
        (request(options={"failure_rating": 11}), 400, "options.failure_rating", "less"),
        (request(models={"candidate": "echo"}), 400, "models.judge", "options.generate_only"),
        (request(trials=0), 400, "trials", ""),
        (request(shuffle=1), 400, "shuffle", "set limit too"),
        (request(limit=1, samples=["1"]), 400, "samples", "leave out limit"),
        (request(samples=[]), 400, "samples", ""),
        (request(prompts="/etc"), 400, "prompts", "no such field"),
        (request(benchmark="convbench"), 400, "benchmark", "no such field"),
    ],
)
async def test_what_cannot_be_run_is_refused(
    running: Served, body: dict[str, Any], status: int, param: str | None, words: str
) -> None:
    answer = await post(running.client, body)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["param"] == param
    assert words in error["message"]
    assert (await running.client.get("/v1/runs")).json()["data"] == []


@pytest.mark.parametrize(
    "path",
    ["/v1/runs/none", "/v1/runs/none/scores", "/v1/runs/none/events", "/v1/runs/none/report"],
)
async def test_unknown_runs_are_not_found(running: Served, path: str) -> None:
    answer = await running.client.get(path)
    assert answer.status_code == 404
    assert answer.json()["error"]["type"] == "not_found_error"


async def test_missing_data_refuse_a_run_and_show_no_path(running: Served, tmp_path: Path) -> None:
    (tmp_path / "data" / "data.jsonl").unlink()
    answer = await post(running.client, request())
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (409, "data_unusable", "data")
    assert "its owner can fix that: data.jsonl: 1 problem" in error["message"]
    assert str(tmp_path) not in answer.text


async def test_missing_pictures_are_named_without_folder(running: Served, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "images"
    picture = sorted(folder.iterdir())[0]
    picture.unlink()
    answer = await post(running.client, request())
    # the client may leave out what has no picture
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "options.skip_bad_records")
    assert f"image {picture.name} is not in images" in error["message"]
    assert str(tmp_path) not in answer.text


async def test_tokens_bound_who_starts_stops_and_how_many(serve: Serve, tmp_path: Path) -> None:
    tokens = [
        token("ann", "read", "run", concurrent_runs=1),
        token("bob", "read"),
        token("root", "admin"),
    ]
    served = await serve(data=drawn(tmp_path), models={"slow": SLOW}, tokens=tokens)
    body = request(models={"candidate": "slow", "judge": "slow"})
    assert (await post(served.client, body)).status_code == 401
    assert (await post(served.client, body, **bearer("bob"))).status_code == 403
    run = (await post(served.client, body, **bearer("ann"))).json()["id"]
    second = await post(served.client, body | {"limit": 1}, **bearer("ann"))
    assert second.status_code == 429
    assert int(second.headers["retry-after"]) > 0
    assert (await post(served.client, body | {"limit": 1}, **bearer("root"))).status_code == 202
    seen = await served.client.get(f"/v1/runs/{run}", headers=bearer("bob"))
    assert (seen.status_code, seen.json()["owner"]) == (200, "ann")
    assert (await served.client.delete(f"/v1/runs/{run}", headers=bearer("bob"))).status_code == 403
    stopped = await served.client.delete(f"/v1/runs/{run}", headers=bearer("root"))
    assert stopped.status_code == 202


async def test_a_stopped_run_is_resumed_by_owner_or_admin(serve: Serve, tmp_path: Path) -> None:
    tokens = [token("ann", "run"), token("bob", "run"), token("root", "admin")]
    served = await serve(data=drawn(tmp_path), models={"slow": SLOW}, tokens=tokens)
    body = request(models={"candidate": "slow", "judge": "slow"})
    run = (await post(served.client, body, **bearer("ann"))).json()["id"]
    assert (await post(served.client, body, **bearer("bob"))).status_code == 200
    for owner in ("ann", "root"):
        await served.client.delete(f"/v1/runs/{run}", headers=bearer("ann"))
        refused = await post(served.client, body, **bearer("bob"))
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "not_yours")
        assert "ann or an admin may resume it" in refused.json()["error"]["message"]
        assert (await post(served.client, body, **bearer(owner))).status_code == 202


async def test_events_end_in_an_outage(running: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    run = (await post(running.client, slow_request())).json()["id"]
    get = Queue.get
    asked = 0

    async def fail_later(queue: Queue, job: str) -> Job | None:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise StoreError("away")
        return await get(queue, job)

    monkeypatch.setattr(Queue, "get", fail_later)
    stream = await running.client.get(f"/v1/runs/{run}/events")
    assert stream.status_code == 200
    assert stream.text.count("event: ") == 1


async def test_events_tell_progress_until_the_end(running: Served) -> None:
    run = (await post(running.client, slow_request())).json()["id"]
    events: list[tuple[str, dict[str, Any]]] = []
    async with running.client.stream("GET", f"/v1/runs/{run}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        name = ""
        async for line in stream.aiter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                events.append((name, orjson.loads(line.removeprefix("data: "))))
    assert [name for name, _ in events[:-1]] == ["progress"] * (len(events) - 1)
    last_name, last = events[-1]
    assert (last_name, last["state"], last["progress"]["replies"]) == ("end", "done", ROWS * CALLS)
    counted = [info["progress"]["replies"] for _, info in events]
    assert counted == sorted(counted)
    assert len(events) > 2


FILES = {"data", "images", "annotations", "positions", "opponents", "references"}


def settings(**fields: Any) -> Settings:
    data = {"set": {"benchmark": "mtbench101", "options": {"data": "x.jsonl"}}}
    models = {"a": {"provider": "fake", "model": "echo"}}
    return Settings.model_validate({"models": models, "data": data} | fields)


def run_spec(configured: Settings, request: RunRequest) -> RunSpec:
    return resolve(configured, request, configured.data.get(request.data))


def asked(**fields: Any) -> RunRequest:
    return RunRequest.model_validate({"data": "set", "models": {"candidate": "a"}} | fields)


@pytest.mark.parametrize("benchmark", TITLES)
def test_options_that_name_files_are_the_operators(benchmark: str) -> None:
    allowed = open_options(benchmark)
    assert not allowed & FILES
    assert "max_tokens" in allowed
    # Scenes is drawn, and a program checks its replies
    assert ({"generate_only", "skip_bad_records"} <= allowed) == (benchmark != "scenes")


def test_a_benchmark_from_elsewhere_takes_no_options_from_clients() -> None:
    assert open_options("somebody.riddles:Riddles") == frozenset()


def test_what_the_operator_set_cannot_be_changed() -> None:
    options = {"data": "x.jsonl", "minimum": True}
    data = {"set": {"benchmark": "mtbench101", "options": options}}
    with pytest.raises(Problem, match="cannot be set here"):
        run_spec(settings(data=data), asked(options={"minimum": False}))
    assert run_spec(settings(data=data), asked()).options == options


def test_no_conditions_are_not_all_of_them() -> None:
    with pytest.raises(Problem, match="name at least 1, or leave it out"):
        run_spec(settings(), asked(conditions=[]))


def test_the_operators_prompts_are_those_that_judge(tmp_path: Path) -> None:
    (tmp_path / "prompts" / "convbench").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    data = {"set": {"benchmark": "dialogue", "options": {"data": "x.jsonl"}}}
    configured = settings(data=data, prompts=tmp_path / "prompts")
    assert run_spec(configured, asked()).prompts is None
    assert run_spec(configured, asked(options={"prompts": "../elsewhere"})).prompts is None
    by_convbench = asked(options={"prompts": "convbench"})
    assert run_spec(configured, by_convbench).prompts == tmp_path / "prompts" / "convbench"


def test_models_may_go_by_their_former_name() -> None:
    models = {"candidate": "mock"}
    request = RunRequest.model_validate({"data": "shapes", "seats": models})
    assert request == RunRequest(data="shapes", models=models)


def test_a_model_is_called_by_its_public_name() -> None:
    secret = {"provider": "hf", "model": "/srv/checkpoints/internal-7b"}
    spec = run_spec(settings(models={"a": secret}), asked())
    assert spec.models["candidate"].label == "a"


def test_an_id_stands_for_all_that_a_run_depends_on(tmp_path: Path) -> None:
    def named(configured: Settings, request: RunRequest) -> str:
        return name_run(request, run_spec(configured, request))

    (tmp_path / "mtbench101").mkdir()
    first = named(settings(), asked())
    assert first == named(settings(), asked(trials=1, options={}))
    assert first.startswith("set-a-")
    others = {
        named(settings(), asked(seed=1)),
        named(settings(), asked(options={"minimum": False})),
        named(settings(prompts=tmp_path), asked()),
        named(settings(models={"a": {"provider": "fake", "model": "judge"}}), asked()),
    }
    assert len({first, *others}) == 5
    patient = {"provider": "fake", "model": "echo", "attempts": 99, "max_concurrency": 1}
    assert first == named(settings(models={"a": patient}), asked())


def test_a_judge_who_is_asked_nothing_is_no_part_of_a_run() -> None:
    alone = run_spec(settings(), asked(options={"generate_only": True}))
    roles = {"candidate": "a", "judge": "a"}
    sampling = {"judge": {"max_tokens": 9}}
    judged = asked(models=roles, sampling=sampling, options={"generate_only": True})
    assert run_spec(settings(), judged) == alone


def test_a_role_that_the_benchmark_has_not_is_named() -> None:
    roles = {"candidate": "a", "foo": "a"}
    with pytest.raises(Problem, match="mtbench101 has no role 'foo'; there are: candidate, judge"):
        run_spec(settings(), asked(models=roles))
    data = {"set": {"benchmark": "botchat", "options": {"data": "x.jsonl"}}}
    assert set(run_spec(settings(data=data), asked(models=roles)).models) == {"candidate", "foo"}
