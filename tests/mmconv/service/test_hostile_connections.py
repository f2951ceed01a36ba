"""Hostile connections to a real server: too much, too slow, no HTTP. Ordinary requests go on."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import Any

import httpx2
import psutil
import pytest
from PIL import Image

from tests.images.pictures import encode
from tests.mmconv.service.conftest import ServerProcess, Servers, until
from tests.mmconv.service.hostile import (
    Bystander,
    check_refusal,
    connect,
    exchange,
    gone,
    open_client,
    read_answer,
)

HEAD = b"POST /v1/images HTTP/1.1\r\nHost: localhost\r\n"

PATIENCE = 1
"""Seconds that the server under test waits where its defaults are longer."""

UNSENT = 150_000_000

BEFORE = f"""
import resource
from mmconv.service import server
server.HEAD_SECONDS = server.LINGER_SECONDS = server.STALLED_SECONDS = {PATIENCE}
server.UNSENT_BYTES = {UNSENT}
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One of little patience, started with few open files allowed."""
    servers = Servers(tmp_path_factory.mktemp("hostile"), BEFORE)
    sizes = {"body_seconds": PATIENCE, "buffered_bytes": 40_000_000}
    server = servers(sizes=sizes)
    yield server
    servers.end()
    assert "Traceback" not in server.output


@pytest.fixture(autouse=True)
def bystander(server: ServerProcess) -> Iterator[Bystander]:
    with Bystander(server, most=600_000_000) as watching:
        yield watching


@pytest.fixture
def connections(server: ServerProcess) -> Iterator[Any]:
    """`connections(count)` opens so many."""
    with ExitStack() as stack:
        yield lambda count: [stack.enter_context(connect(server)) for _ in range(count)]


def test_a_body_that_is_announced_too_large_is_refused_unread(server: ServerProcess) -> None:
    answer = exchange(server, HEAD + b"Content-Length: 64000001\r\n\r\n")
    check_refusal(answer.status, answer.body, 413)


@pytest.mark.parametrize("path", ["images", "chat/completions", "runs"])
def test_a_body_that_was_not_announced_is_cut_off(server: ServerProcess, path: str) -> None:
    piece = b"10000\r\n" + bytes(65_536) + b"\r\n"
    with connect(server) as connection:
        connection.sendall(
            HEAD.replace(b"images", path.encode()) + b"Transfer-Encoding: chunked\r\n\r\n"
        )
        try:
            for _ in range(2000):
                connection.sendall(piece)
        except OSError:
            pass
        answer = read_answer(connection)
    # 408 if the machine is too busy to send it in time
    check_refusal(answer.status, answer.body, 408, 413, 503)


def test_a_refused_body_is_not_waited_for(connections: Any) -> None:
    open_ones = []
    for _ in range(100):
        # one by one: on a busy machine the last of many would wait too long with its head
        [connection] = connections(1)
        open_ones.append(connection)
        connection.sendall(HEAD + b"Content-Length: 99999999999\r\n\r\nx")
        answer = read_answer(connection)
        check_refusal(answer.status, answer.body, 413)
        connection.sendall(b"x")
        connection.settimeout(5 * PATIENCE)
    assert all(gone(connection) for connection in open_ones)


def test_bodies_that_drip_are_given_up(connections: Any) -> None:
    dripping = connections(300)
    for connection in dripping:
        connection.sendall(HEAD + b"Content-Length: 1000\r\n\r\n")
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        for connection in dripping:
            connection.sendall(b"x")
        time.sleep(0.1)
    for connection in dripping:
        answer = read_answer(connection)
        check_refusal(answer.status, answer.body, 408)


def test_bodies_that_are_never_finished_do_not_fill_the_memory(connections: Any) -> None:
    """Eight of nine megabytes are more than all together may hold; the bystander's are let in."""
    open_ones = connections(8)
    for connection in open_ones:
        with suppress(OSError):  # refused before all was sent
            connection.sendall(HEAD + b"Content-Length: 9000001\r\n\r\n" + bytes(9_000_000))
    answers = [read_answer(connection) for connection in open_ones]
    assert {answer.status for answer in answers} == {408, 503}
    for answer in answers:
        check_refusal(answer.status, answer.body, 408, 503)


@pytest.mark.parametrize(
    "sent", [b"", b"G", b"GET /health HTTP/1.1\r\nHost: local", b"GET /health HTTP/1.1\r\nX: y\r\n"]
)
def test_heads_that_never_come_are_given_up(connections: Any, sent: bytes) -> None:
    open_ones = connections(300)
    for connection in open_ones:
        connection.sendall(sent)
        connection.settimeout(5 * PATIENCE)
    assert all(gone(connection) for connection in open_ones)


def test_line_ends_between_requests_keep_no_connection(connections: Any) -> None:
    [connection] = connections(1)
    connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert read_answer(connection).status == 200
    connection.settimeout(5 * PATIENCE)
    connection.sendall(b"\r\n")
    assert gone(connection)


GET_HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"

