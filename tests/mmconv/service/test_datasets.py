"""Datasets that clients send: checked, listed, run, private to their tokens, removed."""

import asyncio
import io
import json
import shutil
import zipfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import PIL.Image
import pyarrow
import pytest
from openpyxl import Workbook
from pyarrow import parquet

from mmconv.core.keys import hash_bytes
from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.run_settings import drawn, ended
from tests.mmconv.service.tokens import bearer, token
from tests.pictures import picture

PNG = picture(1)

TURNS = [{"instruction": "What is it?", "reference": "A kite."}, {"instruction": "Why?"}]
SAMPLE: dict[str, Any] = {"id": 1, "turns": TURNS}
LINE = json.dumps(SAMPLE).encode()

ALICE, BOB, ROOT = bearer("alice"), bearer("bob"), bearer("root")
TOKENS = [token("alice", "chat", "run"), token("bob", "run"), token("root", "admin")]


def pack(files: Mapping[str, bytes]) -> bytes:
    """A .zip archive of these files."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return packed.getvalue()


def workbook(*rows: tuple[Any, ...]) -> bytes:
    book = Workbook()
    for row in rows:
        assert book.active is not None
        book.active.append(row)
    saved = io.BytesIO()
    book.save(saved)
    return saved.getvalue()


def table(**columns: list[Any]) -> bytes:
    saved = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), saved)
    return saved.getvalue()


def packed_scenes(folder: Path) -> bytes:
    """Drawn ConvBench as an archive."""
    options = drawn(folder)["shapes"]["options"]
    data = Path(options["data"])
    images = Path(options["images"]).glob("*")
    files = {f"images/{path.name}": path.read_bytes() for path in images}
    return pack({f"data{data.suffix}": data.read_bytes(), **files})


async def send(
    client: httpx2.AsyncClient, data: bytes, who: Mapping[str, str] | None = None, **params: Any
) -> httpx2.Response:
    chosen = {"benchmark": "dialogue"} | params
    return await client.post("/v1/data", params=chosen, content=data, headers=who)


SHOWN = {"id": 1, "turns": [{"instruction": "What?", "images": ["a.png"]}]}

FILES: dict[str, bytes] = {
    "a .jsonl": LINE + b"\n" + LINE.replace(b"1", b"2"),
    "a .json": b"\xef\xbb\xbf [" + LINE + b"]",
    "a .parquet with images inside": table(
        id=["1"], turns=[[{"instruction": "What?", "images": [{"bytes": PNG, "path": "a.png"}]}]]
    ),
    "an archive": pack({"data.jsonl": json.dumps(SHOWN).encode(), "images/a.png": PNG}),
    "an archive with a folder around all": pack(
        {
            "mine/data.jsonl": json.dumps(SHOWN).encode(),
            "mine/images/a.png": PNG,
            "mine/.DS_Store": b"x",
            "__MACOSX/mine/._data.jsonl": b"x",
        }
    ),
}


@pytest.mark.parametrize("name", FILES)
async def test_a_dataset_of_each_format_is_run(served: Served, name: str) -> None:
    client = served.client
    sent = await send(client, FILES[name], title="kites")
    assert sent.status_code == 201, sent.text
    info = sent.json()
    assert (info["title"], info["owner"], info["benchmark"]["id"]) == ("kites", "local", "dialogue")
    assert info["samples"] == (2 if name == "a .jsonl" else 1)
    models = {"candidate": "echo", "judge": "judge"}
    body = {"data": info["name"], "models": models, "options": {"judge_sees_images": True}}
    posted = await client.post("/v1/runs", json=body)
    assert posted.status_code == 202, posted.text
    run = await ended(client, posted.json()["id"])
    assert (run["state"], run["lost"]) == ("done", 0), run
    samples = (await client.get(f"/v1/runs/{run['id']}/samples")).json()["data"]
    assert len(samples) == info["samples"]
    if PNG in FILES[name] or "archive" in name:
        shown = await client.get(f"/v1/runs/{run['id']}/images/{hash_bytes(PNG)}")
        assert shown.content == PNG


async def test_convbench_is_sent_as_an_archive_of_its_files(serve: Serve, tmp_path: Path) -> None:
    client = (await serve()).client
    packed = packed_scenes(tmp_path)
    info = (await send(client, packed, benchmark="convbench")).json()
    assert info["samples"] == 3
    models = {"candidate": "echo", "judge": "judge"}
    posted = await client.post("/v1/runs", json={"data": info["name"], "models": models})
    run = await ended(client, posted.json()["id"])
    report = await client.get(f"/v1/runs/{run['id']}/report")
    assert report.status_code == 200
    assert str(tmp_path) not in report.text
    assert "data:image/webp" in report.text
    manifest = await client.get(f"/v1/runs/{run['id']}/manifest")
    assert str(tmp_path) not in manifest.text


async def test_a_wrong_record_is_named_as_mmconv_check_does(served: Served) -> None:
    wrong = b'{"id": 1, "turns": []}\nnot json\n{"id": 3, "turns": [{"images": ["x.png"]}]}'
    wrong += b'\n{"id": 4, "turns": [{"instruction": "a"}]}'
    refused = await send(served.client, wrong)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (400, "invalid_data")
    for part in (
        "data.jsonl line 1 (id 1)",
        "line 2: not JSON",
        "turns[1].instruction is missing",
        "image 'x.png' is a file name; give the images folder as images in a .zip",
    ):
        assert part in error["message"]
    assert "skip_bad_records" not in error["message"]
    assert str(served.shared.settings.out) not in error["message"]
    assert (await served.client.get("/v1/data")).json()["data"] == []


async def test_data_without_references_are_for_answers_alone(served: Served) -> None:
    line = b'{"task": "AR", "history": [{"user": "Who?"}]}'
    refused = await send(served.client, line, benchmark="mtbench101")
    assert refused.status_code == 400
    assert (await send(served.client, LINE, generate_only=True)).status_code == 201


async def test_an_equal_file_is_the_same_dataset(served: Served) -> None:
    first, again = [(await send(served.client, LINE)).json() for _ in range(2)]
    assert first == again
    [listed] = (await served.client.get("/v1/data")).json()["data"]
    assert listed == first == (await served.client.get(f"/v1/data/{first['name']}")).json()
    other = await send(served.client, LINE, generate_only=True)
    assert other.json()["name"] != first["name"]


async def test_a_dataset_and_its_runs_are_its_tokens_alone(serve: Serve) -> None:
    client = (await serve(tokens=TOKENS)).client
    name = (await send(client, LINE, ALICE)).json()["name"]
    body = {"data": name, "models": {"candidate": "echo"}, "options": {"generate_only": True}}
    assert (await client.post("/v1/runs", json=body, headers=BOB)).status_code == 404
    run = (await client.post("/v1/runs", json=body, headers=ALICE)).json()["id"]
    client.headers.update(ALICE)
    await ended(client, run)
    for who, status, count in ((ALICE, 200, 1), (ROOT, 200, 1), (BOB, 404, 0)):
        for listed in ("/v1/data", "/v1/runs", "/web/runs"):
            assert len((await client.get(listed, headers=who)).json()["data"]) == count
        for path in (
            f"/v1/data/{name}",
            f"/v1/runs/{run}",
            f"/v1/runs/{run}/scores",
            f"/v1/runs/{run}/samples/1",
            f"/v1/runs/{run}/report",
        ):
            assert (await client.get(path, headers=who)).status_code == status, path
    names = {"run": run, "sample": "1", "image": hash_bytes(PNG), "block": "0.js"}
    for path, methods in (await client.get("/openapi.json")).json()["paths"].items():
        for method in methods if "{run}" in path else ():
            place = path.format_map(names)
            refused = await client.request(method, place, json={}, headers=BOB)
            assert refused.status_code == 404, (method, path)
    compared = await client.get(f"/v1/compare?runs={run},{run}x", headers=BOB)
    assert compared.status_code == 404
    assert (await client.delete(f"/v1/data/{name}", headers=BOB)).status_code == 404


async def test_images_of_a_dataset_are_its_tokens_alone(serve: Serve) -> None:
    client = (await serve(tokens=TOKENS)).client
    info = (await send(client, FILES["an archive"], ALICE)).json()
    body = {"data": info["name"], "models": {"candidate": "echo"}}
    body |= {"options": {"generate_only": True}}
    assert (await client.post("/v1/runs", json=body, headers=ALICE)).status_code == 202
    place = f"/v1/images/{hash_bytes(PNG)}"
    for who, status in ((ALICE, 200), (ROOT, 200), (BOB, 404)):
        assert (await client.get(place, headers=who)).status_code == status


async def test_a_removed_dataset_leaves_its_runs_without_images(served: Served) -> None:
    client = served.client
    name = (await send(client, FILES["an archive"])).json()["name"]
    body = {"data": name, "models": {"candidate": "slow"}, "options": {"generate_only": True}}
    run = (await client.post("/v1/runs", json=body)).json()["id"]
    early = await client.delete(f"/v1/data/{name}")
    assert (early.status_code, early.json()["error"]["code"]) == (409, "data_in_use")
    await ended(client, run)
    assert (await client.delete(f"/v1/data/{name}")).status_code == 204
    assert (await client.get(f"/v1/data/{name}")).status_code == 404
    assert (await client.delete(f"/v1/data/{name}")).status_code == 404
    assert (await client.post("/v1/runs", json=body)).status_code == 404
    assert (await client.get(f"/v1/runs/{run}/scores")).status_code == 200
    assert (await client.get(f"/v1/runs/{run}/images/{hash_bytes(PNG)}")).status_code == 409
    assert (await client.get(f"/v1/images/{hash_bytes(PNG)}")).status_code == 404
    assert [*(served.shared.settings.out / "datasets").iterdir()] == []
    # sent again it is the same, and so are its runs
    assert (await send(client, FILES["an archive"])).json()["name"] == name
    again = await client.post("/v1/runs", json=body)
    assert (again.status_code, again.json()["id"]) == (200, run)
    shown = await client.get(f"/v1/runs/{run}/images/{hash_bytes(PNG)}")
    assert shown.content == PNG


async def test_of_two_removals_at_once_one_finds_nothing(served: Served) -> None:
    name = (await send(served.client, LINE)).json()["name"]
    both = await asyncio.gather(*(served.client.delete(f"/v1/data/{name}") for _ in range(2)))
    assert sorted(answer.status_code for answer in both) == [204, 404]


async def test_bugs_of_the_check_are_ours(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mmconv.service.datasets.sys.executable", shutil.which("false"))
    assert (await send(served.client, LINE)).status_code == 500
    assert (await served.client.get("/v1/data")).json()["data"] == []


async def test_images_inside_a_table_are_bounded_as_unpacked(serve: Serve) -> None:
    client = (await serve(sizes={"dataset_bytes": 100_000})).client
    turns = []
    for number in range(20):
        image = io.BytesIO()
        PIL.Image.new("L", (100, 100), number).save(image, "png", compress_level=0)
        shown = [{"bytes": image.getvalue(), "path": f"{number}.png"}]
        turns.append([{"instruction": "What?", "images": shown}])
    packed = table(id=[str(number) for number in range(20)], turns=turns)
    assert len(packed) < 100_000
    refused = await send(client, packed)
    assert refused.status_code == 413
    assert "its images unpack to more than 100,000 bytes" in refused.text


async def test_datasets_and_images_share_a_tokens_room(serve: Serve) -> None:
    client = (await serve(limits={"stored_bytes": len(PNG) + 500})).client
    assert (await client.post("/v1/images", content=PNG)).status_code == 201
    assert (await send(client, LINE)).status_code == 201
    full = await send(client, LINE + b" " * 1000)
    assert (full.status_code, full.json()["error"]["code"]) == (429, "storage_full")
    # it is about what the files take up, not about what was sent
    packed = await send(client, pack({"data.jsonl": LINE + b" " * 1000}))
    assert (packed.status_code, packed.json()["error"]["code"]) == (413, "request_too_large")
    assert (await client.get("/v1/images")).json()["used"] == len(PNG) + len(LINE)
    assert (await client.post("/v1/images", content=picture(2))).status_code == 429


async def test_an_equal_dataset_needs_no_room(serve: Serve) -> None:
    client = (await serve(limits={"stored_bytes": len(LINE) + 1})).client
    first, again = [await send(client, LINE) for _ in range(2)]
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()


async def test_a_token_sends_one_dataset_at_a_time(served: Served) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield LINE
        begun.set()
        await go_on.wait()

    params = {"benchmark": "dialogue"}
    sending = asyncio.create_task(served.client.post("/v1/data", params=params, content=slowly()))
    await begun.wait()
    busy = await send(served.client, LINE)
    assert (busy.status_code, busy.json()["error"]["code"]) == (429, "busy")
    go_on.set()
    assert (await sending).status_code == 201


@pytest.mark.parametrize("name", ["tests.example_benchmark:Doubts", "os", "scenes", ""])
async def test_only_shipped_benchmarks_read_a_clients_data(served: Served, name: str) -> None:
    refused = await send(served.client, LINE, benchmark=name)
    assert refused.status_code == 400
    assert "there are botchat, " in refused.json()["error"]["message"]


async def test_a_form_is_refused_with_advice(served: Served) -> None:
    params = {"benchmark": "dialogue"}
    refused = await served.client.post("/v1/data", params=params, files={"file": LINE})
    assert refused.status_code == 415
    assert "--data-binary" in refused.text
