"""The client for scripts against a real server: everything that it offers, and its errors."""

import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import httpx2
import orjson
import pytest

import mmconv.client
from mmconv.client import (
    AsyncClient,
    AsyncDialogue,
    AsyncRun,
    Client,
    Dialogue,
    Progress,
    QueuedDialogue,
    Run,
    RunInfo,
    ServiceError,
    StoredImage,
)
from tests.drawn_data import write_scenes
from tests.images.pictures import encode, halves
from tests.mmconv.service.conftest import Servers
from tests.mmconv.service.dialogue_samples import TURNS
from tests.mmconv.service.judged import KITES, REPLIES
from tests.mmconv.service.tokens import token

PNG = encode(halves(), "png")
SLOW = {"provider": "fake", "model": "slow", "options": {"seconds": 1}}

LONG = [str(number) for number in range(21)]
"""The turns of a dialogue that becomes a job."""

POSTED = dict.fromkeys(RunInfo.__dataclass_fields__) | {
    "id": "run",
    "owner": "local",
    "state": "done",
    "stopping": False,
    "request": {},
    "progress": dict.fromkeys(Progress.__dataclass_fields__, 0),
    "lost": 0,
    "note": "",
    "tags": [],
    **dict.fromkeys(("created", "queued", "updated"), "2026-01-01T00:00:00Z"),
}
"""A run as a server tells of it."""


