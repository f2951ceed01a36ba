"""Real servers that are killed, ended and doubled at work: runs go on, nothing is asked twice.

The models are the server of `tests.mock_server`, whose log has a line for every request that it
answered.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import httpx2
import orjson
import pytest
from sqlalchemy import func, select

from mmconv.store.connections import connect
from mmconv.store.schema import jobs, replies
from tests.mmconv.convbench_data import write_run
from tests.mmconv.processes import finish, mock_model, wait_until_idle
from tests.mmconv.service.conftest import ServerProcess, Servers, until
from tests.mmconv.service.own_postgres import own_postgres
from tests.mmconv.service.run_settings import CALLS, drawn
from tests.mmconv.store.test_queue import expire
from tests.mock_server import hold, mock_server
from tests.real.servers import postgres_url

__all__ = ["postgres_url"]

pytestmark = pytest.mark.timeout(600)

ROWS = 6
BODY = {"data": "shapes", "models": {"candidate": "mock", "judge": "mock"}}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """The scores of the same run on the command line, uninterrupted."""
    folder = tmp_path_factory.mktemp("command")
    with mock_server() as url:
        return finish(write_run(folder, url, rows=ROWS), folder / "runs")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.real)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "out" / "store.sqlite")
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "answered.log"
    path.touch()
    return path


@pytest.fixture
def mock(log: Path) -> Iterator[str]:
    with mock_server(log=log) as url:
        yield url


Begin: TypeAlias = Callable[..., list[ServerProcess]]


@pytest.fixture
def begin(start: Servers, mock: str, tmp_path: Path, database: str) -> Begin:
    """Start so many servers over the one database; its model answers each eight calls at once."""
    model = waiting_model(mock)
    data = drawn(tmp_path, ROWS)

    def begin_some(count: int = 1, **fields: Any) -> list[ServerProcess]:
        return start.several(count, models={"mock": model}, data=data, database=database, **fields)

    return begin_some


def waiting_model(mock: str) -> dict[str, object]:
    """A model that eight calls wait for at once, for as long as a test holds the server."""
    return mock_model(mock) | {"max_concurrency": 8, "timeout": 600.0}


def stopped_after(mock: str, log: Path, calls: int) -> None:
    """Wait until the model has answered so many calls in total; it answers no more until let."""
    hold(mock, calls)
    until(partial(has_answered, log, calls))


def answered(log: Path) -> list[str]:
    return log.read_text().split()


def has_answered(log: Path, calls: int) -> bool:
    return len(answered(log)) >= calls


def post(server: ServerProcess, **fields: Any) -> str:
    posted = httpx2.post(f"{server.url}/v1/runs", json=BODY | fields, verify=False)
    assert posted.status_code in (200, 202), posted.text
    return str(posted.json()["id"])


def info(server: ServerProcess, run: str) -> dict[str, Any]:
    found: dict[str, Any] = httpx2.get(f"{server.url}/v1/runs/{run}", verify=False).json()
    return found


def scores(server: ServerProcess, run: str) -> list[dict[str, object]]:
    """The scores of the run when it is done."""
    until(lambda: info(server, run)["state"] == "done")
    answer = httpx2.get(f"{server.url}/v1/runs/{run}/scores", params={"format": "jsonl"})
    return [orjson.loads(line) for line in answer.content.splitlines()]


def committed(database: str) -> int:
    """How many replies the store holds."""
    engine = connect(database)
    with engine.connect() as connection:
        count = connection.scalar(select(func.count()).select_from(replies))
    engine.dispose()
    return count or 0


def states(database: str) -> list[str]:
    engine = connect(database)
    with engine.connect() as connection:
        found = list(connection.scalars(select(jobs.c.state)))
    engine.dispose()
    return found


def worker(database: str) -> str:
    """The worker that holds the one job."""
    engine = connect(database)
    with engine.connect() as connection:
        name = connection.scalars(select(jobs.c.worker)).one()
    engine.dispose()
    return name or ""


def begun(server: ServerProcess) -> list[str]:
    """The runs that the server has taken, by its own word."""
    return re.findall(r"run (\S+): started", server.output)


def shown(server: ServerProcess, run: str) -> int:
    """How many replies the server shows of a run that is not done."""
    answer = httpx2.get(f"{server.url}/v1/runs/{run}/samples").json()
    return sum(int(sample["replies"]) for sample in answer["data"])


def test_killed_at_random_points_a_run_goes_on_by_itself(
    begin: Begin, mock: str, log: Path, database: str, expected: list[dict[str, object]]
) -> None:
    """`kill -9`, four times; the run is posted once, and what was committed is not asked again."""
    moments = random.Random(1)
    run = ""
    for _ in range(4):
        [server] = begin()
        run = run or post(server)
        wanted = len(answered(log)) + moments.randrange(1, 25)
        stopped_after(mock, log, wanted)
        assert info(server, run)["state"] == "running"
        server.kill()
        expire(database)
    hold(mock, None)
    wait_until_idle(mock)
    before, kept = len(answered(log)), committed(database)
    assert kept < ROWS * CALLS
    assert scores(begin()[0], run) == expected
    after = Counter(answered(log))
    assert len(after) == ROWS * CALLS
    # What was answered and not committed when a process died may be asked once more.
    assert sum(after.values()) - len(after) <= before - kept


def test_told_to_end_a_server_keeps_what_is_answered(
    begin: Begin, mock: str, log: Path, database: str, expected: list[dict[str, object]]
) -> None:
    [server] = begin()
    run = post(server)
    stopped_after(mock, log, 20)
    server.terminate()
    # the calls under way get their replies if the server waits for them: eight, and one that waits
    # for a connection
    hold(mock, 29)
    assert server.ended() == 0
    assert states(database) == ["queued"]
    assert committed(database) == len(answered(log)) <= 29
    hold(mock, None)
    assert scores(begin()[0], run) == expected
    assert len(answered(log)) == len(set(answered(log))) == ROWS * CALLS


def test_a_server_that_was_there_all_along_takes_over_and_asks_nothing_again(
    begin: Begin, mock: str, log: Path, database: str, expected: list[dict[str, object]]
) -> None:
    """Meanwhile it shows the run of the other server as it stands."""
    servers = begin(2)
    run = post(servers[0])
    stopped_after(mock, log, 40)
    until(lambda: committed(database) == 40)
    [holder] = [each for each in servers if f"-{each.process.pid}-" in worker(database)]
    [other] = [each for each in servers if each is not holder]
    assert shown(other, run) == 40
    holder.kill()
    expire(database)
    hold(mock, None)
    assert scores(other, run) == expected
    after = Counter(answered(log))
    assert len(after) == ROWS * CALLS
    # The model may have answered the dead server's eight calls before it saw that it was dead.
    assert sum(after.values()) - len(after) <= 8


def test_two_servers_share_the_work_and_no_run(begin: Begin, log: Path, database: str) -> None:
    """Runs of different seeds ask different calls, so that none is answered twice."""
    servers = begin(2, runs_at_once=1)
    runs = [
        post(servers[seed % 2], seed=seed, sampling={"candidate": {"seed": seed}}, limit=3)
        for seed in range(4)
    ]
    for run in runs:
        assert scores(servers[1], run)
    assert len(answered(log)) == len(set(answered(log)))
    shares = [begun(server) for server in servers]
    assert all(shares)
    assert sorted(chain(*shares)) == sorted(runs)


def test_a_run_goes_on_when_its_database_was_stopped_and_is_there_again(
    start: Servers, mock: str, log: Path, tmp_path: Path, expected: list[dict[str, object]]
) -> None:
    """Meanwhile requests are told to come back, and afterwards nothing committed is asked again."""
    with own_postgres() as postgres:
        # the run gives up at once, so that its worker has to go on with it later
        database = f"{postgres.url}?store_timeout=0"
        models = {"mock": waiting_model(mock)}
        server = start(models=models, data=drawn(tmp_path, ROWS), database=database)
        run = post(server)
        stopped_after(mock, log, 30)
        until(lambda: committed(postgres.url) == 30)
        kept = answered(log)
        postgres.stop()
        hold(mock, None)  # these replies have nowhere to be kept
        for path in ("ready", "v1/runs", f"v1/runs/{run}", f"v1/runs/{run}/scores"):
            answer = httpx2.get(f"{server.url}/{path}")
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_database")
            assert int(answer.headers["retry-after"]) > 0
        assert httpx2.post(f"{server.url}/v1/runs", json=BODY).status_code == 503
        for path in ("health", "metrics"):
            assert httpx2.get(f"{server.url}/{path}").status_code == 200
        # The worker has noticed by then, and has given up what it was at.
        until(lambda: "fails" in server.output and "is left to its lease" in server.output)
        postgres.start()
        expire(postgres.url)
        assert scores(server, run) == expected
        after = Counter(answered(log))
        assert len(after) == ROWS * CALLS
        assert all(after[digest] == 1 for digest in kept)
        # Requests after a restart do not fail on the connections from before it.
        postgres.stop()
        postgres.start()
        assert info(server, run)["state"] == "done"
        assert scores(server, post(server, limit=1))
