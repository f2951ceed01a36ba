"""Hostile datasets against a real server: refused with 4xx, while ordinary requests go on."""

import io
import json
import socket
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import httpx2
import pyarrow
import pytest
from pyarrow import parquet

from images import Limits
from mmconv.core.errors import InputError
from mmconv.service.dataset_check import UPLOAD, Order, unpack
from mmconv.service.datasets import ABOUT
from tests.images.pictures import png
from tests.mmconv.service.conftest import ServerProcess, Servers
from tests.mmconv.service.hostile import Bystander, check_refusal, connect, open_client, read_answer
from tests.mmconv.service.test_datasets import LINE, SHOWN, pack, workbook

ROOM = 50_000_000
SIZES = {"dataset_bytes": ROOM, "body_bytes": 20_000_000}

ZEROS = bytes(2 * ROOM)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    servers = Servers(folder)
    yield servers(sizes=SIZES)
    servers.end()


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[httpx2.Client]:
    with open_client(server) as opened:
        opened.timeout = httpx2.Timeout(300)
        yield opened


def liar() -> bytes:
    """An archive whose directory says that its file has ten bytes."""
    packed = pack({"data.jsonl": ZEROS})
    size = len(ZEROS).to_bytes(4, "little")
    assert packed.count(size) == 2
    return packed.replace(size, (10).to_bytes(4, "little"))


def encrypted() -> bytes:
    """An archive whose directory says that its file is encrypted."""
    packed = bytearray(pack({"data.jsonl": LINE}))
    packed[packed.index(b"PK\x01\x02") + 8] |= 1
    packed[6] |= 1
    return bytes(packed)


