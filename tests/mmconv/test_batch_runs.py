"""Whole runs whose judge answers in batches: killed and resumed, their price, their progress."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from threading import Event, Thread
from typing import Any

import orjson
import pytest
import yaml

from mmconv.cli import commands
from mmconv.core.keys import hash_json
from mmconv.engine import batches
from model_zoo.openai_api.batches import OpenAIBatches
from tests.drawn_data import write_scenes
from tests.forking import fork
from tests.mmconv.processes import arguments, finish, scores, typed
from tests.model_zoo.batch_server import BatchServer

pytestmark = pytest.mark.timeout(300)

SAMPLES = 60
SPEED = 7200.0
PRICE = {"input": 2.0, "output": 8.0}


class FastServer(BatchServer):
    """Its hours take half a second."""

    begun = time.time()

    def time(self) -> float:
        return self.begun + (time.time() - self.begun) * SPEED


def rate(body: Any) -> str:
    return f"Rating: {int(hash_json(body)[:4], 16) % 10 + 1}"


@contextmanager
def serving() -> Iterator[tuple[FastServer, str]]:
    """A server in a thread of its own, and its URL."""
    server, ready, urls = FastServer(say=rate), Event(), []

    async def serve() -> None:
        async with server.running() as url:
            urls.append(url)
            ready.set()
            await asyncio.Event().wait()

    loop = asyncio.new_event_loop()
    task = loop.create_task(serve())

    def run() -> None:
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(task)

    thread = Thread(target=run)
    thread.start()
    ready.wait()
    try:
        yield server, urls[0]
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()


def hurry() -> None:
    # so many batches that ten processes are killed before the last has ended
    OpenAIBatches.most_requests = 10
    batches.FIRST_QUIET = batches.FIRST_POLL = 0.05
    batches.LONGEST_QUIET = batches.LONGEST_POLL = batches.SETTLED = 0.1


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRST_QUIET", "FIRST_POLL", "LONGEST_QUIET", "LONGEST_POLL", "SETTLED"):
        monkeypatch.setattr(batches, name, getattr(batches, name))
    monkeypatch.setattr(OpenAIBatches, "most_requests", OpenAIBatches.most_requests)
    hurry()


def run_in_a_hurry(words: list[str]) -> None:
    hurry()
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        commands.main(words)


def write_run(folder: Path, url: str) -> Path:
    data, images = write_scenes(folder / "data", SAMPLES)
    judge = {"provider": "openai", "model": "m", "base_url": f"{url}v1", "price": PRICE}
    spec: dict[str, Any] = {
        "benchmark": "convbench",
        "options": {"data": str(data), "images": str(images), "grading": ["direct"]},
        "conditions": ["free"],
        "models": {"candidate": "fake/echo", "judge": {**judge, "options": {"identity": "m"}}},
    }
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(spec), encoding="utf-8")
    return path


def judge_of(out: Path) -> dict[str, Any]:
    [path] = out.glob("*/summary.json")
    summary: dict[str, Any] = orjson.loads(path.read_bytes())
    counts: dict[str, Any] = summary["models"]["judge"]
    return counts


def test_killed_ten_times_it_pays_nothing_twice_and_scores_the_same(
    tmp_path: Path,
) -> None:
    moments, met = random.Random(0), 0
    with serving() as (server, url):
        run = write_run(tmp_path, url)
        expected = finish(run, tmp_path / "whole", "--batch", "judge")
        paid = dict(server.paid)
        server.paid.clear()
        words = arguments(run, tmp_path / "killed", "--batch", "judge")
        for _ in range(10):
            process = fork(run_in_a_hurry, words)
            until = server.hits + moments.randrange(1, 8)
            while process.is_alive() and server.hits < until:
                time.sleep(0.002)
            process.kill()
            process.join()
            met += process.exitcode == -signal.SIGKILL
        assert finish(run, tmp_path / "killed", "--batch", "judge") == expected
    assert met == 10
    assert server.paid == paid
    # the whole price of the judge is half of what its tokens cost
    counts = judge_of(tmp_path / "killed")
    tokens = counts["total_input_tokens"], counts["total_output_tokens"]
    full = (tokens[0] * PRICE["input"] + tokens[1] * PRICE["output"]) / 1e6
    assert tokens[0] == 1000 * sum(paid.values())
    assert counts["total_cost_usd"] == pytest.approx(full / 2)


def test_a_forecast_halves_the_price_and_no_request_is_sent(tmp_path: Path) -> None:
    with serving() as (server, url):
        run = write_run(tmp_path, url)
        dollars = []
        for more in ([], ["--batch", "judge"]):
            ended = typed(*arguments(run, tmp_path / "runs", "--dry-run", *more))
            [row] = [line for line in ended.output.splitlines() if line.startswith("judge")]
            dollars.append(float(row.split()[-1]))
        assert server.hits == 0
    assert dollars[1] == pytest.approx(dollars[0] / 2, rel=0.1)
    assert "In batches, at half the price: judge." in ended.output


def test_live_and_batched_runs_are_one_run(tmp_path: Path) -> None:
    """So a run that began live goes on in batches, and its price counts both."""
    with serving() as (_server, url):
        run = write_run(tmp_path, url)
        finish(run, tmp_path / "runs", "--batch", "judge")
        finish(run, tmp_path / "runs")
        assert scores(tmp_path / "runs")


def test_an_unknown_role_in_batches_is_named(tmp_path: Path) -> None:
    run = write_run(tmp_path, "http://localhost:1/")
    ended = typed(*arguments(run, tmp_path / "runs", "--batch", "jugde"))
    assert "--batch: the run has no model role 'jugde'; did you mean judge?" in str(ended.exception)
