"""Hostile content against a real server: refused with 4xx, while ordinary requests go on."""

import base64
import gzip
import json
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx2
import pytest

from tests.images.pictures import encode, halves, noise, png, png_chunk, tiled_tiff, webp_header
from tests.mmconv.service.conftest import ServerProcess, Servers
from tests.mmconv.service.hostile import (
    ORDINARY,
    Bystander,
    check_refusal,
    exchange,
    open_client,
    show,
)
from tests.mmconv.service.judged import KITES, TURN

BOMB = zlib.compress(bytes(100_000_000), 9)
"""A hundred megabytes of nothing, in a hundred kilobytes."""

FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF")

JSON_PATHS = ("chat/completions", "responses", "dialogues", "judgements", "runs")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One for all tests, as its defaults are; it may fetch by URL."""
    servers = Servers(tmp_path_factory.mktemp("hostile"))
    yield servers(fetch_urls=True)
    servers.end()


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[httpx2.Client]:
    with open_client(server) as opened:
        yield opened


@pytest.fixture(autouse=True)
def bystander(server: ServerProcess) -> Iterator[Bystander]:
    """Ordinary requests during every test."""
    with Bystander(server) as watching:
        yield watching


def with_chunk(kind: bytes, body: bytes) -> bytes:
    """A small PNG with this chunk behind its header."""
    plain = encode(halves(), "PNG")
    return plain[:33] + png_chunk(kind, body) + plain[33:]


def huge_jpeg() -> bytes:
    """A JPEG that claims 65,500 pixels a side."""
    plain = encode(halves(), "JPEG")
    at = plain.index(b"\xff\xc0") + 5
    return plain[:at] + struct.pack(">HH", 65_500, 65_500) + plain[at + 4 :]


def gif(width: int, height: int, frames: int) -> bytes:
    """A GIF that claims this size, of frames of one pixel."""
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x4c\x01\x00"
    head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6)
    return head + frames * frame + b";"


def cut_off(kind: str) -> bytes:
    return encode(noise(), kind)[:-4000]


HOSTILE_IMAGES: Mapping[str, Callable[[], bytes]] = {
    "a PNG of 100 megapixels": lambda: png(10_000, 10_000, bytes(10_001 * 10_000)),
    "a JPEG that claims 4,290 megapixels": huge_jpeg,
    "a WebP that claims 268 megapixels": lambda: webp_header(16_384, 16_384),
    "a GIF that claims 4,294 megapixels": lambda: gif(65_535, 65_535, 1),
    "a GIF of many frames": lambda: gif(1, 1, 100_000),
    "a TIFF of one enormous tile": lambda: tiled_tiff(16, 30_000),
    "a BMP that claims 900 megapixels": lambda: (
        encode(halves(), "BMP")[:18] + struct.pack("<ii", 30_000, 30_000) + bytes(40)
    ),
    "a bomb in a comment": lambda: with_chunk(b"zTXt", b"a\0\0" + BOMB),
    "a bomb in an international comment": lambda: with_chunk(b"iTXt", b"a\0\1\0\0\0" + BOMB),
    "a bomb in a colour profile": lambda: with_chunk(b"iCCP", b"a\0\0" + BOMB),
    "a web page": lambda: b"<!doctype html><script>alert(1)</script>",
    "a drawing with a script": lambda: b"<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>",
    "an archive": lambda: b"PK\x03\x04" + bytes(1000),
    "compressed nothing": lambda: gzip.compress(bytes(1_000_000)),
    "a text": lambda: b"root:x:0:0:root:/root:/bin/bash\n",
    "nothing": lambda: b"",
    **{f"a {kind} that is cut off": partial(cut_off, kind) for kind in FORMATS},
}


@pytest.mark.parametrize("name", HOSTILE_IMAGES)
def test_a_hostile_image_is_refused_wherever_it_comes_in(client: httpx2.Client, name: str) -> None:
    data = HOSTILE_IMAGES[name]()
    files = {"file": ("x.png", data, "application/octet-stream")}
    uri = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    dialogue = {"model": "echo", "turns": [{"instruction": "hello"}], "images": [uri]}
    for answer in (
        client.post("images", content=data),
        client.post("images", files=files),
        client.post("chat/completions", json=show(uri)),
        client.post("dialogues", json=dialogue),
    ):
        check_refusal(answer.status_code, answer.content, 400)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_mislabelled_image_is_refused(client: httpx2.Client, kind: str) -> None:
    data = encode(halves(), kind)
    label = "image/gif" if kind == "PNG" else "image/png"
    for answer in (
        client.post("images", content=data, headers={"Content-Type": label}),
        client.post("images", files={"file": ("x.png", data, label)}),
    ):
        check_refusal(answer.status_code, answer.content, 415)


def test_the_largest_images_that_are_let_in_take_turns(client: httpx2.Client) -> None:
    """Each takes 200 MB as it is decoded; all are sent at once."""
    side = 7000
    header = struct.pack(">IIBBBBB", side, side, 16, 6, 0, 0, 0)
    pixels = zlib.compress(bytes(side * (1 + 8 * side)), 1)
    large = b"\x89PNG\r\n\x1a\n" + b"".join(
        png_chunk(kind, body)
        for kind, body in ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
    )

    def send(number: int) -> int:
        # A comment makes each another image, so that none is known from before.
        own = large[:33] + png_chunk(b"tEXt", b"n\0%d" % number) + large[33:]
        return client.post("images", content=own).status_code

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(send, range(6))) == [201] * 6


def wide(**fields: Any) -> bytes:
    """A JSON body of many values that are not what the field takes."""
    return json.dumps(
        {"model": "echo", "judge": "judge", "benchmark": "dialogue"} | fields
    ).encode()


HOSTILE_BODIES: Mapping[str, bytes] = {
    "open brackets": b"[" * 1_000_000,
    "deep lists": b"[" * 5000 + b"]" * 5000,
    "deep lists within the parser's bound": b'{"model":' + b"[" * 900 + b"]" * 900 + b"}",
    "deep objects": b'{"a":' * 900 + b"1" + b"}" * 900,
    "too many values": wide(messages=[0] * 30_000, turns=[0] * 30_000),
    "many wrong values": wide(messages=[0] * 9000, turns=[0] * 9000),
    "a sample of many wrong values": wide(
        sample={"turns": [0] * 9000} | {f"a{number}": 0 for number in range(9000)},
        replies={"turn_1": "x"},
    ),
    "many unknown fields": wide(**{f"a{number}": 0 for number in range(19_000)}),
    "one long number": b'{"model": ' + b"9" * 10_000_000 + b"}",
    "no number": b'{"model": NaN}',
    "UTF-16": json.dumps({"model": "echo"}).encode("utf-16"),
    "Latin-1": '{"model": "é"}'.encode("latin-1"),
    "half a character": b'{"model": "\\ud800"}',
    "an unfinished string": b'{"model": "ech',
    "a zero byte": b'{"model": "ec\x00ho"}',
    "compressed": gzip.compress(b'{"model": "echo"}'),
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "two values": b"{}{}",
    "a form": b"model=echo&messages=hello",
}


@pytest.mark.parametrize("name", HOSTILE_BODIES)
def test_a_hostile_body_is_refused_everywhere(client: httpx2.Client, name: str) -> None:
    headers = {"Content-Type": "application/json"}
    if name == "compressed":
        headers["Content-Encoding"] = "gzip"
    for path in JSON_PATHS:
        answer = client.post(path, content=HOSTILE_BODIES[name], headers=headers, timeout=30)
        check_refusal(answer.status_code, answer.content, 400, 413)


def test_another_content_type_is_refused(client: httpx2.Client) -> None:
    """So that a form on a web page cannot send what only looks like a body of ours."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "?"):
        for path in JSON_PATHS:
            answer = client.post(path, content=b"{}", headers={"Content-Type": kind})
            check_refusal(answer.status_code, answer.content, 400)


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 10**6},
        {"chat_template_kwargs": {"x": "y" * 20_000_000}},
        {"chat_template_kwargs": {str(number): number for number in range(90_000)}},
        {"logit_bias": {str(number): 1.0 for number in range(90_000)}},
        {"tools": [{}] * 90_000, "tool_choice": "none"},
        {"reasoning_effort": "high" * 1000},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_field_too_large_is_refused(client: httpx2.Client, fields: dict[str, Any]) -> None:
    answer = client.post("chat/completions", json=ORDINARY | fields)
    check_refusal(answer.status_code, answer.content, 400, 413)