FLOODS: Mapping[str, Callable[[], bytes]] = {
    "headers without an end": lambda: (
        GET_HEALTH + b"".join(b"X-%d: y\r\n" % number for number in range(200_000))
    ),
    "a long header without an end": lambda: GET_HEALTH + b"X: " + b"y" * 5_000_000,
    "cookies without an end": lambda: GET_HEALTH + b"Cookie: a=b; " * 100_000,
    "a long header in one packet": lambda: GET_HEALTH + b"X: " + b"y" * 66_000 + b"\r\n\r\n",
    "headers in one packet": lambda: GET_HEALTH + b"X: y\r\n" * 12_000 + b"\r\n",
    "cookies in one packet": lambda: GET_HEALTH + b"Cookie: a=b\r\n" * 5_100 + b"\r\n",
    "a target without an end": lambda: b"GET /" + b"a" * 5_000_000,
    # uvicorn would read it as another, without its first 65,536 bytes
    "a long target in one packet": lambda: (
        b"GET /health?x=" + b"a" * 66_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    ),
}


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_in_the_head_is_refused(server: ServerProcess, flood: str) -> None:
    answer = exchange(server, FLOODS[flood]())
    check_refusal(answer.status, answer.body, 431)


@pytest.mark.parametrize(
    "piece", [b"X-Y: z\r\n" * 10_000, b"y" * 80_000], ids=["many", "a long one"]
)
def test_trailers_without_an_end_are_cut_off(server: ServerProcess, piece: bytes) -> None:
    with connect(server) as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX: ")
        with pytest.raises(ConnectionError):
            for _ in range(200):
                connection.sendall(piece)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /health HTTP/9.9\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: \x00\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"CONNECT localhost:22 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 1e3\r\n\r\n",
        HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
        HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
    ],
)
def test_what_is_no_http_is_refused(server: ServerProcess, sent: bytes) -> None:
    answer = exchange(server, sent)
    check_refusal(answer.status, answer.body, 400)


def test_what_is_refused_before_it_is_a_request_is_counted(
    server: ServerProcess,
) -> None:
    def counted() -> float:
        page = httpx2.get(f"{server.url}/metrics").text
        line = r'requests_total\{method="other",route="none",status="400"\} (.*)'
        return sum(float(found) for found in re.findall(line, page))

    before = counted()
    with connect(server) as connection:
        connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
        head = connection.makefile("rb").read().partition(b"\r\n\r\n")[0].decode()
    found = re.search("^X-Request-Id: ([0-9a-f]{16})$", head, re.MULTILINE)
    assert found is not None, head
    assert counted() == before + 1
    until(lambda: f"request {found[1]} (status 400)" in server.output)


@pytest.mark.parametrize(
    "header",
    [
        b"Host: [",
        b"Host: [::1",
        b"Host: evil.example",
        b"Host: 127.0.0.1.evil.example:80",
        b"Host: localhost:8080\r\nOrigin: http://localhost:9090",
        b"Host: localhost@evil.example",
        b"Host: \xff",
        b"Host: evil@127.0.0.1",
        b"Host: 127.0.0.1:8080#.evil.com",
        b"Host: 127.0.0.1:8080/.evil.com",
        b"Host: localhost\r\nHost: localhost",
        b"Host: localhost\r\nHost: evil.example",
        b"Host: localhost\r\nOrigin: http://localhost\r\nOrigin: https://evil.example",
        b"X: no host at all",
        b"Host: localhost\r\nOrigin: http://[",
        b"Host: localhost\r\nOrigin: null",
        b"Host: localhost\r\nOrigin: https://evil.example",
    ],
)
def test_what_a_web_page_could_send_is_refused(server: ServerProcess, header: bytes) -> None:
    for target in (b"/health", b"/v1/runs", b"/docs"):
        answer = exchange(server, b"GET " + target + b" HTTP/1.1\r\n" + header + b"\r\n\r\n")
        check_refusal(answer.status, answer.body, 403)


def test_many_idle_connections_are_held_beside_ordinary_ones(connections: Any) -> None:
    """More than the open files that the process was started with."""
    assert len(connections(500)) == 500
    time.sleep(0.3)


@pytest.mark.parametrize(("side", "count"), [(2500, 60), (2000, 10)], ids=["too much", "stalled"])
def test_answers_that_nobody_reads_are_given_up(
    server: ServerProcess, connections: Any, side: int, count: int
) -> None:
    """60 of 19 MB are more than may wait; 10 of 12 MB are not, and wait until patience ends."""
    picture = encode(Image.new("RGB", (side, side)), "BMP")
    with open_client(server) as client:
        image = client.post("images", content=picture).json()["id"]
    process = psutil.Process(server.process.pid)
    files = process.num_fds()
    target = f"GET /v1/images/{image} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    for connection in connections(count):
        connection.sendall(target)
    # The bystander opens and closes some, too.
    until(lambda: process.num_fds() > files + count // 2)
    until(lambda: process.num_fds() < files + 3)
    whole = httpx2.get(f"{server.url}/v1/images/{image}", timeout=20)
    assert whole.content == picture