def damaged(method: int, offset: int) -> bytes:
    """An archive whose file does not decompress from this byte on."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        archive.writestr("data.jsonl", LINE * 100)
    data = bytearray(packed.getvalue())
    begin = 30 + len("data.jsonl") + offset
    data[begin : begin + 20] = b"\xff" * 20
    return bytes(data)


def twice() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        for _ in range(2):
            archive.writestr("data.jsonl", LINE)
    return packed.getvalue()


def book_with(part: str, data: bytes) -> bytes:
    """A workbook with other content in one of its files."""
    book = io.BytesIO(workbook(("id", "turns"), ("1", "x")))
    with zipfile.ZipFile(book) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    return pack({**files, part: data})


def laughs() -> bytes:
    """A sheet whose one text is ten billion times "lol"."""
    entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10 if n else "lol"}">' for n in range(11))
    return f"<!DOCTYPE sst [{entities}]><sst><si><t>&l10;</t></si></sst>".encode()


def many_rows() -> bytes:
    """A Parquet file of 10^6 long rows in some kilobytes."""
    saved = io.BytesIO()
    indices = pyarrow.array([0] * 1_000_000, pyarrow.int32())
    column = pyarrow.DictionaryArray.from_arrays(indices, ["x" * 1000])
    parquet.write_table(pyarrow.table({"id": column}), saved)
    return saved.getvalue()


def with_image(data: bytes) -> bytes:
    return pack({"data.jsonl": json.dumps(SHOWN).encode(), "images/a.png": data})


HOSTILE: Mapping[str, tuple[Callable[[], bytes], tuple[int, ...]]] = {
    "a bomb beside the data": (lambda: pack({"data.jsonl": LINE, ".x": ZEROS}), (413,)),
    "a bomb whose directory lies": (liar, (400,)),
    "a billion laughs": (lambda: book_with("xl/sharedStrings.xml", laughs()), (400, 413)),
    "a Parquet file of a million long rows": (many_rows, (400, 413)),
    "a damaged file of bzip2": (lambda: damaged(zipfile.ZIP_BZIP2, 10), (400,)),
    "a million records": (lambda: b'{"id":1}\n' * 1_000_000, (413,)),
    "more than may be sent": (lambda: ZEROS, (413,)),
    "JSON of many levels": (lambda: b'{"id":' + b"[" * 1_000_000, (400,)),
    "an image of 100 megapixels": (
        lambda: with_image(png(10_000, 10_000, bytes(10_001 * 10_000))),
        (400,),
    ),
    "a drawing with a script": (lambda: with_image(b"<svg><script/></svg>"), (400,)),
}

ARCHIVES: Mapping[str, tuple[Callable[[], bytes], str]] = {
    "a bomb in a workbook": (
        lambda: book_with("xl/sharedStrings.xml", ZEROS),
        "unpacks to more than 50,000,000 bytes",
    ),
    "a damaged file": (lambda: damaged(zipfile.ZIP_DEFLATED, 0), "pack it again"),
    "a damaged file of LZMA": (lambda: damaged(zipfile.ZIP_LZMA, 9), "pack it again"),
    "a name that goes up": (lambda: pack({"data.jsonl": LINE, "../x": b"x"}), "not inside"),
    "a name in between that goes up": (
        lambda: pack({"data.jsonl": LINE, "images/../../../x": b"x"}),
        "not inside",
    ),
    "an absolute name": (lambda: pack({"data.jsonl": LINE, "/tmp/x": b"x"}), "not inside"),
    "a name of another system": (lambda: pack({"data.jsonl": LINE, "..\\x": b"x"}), "not inside"),
    "a file twice": (twice, "data.jsonl is in the archive twice"),
    "two files for one option": (
        lambda: pack({"data.jsonl": LINE, "data.csv": b""}),
        "data.csv is not one of the files data, images of dialogue",
    ),
    "an encrypted file": (encrypted, "cannot be read"),
    "an archive that is cut off": (lambda: pack({"data.jsonl": LINE * 100})[:-50], "pack it again"),
    "our own file": (lambda: pack({"data.jsonl": LINE, ABOUT: b"{}"}), "about.json is not one"),
    "a text": (lambda: b"root:x:0:0:root:/root:/bin/bash\n", "of another kind"),
    "nothing": (lambda: b"", "of another kind"),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_hostile_archives_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    make, part = ARCHIVES[name]
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    (inside / UPLOAD).write_bytes(make())
    order = Order(
        folder=inside,
        benchmark="dialogue",
        generate_only=True,
        most_bytes=ROOM,
        text_bytes=ROOM,
        records=1,
        images=Limits(),
    )
    with pytest.raises(InputError, match=part):
        unpack(order)
    files = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    assert files in ([UPLOAD], ["data.jsonl", UPLOAD])


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_dataset_is_refused_and_leaves_nothing(
    server: ServerProcess, client: httpx2.Client, folder: Path, name: str
) -> None:
    make, statuses = HOSTILE[name]
    data = make()  # before the bystander, who would wait for it
    with Bystander(server, 500_000_000):
        answer = client.post("data", params={"benchmark": "dialogue"}, content=data)
    check_refusal(answer.status_code, answer.content, *statuses)
    assert not any((folder / "out").rglob("datasets/*"))


def test_nothing_that_is_unpacked_is_imported(client: httpx2.Client, folder: Path) -> None:
    code = f"open({str(folder / 'x')!r}, 'w')".encode()
    packed = pack({"data.jsonl": LINE, "images/__init__.py": code, "images/decode.py": code})
    answer = client.post("data", params={"benchmark": "dialogue"}, content=packed)
    assert answer.status_code == 201
    assert not (folder / "x").exists()
    assert client.delete(f"data/{answer.json()['name']}").status_code == 204


def test_a_slow_upload_is_cut_off(tmp_path: Path) -> None:
    servers = Servers(tmp_path)
    try:
        slow = servers(sizes={"body_seconds": 0.5, "body_bytes": 1000})
        with connect(slow) as connection:
            head = "POST /v1/data?benchmark=dialogue HTTP/1.1\r\nHost: localhost\r\n"
            connection.sendall(f"{head}Content-Length: 100000\r\n\r\n".encode())
            with suppress(socket.timeout):
                connection.sendall(LINE)
            answer = read_answer(connection)
        check_refusal(answer.status, answer.body, 408)
        assert not [*(tmp_path / "out" / "datasets").iterdir()]
    finally:
        servers.end()