def test_an_input_of_many_items_is_refused(client: httpx2.Client) -> None:
    body = {"model": "echo", "input": [{"role": "user", "content": "hi"}] * 30_000}
    answer = client.post("responses", json=body)
    check_refusal(answer.status_code, answer.content, 413)


def test_long_texts_at_once_are_refused(client: httpx2.Client) -> None:
    body = {"model": "echo", "messages": [{"role": "user", "content": "a" * 20_000_000}]}
    with ThreadPoolExecutor(4) as threads:
        for answer in threads.map(lambda _: client.post("chat/completions", json=body), range(4)):
            check_refusal(answer.status_code, answer.content, 413)


def form(headers: bytes, body: bytes = b"x", before: bytes = b"") -> bytes:
    return before + b"--b\r\n" + headers + b"\r\n\r\n" + body + b"\r\n--b--\r\n"


FILE = b'Content-Disposition: form-data; name="file"; filename="x"'

HOSTILE_FORMS: Mapping[str, bytes] = {
    "an endless header": form(FILE + b"a" * 20_000_000),
    "endless headers": form(FILE + b"\r\nx: y" * 1_000_000),
    "endless line ends before": form(FILE, before=b"\r\n" * 10_000_000),
    "endless line ends within": form(FILE, b"\r" * 25_000_000),
    "many parts": b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nx\r\n' * 200_000,
    "two files": form(FILE, b"x\r\n--b\r\n" + FILE + b"\r\n\r\nx"),
    "a field that is no file": form(b'Content-Disposition: form-data; name="file"'),
    "a file of another name": form(FILE.replace(b'name="file"', b'name="\xff"')),
    "no name": form(b"X: y"),
    "no end": b"--b\r\n" + FILE + b"\r\n\r\nx",
    "no form": b"x" * 1_000_000,
    "nothing": b"",
}


