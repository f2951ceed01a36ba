"""Replicas on three nodes of a real Ray: single calls first, then whole runs.

The last tests kill the nodes.
"""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import psutil
import pytest
import pytest_asyncio
import ray

from images import ImageStore
from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, ImageError, Refused, Transient
from mmconv.core.types import Image, Sampling
from model_zoo.providers import provider_of
from model_zoo.ray import backend as module
from model_zoo.ray.backend import RayBackend
from tests.messages import user
from tests.mmconv.convbench_data import write_run
from tests.mmconv.processes import command, committed, finish, scores, wait_until_idle
from tests.mock_server import hold, mock_server
from tests.model_zoo.processes import RAY_SECONDS, alive, wait_until_gone
from tests.model_zoo.ray_nodes import GPUS, Nodes, nodes, replicas
from tests.model_zoo.test_vllm import python
from tests.pictures import picture

__all__ = ["nodes", "python"]

ROWS = 2
ANSWERS = 10
HELLO = (user("hello"),)

in_module = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True, slots=True)
class Held:
    """A run in a process of its own whose server holds the requests after the first `ANSWERS`."""

    process: subprocess.Popen[str]
    run: Path
    out: Path
    url: str
    log: Path
    others: frozenset[int]

    def replicas(self) -> dict[int, int]:
        """The run's actors by process id, with the process id of their node."""
        return {pid: home for pid, home in replicas().items() if pid not in self.others}

    def wait_for(self, condition: Callable[[], object]) -> None:
        while not condition():
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.02)

    def is_held(self) -> bool:
        """Whether what was answered is committed, and the rest of the work waits for answers."""
        is_answered = self.log.exists() and len(self.log.read_text().split()) == ANSWERS
        return is_answered and committed(self.out) == ANSWERS

    def waiting(self) -> Counter[int | None]:
        """How many requests the server holds, by replica; None for one that is just ending."""
        port = int(self.url.removesuffix("/v1").rpartition(":")[2])
        return Counter(
            each.pid
            for each in psutil.net_connections("tcp")
            if each.raddr and each.raddr.port == port and each.status == psutil.CONN_ESTABLISHED
        )

    def answer_the_living(self) -> None:
        """Answer what is held, once the connections of the dead are closed."""
        while not self.waiting().keys() <= self.replicas().keys():
            time.sleep(0.02)
        hold(self.url, None)

    def check(self, expected: Ended) -> None:
        """It is the run in process, and no committed reply was requested again."""
        assert ended(self.out) == expected
        answered = self.log.read_text().split()
        assert len(answered) == len(set(answered)) == len(expected.keys)


class Ended(NamedTuple):
    """What a run has made: its name, its scores, and the content keys of its replies."""

    name: str
    scores: list[dict[str, object]]
    keys: set[str]