OWNERS = [f"owner-{number}" for number in range(20)]
"""A token for each test: what it uploads and asks is not listed to others."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("client")
    data, images = write_scenes(folder / "data", 3)
    options = {"data": str(data), "images": str(images), "grading": ["direct"]}
    servers = Servers(folder)
    yield servers(
        models={"slow": SLOW},
        data={"drawn": {"benchmark": "convbench", "options": options}},
        synchronous_calls=20,
        tokens=[token(name, "read", "chat", "run") for name in OWNERS],
    ).url
    servers.end()


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url, token=f"secret-{OWNERS.pop()}") as made:
        yield made


@contextmanager
def mocked(
    *answers: httpx2.Response,
    handler: Callable[[httpx2.Request], httpx2.Response] | None = None,
    patience: float = 60.0,
) -> Iterator[Client]:
    """A client of a server that answers this, one after the other."""
    coming = iter(answers)
    transport = httpx2.MockTransport(handler or (lambda _: next(coming)))
    with Client("http://server", transport=transport, patience=patience) as client:
        yield client


def test_models_images_and_chat(client: Client, tmp_path: Path) -> None:
    assert client.models() == ("echo", "judge", "slow")
    file = tmp_path / "halves.png"
    file.write_bytes(PNG)
    kept = client.upload(file)
    assert (kept.width, kept.height, kept.bytes) == (32, 16, len(PNG))
    assert client.upload(PNG) == kept
    assert client.upload(str(file)) == kept
    assert client.image(kept.id) == PNG
    reply = client.chat("echo", "What is it?", images=[kept, PNG], max_tokens=5)
    assert (reply.text, reply.finish) == ("What is it?", "stop")
    assert client.chat("echo", [{"role": "user", "content": "Hi"}]).text == "Hi"


def test_a_dataset_is_sent_run_and_removed(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_bytes(orjson.dumps({"id": "kite", "turns": [{"instruction": "What is it?"}]}))
    sent = client.send_data(file, "dialogue", title="kites")
    assert (sent.title, sent.samples, sent.bytes) == ("kites", 1, file.stat().st_size)
    assert sent in client.data()
    run = client.start(sent.name, {"candidate": "echo"}, options={"generate_only": True})
    assert run.wait().state == "done"
    assert [sample.sample for sample in run.samples()] == ["kite"]
    client.remove_data(sent.name)
    with pytest.raises(ServiceError, match="no dataset"):
        client.remove_data(sent.name)
    with pytest.raises(ServiceError, match=r"line 1 \(id 1\): turns is missing"):
        client.send_data(b'{"id": 1}', "dialogue")


def test_many_dialogues_are_one_run(client: Client) -> None:
    turns = [{"instruction": "What is red?", "reference": "Half.", "images": [PNG]}, "Why?"]
    dialogues = [{"id": name, "turns": turns, "caption": "Red"} for name in ("a", "b", "c")]
    fields: dict[str, Any] = {"judge": "judge", "conditions": ["free", "perception"]}
    result = client.batch("echo", dialogues, **fields)
    assert result.run.state == "done"
    assert result.scores is not None
    assert result.deltas is not None
    assert result.scores.rows["S2_hat"]["direct (1-10)"].n == 3
    assert "S2_hat - S2" in result.deltas.rows
    assert {sample.sample for sample in client.run(result.run.id).samples()} == {"a", "b", "c"}


def test_images_are_listed_and_removed(client: Client) -> None:
    kept = client.upload(PNG)
    [own] = client.images()
    assert (own.id, own.bytes, own.name) == (kept.id, len(PNG), kept.name)
    assert client.dialogue("echo", ["What is it?"], images=[own]).usage.requested == 1
    client.remove_image(own.id)
    assert list(client.images()) == []
    with pytest.raises(ServiceError) as caught:
        client.remove_image(own.id)
    assert (caught.value.status, caught.value.code) == (404, "image_not_found")


def test_a_text_is_one_turn_and_a_picture_one_image(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "halves.png"
    file.write_bytes(PNG)
    kept = client.upload(PNG)
    for image in (file, str(file), PNG, kept, kept.name):
        [turn] = client.dialogue("echo", "What is it?", images=image).conditions[0].turns
        assert (turn.text, [each.sha256 for each in turn.seen]) == ("What is it?", [kept.id])
    assert client.chat("echo", "What is it?", images=kept.name).text == "What is it?"


def test_dialogues_at_once_and_as_a_job(client: Client) -> None:
    small = client.dialogue("echo", ["What is it?", "Why?"], images=[PNG])
    assert [turn.text for turn in small.conditions[0].turns] == ["What is it?", "Why?"]
    fields: dict[str, Any] = {
        "images": [PNG],
        "judge": "judge",
        "caption": "Red beside blue.",
        "conditions": ["free", "perception", "reasoning"],
    }
    at_once = client.dialogue("echo", TURNS, gradings=["direct"], **fields)
    queued = client.dialogue("echo", TURNS, gradings=["direct", "pairwise"], **fields)
    [job] = client.dialogues(state="done")
    assert job.info.model == "echo"
    assert job.info.owner.startswith("owner-")
    assert client.dialogue_by_id(job.id).wait() == queued
    assert len(at_once.deltas) == 7
    assert len(queued.deltas) == 14
    assert [each for each in queued.deltas if each.grading == "direct"] == list(at_once.deltas)


def test_judgements(client: Client) -> None:
    sample = {**KITES, "image": PNG}
    options = {"grading": ["direct"], "judge_sees_image": True}
    found = client.judge("judge", "convbench", sample, REPLIES, options=options)
    assert [judged.state for judged in found.judgements] == ["parsed"] * 4
    for score in found.scores:
        assert (score.metric, score.reason) == ("rating", None)
        assert score.value is not None
        assert 1 <= score.value <= 10
    said = {"turns": [{"instruction": "Hi", "images": [PNG, client.upload(PNG)]}], "caption": "Red"}
    [rated] = client.judge("judge", "dialogue", said, "Hello").scores
    assert (rated.metric, rated.turn) == ("rating", 1)


def test_a_run_from_start_to_report(client: Client, tmp_path: Path) -> None:
    roles = {"candidate": "echo", "judge": "judge"}
    run = client.start("drawn", roles)
    assert client.start("drawn", roles).id == run.id
    info = run.wait()
    assert (info.state, info.lost, info.progress.conversations) == ("done", 0, 9)
    ratings = list(run.scores(metric="rating"))
    assert len(ratings) == info.progress.conversations * 3
    assert all(score.value is not None and score.tags["cluster"] for score in ratings)
    tables = {table.name: table for table in run.tables()}
    assert run.tables_as("md").count("**") >= 2 * len(tables)
    samples = list(run.samples())
    assert [each.sample for each in samples] == ["1", "2", "3"]
    transcript = run.sample("1")
    assert {call["model"] for call in transcript.calls} == {"candidate", "judge"}
    run.transcripts(tmp_path / "calls.jsonl")
    calls = [orjson.loads(line) for line in (tmp_path / "calls.jsonl").read_bytes().splitlines()]
    assert len(calls) == sum(each.calls for each in samples)
    run.transcripts(tmp_path / "calls.parquet")
    assert (tmp_path / "calls.parquet").read_bytes().startswith(b"PAR1")
    assert run.manifest()["samples"] == 3
    run.report(tmp_path / "report.html")
    assert "</html>" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert run.id in [each.id for each in client.runs(state="done")]
    assert client.run(run.id).info.state == "done"
    assert run.annotate(note="First.", tags=["paper"]).tags == ("paper",)
    assert client.run(run.id).info.note == "First."
    run.report(tmp_path / "report.zip")
    assert zipfile.is_zipfile(tmp_path / "report.zip")
    run.remove()
    assert run.id not in [each.id for each in client.runs()]
    with pytest.raises(ServiceError, match="status 404"):
        run.refresh()


def test_both_clients_have_the_same_methods() -> None:
    kinds = ((Client, AsyncClient), (Run, AsyncRun), (Dialogue, AsyncDialogue))
    for one, other in kinds:
        names = {name for name in dir(one) if not name.startswith("_")} - {"close"}
        others = {name for name in dir(other) if not name.startswith("_")}
        assert names == others - {"aclose", "path", "transport"}
        assert all(getattr(one, name).__doc__ for name in names)


def test_a_run_whose_waiting_ends_is_named() -> None:
    with mocked(httpx2.Response(200, json=POSTED), httpx2.Response(502)) as client:
        run = client.run("run")
        with pytest.raises(ServiceError, match="Bad Gateway") as caught:
            run.wait()
    assert [note for note in caught.value.__notes__ if "Client.run('run')" in note]


def test_two_runs_are_compared(client: Client) -> None:
    one = client.start("drawn", {"candidate": "echo", "judge": "judge"})
    two = client.start("drawn", {"candidate": "judge", "judge": "judge"})
    for run in (one, two):
        run.wait()
    found = client.compare(one.id, two.id)
    assert found.runs[found.baseline] == one.id
    assert set(found.runs.values()) == {one.id, two.id}
    assert any(table.signed for table in found.tables)
    board = client.leaderboard(one.id, two.id)
    assert board.runs.keys() == found.runs.keys()
    assert board.tables[0].rows.keys() == board.runs.keys()
    ratings = [{"sample": str(sample), "turn": 1, "value": 7} for sample in (1, 2, 3)]
    measured = one.agreement(ratings, metric="rating", condition="free")
    assert measured.tables[0].rows["agreement"]["judge and person"].n == 3


def test_a_refusal_names_the_field(client: Client) -> None:
    with pytest.raises(ServiceError, match="status 404") as caught:
        client.chat("nobody", "Hi")
    assert (caught.value.status, caught.value.param) == (404, "model")
    assert caught.value.request_id
    with pytest.raises(ServiceError) as caught:
        client.dialogue("echo", ["Hi"], conditions=[1])
    assert (caught.value.status, caught.value.param) == (400, "turns")
    with pytest.raises(ValueError, match="images need a text"):
        client.chat("echo", [{"role": "user", "content": "Hi"}], images=[PNG])


def test_an_id_is_one_part_of_an_address() -> None:
    seen: list[bytes] = []

    def refuse(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.url.raw_path)
        return httpx2.Response(404, json={"error": {"message": "no such"}})

    with mocked(handler=refuse) as client:
        for ask in (client.image, client.remove_image, client.dialogue_by_id, client.run):
            with pytest.raises(ServiceError, match="no such"):
                ask("../a?b")
    kinds = ("images", "images", "dialogues", "runs")
    assert seen == [f"/v1/{kind}/..%2Fa%3Fb".encode() for kind in kinds]


@pytest.mark.parametrize("info", ["0.01", "-1", "nan"])
def test_a_busy_server_is_asked_again(info: str) -> None:
    busy = [httpx2.Response(status, headers={"Retry-After": info}) for status in (503, 429)]
    with mocked(*busy, httpx2.Response(200, json={"data": [{"id": "echo"}]})) as client:
        assert client.models() == ("echo",)


def test_only_what_reads_is_sent_again_where_a_connection_breaks() -> None:
    seen: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.method)
        if len(seen) in (1, 2, 4):
            raise httpx2.ReadError("broken off")
        return httpx2.Response(200, json={"data": [{"id": "echo"}]})

    with mocked(handler=answer) as client:
        assert client.models() == ("echo",)
        with pytest.raises(ServiceError, match="broken off"):
            client.chat("echo", "Hi")
    assert seen == ["GET", "GET", "GET", "POST"]


def test_a_model_without_its_key_is_none_to_ask() -> None:
    cards = [{"id": "echo", "usable": True}, {"id": "gpt", "usable": False}]
    with mocked(httpx2.Response(200, json={"data": cards})) as client:
        assert client.models() == ("echo",)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (httpx2.Response(200, html="<html>"), r"/v1/models: the response is not JSON \(text/html"),
        (httpx2.Response(502, text="<html>"), "Bad Gateway"),
        (httpx2.Response(429, json={"error": {"message": "too many", "code": "full"}}), "too many"),
    ],
    ids=["no JSON", "a proxy's page", "busy for longer than patience"],
)
def test_an_answer_that_is_none_is_an_error(answer: httpx2.Response, words: str) -> None:
    with (
        mocked(handler=lambda _: answer, patience=0.3) as client,
        pytest.raises(ServiceError, match=words) as caught,
    ):
        client.models()
    assert caught.value.code == ("full" if words == "too many" else None)


def test_no_server_is_told() -> None:
    with (
        Client("http://127.0.0.1:9", patience=0.0) as client,
        pytest.raises(ServiceError, match="is it served there"),
    ):
        client.models()


def test_the_token_is_sent() -> None:
    seen: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.headers["authorization"])
        return httpx2.Response(200, json={"data": []})

    with Client("http://server", token="secret", transport=httpx2.MockTransport(answer)) as client:
        client.models()
    assert seen == ["Bearer secret"]


def test_a_kept_image_is_not_uploaded_again() -> None:
    seen: list[bytes] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.content)
        assert request.url.path == "/v1/chat/completions"
        choice = {"message": {"content": "Hi"}, "finish_reason": "stop"}
        return httpx2.Response(200, json={"choices": [choice], "usage": None})

    kept = StoredImage(id="ab" * 32, media_type="image/png", width=1, height=1, bytes=1)
    with mocked(handler=answer) as client:
        assert client.chat("echo", "Hi", images=[kept]).input_tokens is None
    assert kept.name.encode() in seen[0]


@pytest.mark.parametrize("kind", [Client, Dialogue, Run])
def test_all_that_is_handed_out_is_offered_by_name(kind: type) -> None:
    methods = [each for each in vars(kind).values() if callable(each)]
    returned: list[Any] = [get_type_hints(method).get("return") for method in methods]
    parts = {part for each in returned for part in (each, *get_args(each))}
    own = [each for each in parts if isinstance(each, type) and each.__module__[:7] == "mmconv."]
    assert own
    for part in own:
        assert getattr(mmconv.client, part.__name__) is part
        assert part.__name__ in mmconv.client.__all__


def test_a_script_that_imports_it_loads_no_server_and_no_model_library() -> None:
    heavy = ("fastapi", "numpy", "rich", "sqlalchemy", "torch")
    code = f"import sys, mmconv.client; sys.exit(str([m for m in {heavy} if m in sys.modules]))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stderr.strip() == "[]"


def test_an_older_result_of_a_dialogue_that_failed_is_not_taken_for_the_new_one(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = AsyncDialogue._end

    async def fail(job: AsyncDialogue, *, progress: bool) -> QueuedDialogue:
        return replace(await end(job, progress=progress), state="failed", error="away")

    monkeypatch.setattr(AsyncDialogue, "_end", fail)
    with pytest.raises(ServiceError, match="is failed: away"):
        client.dialogue("echo", LONG)


def test_a_dialogue_whose_waiting_ends_is_named_stopped_and_removed(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("mmconv.client.transport.time.sleep", interrupt)
        with pytest.raises(KeyboardInterrupt) as caught:
            client.dialogue("slow", LONG)
    [job] = client.dialogues()
    assert [note for note in caught.value.__notes__ if f"dialogue_by_id('{job.id}')" in note]
    found = client.dialogue_by_id(job.id)
    assert found.refresh().state in ("queued", "running")
    found.stop()
    with pytest.raises(ServiceError, match=f"{job.id} is stopped"):
        found.wait()
    found.remove()
    assert list(client.dialogues()) == []
    with pytest.raises(ServiceError, match="status 404"):
        found.refresh()