@pytest.mark.parametrize("name", HOSTILE_FORMS)
def test_a_hostile_form_is_refused(client: httpx2.Client, name: str) -> None:
    answer = client.post(
        "images",
        content=HOSTILE_FORMS[name],
        headers={"Content-Type": "multipart/form-data; boundary=b"},
    )
    check_refusal(answer.status_code, answer.content, 400, 413)


@pytest.mark.parametrize("parameters", ["", "; boundary=", "; boundary=" + "b" * 5000, ";;;=;"])
def test_a_form_without_a_boundary_is_refused(client: httpx2.Client, parameters: str) -> None:
    headers = {"Content-Type": f"multipart/form-data{parameters}"}
    answer = client.post("images", content=form(FILE), headers=headers)
    check_refusal(answer.status_code, answer.content, 400)


@pytest.mark.parametrize(
    "target",
    [
        "/v1/images/../../../../etc/passwd",
        "/v1/images/..%2f..%2f..%2f..%2fetc%2fpasswd",
        "/v1/images/%2e%2e/owners",
        "/v1/images/" + "a" * 64 + "%0a",
        "/v1/images/" + "a" * 64 + "%00.png",
        "/v1/images/" + "A" * 64,
        "/v1/runs/..",
        "/v1/runs/../../etc/passwd/report",
        "/v1/runs/..%2f..%2fetc%2fpasswd/report",
        "/v1/runs/%2e%2e/scores?format=parquet",
        "/v1/runs/x%00/report",
        "/v1/runs/..;/scores",
        "/v1/runs/x/tables?table=../../manifest",
        "/v1/runs/x/samples/..%2f..%2f..%2fetc%2fpasswd",
        "/v1/runs/x/images/..%2f..%2fstore.sqlite",
        "/v1/runs?after=../../x",
        "/v1/runs?model=%00",
        "/v1/compare?runs=../../x,../../y",
        "/v1/compare?runs=..,.",
        "/v1/dialogues/..%2f..%2fetc%2fpasswd",
        "/v1/models/..%2f..%2fetc%2fpasswd",
        "/v1/models/%00",
        "/docs/../../etc/passwd",
        "//etc/passwd",
        "/%ff%fe",
        "/..\\..\\etc\\passwd",
        "/v1/runs?limit=" + "9" * 5000,
    ],
)
def test_a_path_that_leads_out_leads_nowhere(server: ServerProcess, target: str) -> None:
    answer = exchange(server, f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    check_refusal(answer.status, answer.body, 400, 404)
    assert b"root:" not in answer.body


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "file:///etc/passwd",
        "/etc/passwd",
        "image:../../../etc/passwd",
        "image:\0",
        "image:" + "a" * 5000,
        "ftp://example.org/x.png",
        "gopher://127.0.0.1:6379/",
        "javascript:alert(1)",
        "data:image/png,plain",
        "data:image/png;base64,!!!!",
        "data:text/html;base64,PGh0bWw+",
        "http://example.org/x.png",
        "https://127.0.0.1/x.png",
        "https://169.254.169.254/latest/meta-data/",
        "https://user:secret@10.0.0.1/x.png",
        "https://user:secret@example.org/x.png",
        "https://example.org:22/x.png",
        "https://127.0.0.1\\@example.org/x.png",
        "https://127.0.0.1%2f.example.org/x.png",
        "https://exa mple.org/x.png",
        "https://" + "a" * 5000 + "/x.png",
        "https:///x.png",
        "https://[",
    ],
)
def test_a_reference_that_leads_inside_is_refused(client: httpx2.Client, reference: str) -> None:
    dialogue = {"model": "echo", "turns": [{"instruction": "hello"}], "images": [reference]}
    judgement = {**TURN, "sample": {**KITES, "image": reference}}
    for path, body, param in (
        ("chat/completions", show(reference), "messages[0].content[0].image_url.url"),
        ("dialogues", dialogue, "images[0]"),
        ("judgements", judgement, "sample.image"),
    ):
        answer = client.post(path, json=body)
        check_refusal(answer.status_code, answer.content, 400, 404)
        assert answer.json()["error"]["param"] == param
        assert "root:" not in answer.text