def ended(out: Path) -> Ended:
    [folder] = out.glob("convbench-*")
    with sqlite3.connect(out / "store.sqlite") as database:
        keys = {key for (key,) in database.execute("select key from replies")}
    return Ended(folder.name, scores(out), keys)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the data of all runs is: its path is in their names."""
    return tmp_path_factory.mktemp("ray")


@pytest.fixture(scope="module")
def expected(folder: Path) -> Ended:
    """The run in process."""
    with mock_server() as url:
        finish(write_run(folder, url, rows=ROWS), folder / "runs")
    return ended(folder / "runs")


@pytest.fixture
def held(folder: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Held]:
    """The run in the middle of its work, both of its roles in the same actors."""
    log = tmp_path / "answered.log"
    arguments: tuple[str, ...] = request.param
    others = frozenset(replicas())
    with mock_server(log=log) as url:
        hold(url, ANSWERS)
        run, out = write_run(folder, url, rows=ROWS), tmp_path / "runs"
        process = subprocess.Popen(
            [*command(run, out), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        held = Held(process, run, out, url, log, others)
        try:
            held.wait_for(held.is_held)
            yield held
        finally:
            process.kill()
            process.communicate()


def on_replicas(count: int, *, gpus: float = 0) -> tuple[str, ...]:
    """The arguments that put both roles into the same actors, with time for what is held."""
    roles = ("candidate", "judge")
    fields = {"replicas": count, "gpus": gpus, "timeout": 600}.items()
    return tuple(f"--set=models.{role}.{name}={value}" for role in roles for name, value in fields)


@pytest.fixture(scope="module")
def agents() -> Iterator[list[int]]:
    """Processes of Ray that notice within two minutes that their node is dead."""
    agents: list[int] = []
    yield agents
    wait_until_gone(agents, RAY_SECONDS)


@pytest.mark.parametrize("held", [("--ray=local", *on_replicas(2))], indirect=True)
def test_nothing_outlives_a_killed_driver(expected: Ended, held: Held, agents: list[int]) -> None:
    """It has started Ray on this machine itself."""
    held.wait_for(lambda: len(held.replicas()) == 2)
    started = psutil.Process(held.process.pid).children(recursive=True)
    agents += [each.pid for each in started if "Agent" in each.cmdline()[0]]
    held.process.kill()
    held.process.wait()
    wait_until_gone({each.pid for each in started}.difference(agents), 20)
    held.answer_the_living()
    wait_until_idle(held.url)
    assert finish(held.run, held.out) == expected.scores
    held.check(expected)


IMAGES = ImageStore()


async def open_model(name: str = "plain", **fields: Any) -> RayBackend:
    spec = ModelSpec(provider="tests.model_zoo.ray_model", model=name, **fields)
    backend = await provider_of(spec).open_backend(spec, IMAGES)
    assert isinstance(backend, RayBackend)
    return backend


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def backend(nodes: Nodes) -> AsyncIterator[RayBackend]:
    backend = await open_model(replicas="auto", gpus=1)
    yield backend
    await backend.aclose()


async def say(backend: RayBackend, text: str = "", *images: Image, affinity: str = "a") -> str:
    """The reply: process ids of the replica and its server, its GPU, hashes of the images."""
    message = user(*images, text)
    return (await backend.generate((message,), Sampling(), affinity=affinity)).text


async def everywhere(backend: RayBackend) -> set[str]:
    """What each replica answers, once all of them are ready.

    A replica that is being replaced may lose a call; a run would ask again, and so does this.
    """

    async def asked(affinity: str) -> str | None:
        try:
            return await say(backend, affinity=affinity)
        except Transient:
            return None

    answers: set[str | None] = set()
    while len(answers) < 2 * GPUS or None in answers:
        calls = (asked(f"new {n}") for n in range(backend.max_concurrency))
        answers = set(await asyncio.gather(*calls))
    return {answer for answer in answers if answer is not None}


@in_module
async def test_each_replica_has_gpus_of_its_own(backend: RayBackend) -> None:
    answers = await everywhere(backend)
    assert Counter(text.split()[2] for text in answers) == {str(gpu): 2 for gpu in range(GPUS)}
    running = {int(text.split()[0]) for text in answers}
    assert len({replicas()[pid] for pid in running}) == 2
    assert backend.max_concurrency == 2 * 2 * GPUS


@in_module
async def test_images_come_with_the_calls_that_show_them(backend: RayBackend) -> None:
    await everywhere(backend)
    image, other = (IMAGES.add_bytes(picture(seed)) for seed in (1, 2))
    calls = (say(backend, "", image, affinity=f"{n}") for n in range(backend.max_concurrency))
    assert {text.split()[3] for text in await asyncio.gather(*calls)} == {image.sha256}
    assert (await say(backend, "", image, other)).endswith(f"{image.sha256} {other.sha256}")


@in_module
async def test_an_image_is_sent_once(backend: RayBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []

    def put(data: bytes) -> Any:
        sent.append(data)
        return put_it(data)

    put_it = ray.put
    monkeypatch.setattr(ray, "put", put)
    images = [picture(seed) for seed in (3, 4)]
    first, second = map(IMAGES.add_bytes, images)
    for _ in range(3):
        assert (await say(backend, "", first, second)).endswith(f"{first.sha256} {second.sha256}")
    assert sent == images
    monkeypatch.setattr(module, "LENT_IMAGES", 1)
    for image in (second, first, second):
        assert (await say(backend, "", image)).endswith(image.sha256)
    assert len(sent) == 4


def test_an_actor_keeps_an_image_until_its_last_call_ends() -> None:
    images = module.ReceivedImages()
    with images.hold({"a": b"1", "b": b"2"}):
        with images.hold({"a": b"1"}):
            assert images.read("a") == b"1"
        assert images.read("a") == b"1"
    for sha256 in "ab":
        with pytest.raises(ImageError, match="no call under way"):
            images.read(sha256)


@in_module
async def test_an_image_that_is_gone_fails_its_call_alone(backend: RayBackend) -> None:
    gone = Image(sha256="0" * 64, media_type="image/png", width=1, height=1)
    with pytest.raises(ImageError, match="not in this image store"):
        await say(backend, "", gone)
    assert await say(backend)


@in_module
async def test_errors_of_the_model_cross_as_they_are(backend: RayBackend) -> None:
    with pytest.raises(Refused, match=r"^too long$") as refused:
        await say(backend, "refuse")
    assert (refused.value.kind, refused.value.input_tokens) == ("context", 7)
    with pytest.raises(ZeroDivisionError, match=r"ray_model\.py"):
        await say(backend, "bug")


@in_module
@pytest.mark.parametrize("way", ["die", "crash"])
async def test_a_lost_replica_is_replaced(backend: RayBackend, way: str) -> None:
    before = await everywhere(backend)
    lost = await say(backend, affinity="lost")
    with pytest.raises(Transient) as caught:
        await say(backend, way, affinity="lost")
    assert caught.value.kind == "connection"
    assert ("the engine died" in str(caught.value)) == (way == "die")
    # its conversation goes elsewhere, and its server has gone with it
    assert await say(backend, affinity="lost") in before - {lost}
    wait_until_gone(map(int, lost.split()[:2]), 10)
    after = await everywhere(backend)
    assert len(after - before) == 1 and before - after == {lost}


@in_module
async def test_a_model_that_cannot_be_opened_raises_its_own_error(nodes: Nodes) -> None:
    with pytest.raises(ConfigError, match=r"^broken: it has no weights$"):
        await open_model("broken", replicas=2, gpus=0)


@in_module
async def test_a_replica_without_a_place_ends_the_wait(nodes: Nodes, backend: RayBackend) -> None:
    """The GPUs are taken: one replica more waits for `wait_for_server`, `auto` not at all."""
    with pytest.raises(ConfigError, match=r"no node of Ray's cluster took a replica within 0.5 s"):
        await open_model(replicas=1, gpus=1, wait_for_server=0.5)
    with pytest.raises(ConfigError, match=r"of the 4 in Ray's cluster 0 are free"):
        await open_model(replicas="auto", gpus=1)
    with pytest.raises(ConfigError, match=r"has 4 GPUs, enough for 4 replicas with 1 each"):
        await open_model(replicas=5)


@in_module
async def test_closing_ends_the_replicas_and_their_servers(backend: RayBackend) -> None:
    started = {int(pid) for text in await everywhere(backend) for pid in text.split()[:2]}
    assert alive(started) == list(started)
    await backend.aclose()
    await backend.aclose()
    wait_until_gone(started, 10)


@in_module
async def test_ray_can_be_left_and_joined_again(nodes: Nodes) -> None:
    for _ in range(2):
        async with aclosing(await open_model(replicas=1, gpus=0)) as backend:
            assert await say(backend)


@in_module
async def test_processes_share_detached_ones(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEFT_SECONDS", 10.0)
    async with aclosing(await open_model(**SHARED)) as backend:
        answers = await everywhere(backend)
        script = "from tests.model_zoo.test_ray import show_shared; show_shared()"
        other = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", script], capture_output=True, check=True
        )
        assert orjson.loads(other.stdout) == sorted(answers)
        assert await everywhere(backend) == answers
    wait_until_gone({int(text.split()[0]) for text in answers}, RAY_SECONDS)


SHARED: dict[str, Any] = {"replicas": "auto", "gpus": 1, "detached": True}


def show_shared() -> None:
    """Print what each of the shared replicas answers to this process."""

    async def answers() -> list[str]:
        async with aclosing(await open_model(**SHARED)) as backend:
            return sorted(await everywhere(backend))

    sys.stdout.buffer.write(orjson.dumps(asyncio.run(answers())))


@in_module
async def test_each_vllm_server_has_its_own_gpus(nodes: Nodes, python: str, tmp_path: Path) -> None:
    options = {"python": python, "log_folder": str(tmp_path), "tensor_parallel_size": GPUS}
    spec = ModelSpec(provider="vllm", model="org/name", options={**options, "replicas": 2})
    async with aclosing(await provider_of(spec).open_backend(spec, IMAGES)) as backend:
        answers: dict[int, str] = {}
        while len(answers) < 2:
            calls = (backend.generate(HELLO, Sampling(), affinity=f"{n}") for n in range(200))
            for reply in await asyncio.gather(*calls):
                fields = orjson.loads(reply.text)
                answers[fields["pid"]] = fields["gpus"]
        assert set(answers.values()) == {",".join(map(str, range(GPUS)))}
    wait_until_gone(answers, 10)


@pytest.mark.parametrize("held", [on_replicas(4)], indirect=True)
def test_four_actors_on_three_nodes_make_one_run(nodes: Nodes, expected: Ended, held: Held) -> None:
    held.wait_for(lambda: len(held.replicas()) == 4)
    assert len(set(held.replicas().values())) == 3
    hold(held.url, None)
    output, error = held.process.communicate()
    assert held.process.returncode == 0, output + error
    held.check(expected)
    wait_until_gone(held.replicas(), 20)


@pytest.mark.parametrize("held", [on_replicas(2)], indirect=True)
def test_sigterm_keeps_answers_and_ends_actors(nodes: Nodes, expected: Ended, held: Held) -> None:
    held.process.send_signal(signal.SIGTERM)
    assert held.process.stderr is not None
    lines = iter(held.process.stderr.readline, "")
    assert any("Stopping: waiting for the calls under way" in line for line in lines)
    hold(held.url, None)
    output, error = held.process.communicate()
    assert held.process.returncode == 130, output + error
    assert "Resume with:" in error
    wait_until_gone(held.replicas(), 20)
    assert finish(held.run, held.out) == expected.scores
    held.check(expected)


@pytest.mark.parametrize("held", [on_replicas(2, gpus=GPUS)], indirect=True)
def test_a_node_is_killed_in_mid_run(nodes: Nodes, expected: Ended, held: Held) -> None:
    held.wait_for(lambda: len(set(held.replicas().values())) == 2)
    homes = held.replicas()
    waiting = held.waiting()
    busiest = max(homes, key=lambda pid: waiting[pid])
    assert waiting[busiest]
    nodes.kill(homes[busiest])
    held.answer_the_living()
    output, error = held.process.communicate()
    assert held.process.returncode == 0, output + error
    held.check(expected)
    wait_until_gone(held.replicas(), 20)
