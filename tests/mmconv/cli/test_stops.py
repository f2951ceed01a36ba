"""Runs that stop by themselves, as a user sees them; what they cost, and what is left of them."""

import re
import socket
from pathlib import Path

import orjson
import pytest
from click.testing import Result

from mmconv.cli.shared.costs import Budget
from mmconv.core.config import ModelSpec, PriceSpec, RunSpec
from mmconv.core.errors import ConfigError
from mmconv.core.run_stats import ModelStats, RunStats, Tokens
from tests.drawn_data import write_scenes
from tests.mmconv.processes import typed
from tests.mock_server import mock_server

ROWS = 8
"""Enough that 20 calls of the candidate need no other."""

PRICED = ("--candidate", "echo.yaml", "--judge", "judge.yaml")
FAKE_JUDGE = ("--judge", "fake/judge")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of the test's own as the working directory, with data and models."""
    write_scenes(tmp_path / "data", ROWS)
    for name in ("echo", "judge"):
        (tmp_path / f"{name}.yaml").write_text(
            f"provider: fake\nmodel: {name}\nmax_concurrency: 2\n"
            "options: {seconds: 0.01}\nprice: {input: 10, output: 40}\n"
        )
    monkeypatch.chdir(tmp_path)


def run(*more: str) -> Result:
    data = ("--data", "data/data.jsonl", "--images", "data/images")
    return typed("run", "convbench", *data, "--no-page", *more)


def served(url: str) -> str:
    """The file of a model on that server, whatever its address."""
    Path("served.yaml").write_text(
        f"provider: openai\nmodel: mock\nbase_url: {url}\nattempts: 1\nmax_concurrency: 1\n"
        "options: {identity: mock}\n"
    )
    return "served.yaml"


def nowhere() -> str:
    """A URL that nobody serves."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


def check_stopped(result: Result, code: int) -> None:
    assert result.exit_code == code, result.output
    assert "Stopped; all replies are cached. Resume with:\n  mmconv" in result.stderr
    [message] = result.stdout.splitlines()
    assert message.startswith("NOT FINISHED, no results yet: ")
    assert f" of {3 * ROWS} conversations; " in message


def spent(result: Result) -> str:
    """What the budget's line names, which has to be what the last line names."""
    match = re.search(
        r"--max-cost [\d.e-]+: the calls of this session have cost (\$[\d.]+)\n", result.stderr
    )
    assert match is not None
    assert f", {match[1]}; " in result.stdout
    return match[1]


def test_a_server_that_is_not_there_ends_the_run_and_is_named() -> None:
    url = nowhere()
    result = run(*FAKE_JUDGE, "--candidate", served(url), "--wait-for-servers", "0.3")
    check_stopped(result, 1)
    assert (
        "candidate (served) cannot answer: 3 calls failed in a row: "
        f"connection after 1 attempt: no connection to {url} in "
    ) in result.stderr
    assert "use --wait-for-servers SECONDS" in result.stderr
    assert " failed (connection)" in result.stdout


def test_a_wrong_address_ends_it_soon_and_the_right_one_goes_on() -> None:
    with mock_server() as url:
        wrong = run(*FAKE_JUDGE, "--candidate", served(url.replace("/v1", "/v2")))
        check_stopped(wrong, 1)
        assert "3 calls failed in a row: not_found after 1 attempt" in wrong.stderr
        assert "is right: it usually ends in /v1)" in wrong.stderr
        assert run(*FAKE_JUDGE, "--candidate", served(url)).exit_code == 0


def test_a_run_stops_when_it_costs_more_and_goes_on_without_asking_again() -> None:
    stopped = run(*PRICED, "--max-cost", "0.05")
    check_stopped(stopped, 130)
    assert spent(stopped).startswith("$0.0")
    [first] = Path("runs").glob("convbench-*/summary.json")
    requested = orjson.loads(first.read_bytes())["models"]
    assert 0.05 < sum(role["cost_usd"] for role in requested.values()) < 0.1
    assert run(*PRICED, "--max-cost", "100").exit_code == 0
    whole = orjson.loads(first.read_bytes())["models"]
    for name, role in whole.items():
        assert role["cached"] >= requested[name]["requested"] > 0


def test_a_budget_that_the_last_calls_exceed_costs_no_results() -> None:
    one_call = ("--limit", "1", "--conditions", "reasoning_alone", "--no-judge")
    whole = run(*PRICED[:2], *one_call, "--max-cost", "0.000001")
    assert whole.exit_code == 0, whole.output
    assert "Everything is in runs/convbench-" in whole.stdout
    assert spent(whole).startswith("$0.0")


def test_a_model_without_a_price_is_refused_a_budget() -> None:
    result = run(*FAKE_JUDGE, "--candidate", "echo.yaml", "--max-cost", "5")
    assert isinstance(result.exception, ConfigError)
    assert "--max-cost: no price for judge (judge); add `price: {input: 2.5" in str(
        result.exception
    )
    assert not Path("runs").exists()


def test_a_model_that_counts_no_tokens_ends_a_budget_unless_it_is_free() -> None:
    def told_of(price: PriceSpec) -> str | None:
        model = ModelSpec(provider="openai", model="m", price=price)
        spec = RunSpec(benchmark="riddles", models={"candidate": model})
        budget = Budget(5, spec)
        counts = ModelStats(requested=1, session=Tokens(unmetered=1))
        budget.count(spec, RunStats(models={"candidate": counts}))
        return budget.spent()

    assert told_of(PriceSpec(input=0, output=0)) is None
    message = told_of(PriceSpec(input=0, output=1))
    assert message is not None
    assert message.startswith("--max-cost: the cost of candidate (m) is unknown, since its replies")


def test_a_dry_run_tells_what_is_left_to_ask() -> None:
    def message() -> dict[str, list[int]]:
        lines = [line.split() for line in run(*PRICED, "--dry-run").output.splitlines()]
        rows = {line[0]: line for line in lines if line[:1] in (["candidate"], ["judge"])}
        return {name: [*map(int, row[2:5])] for name, row in rows.items()}

    before = {"candidate": [6 * ROWS, 0, 6 * ROWS], "judge": [27 * ROWS, 0, 27 * ROWS]}
    assert message() == before
    run(*PRICED, "--max-cost", "0.05")
    [path] = Path("runs").glob("convbench-*/summary.json")
    roles = orjson.loads(path.read_bytes())["models"]
    for name, (calls, cached, left) in message().items():
        assert calls == before[name][0]
        assert cached == roles[name]["requested"] > 0
        assert left == calls - cached
    run(*PRICED)
    assert {row[2] for row in message().values()} == {0}
