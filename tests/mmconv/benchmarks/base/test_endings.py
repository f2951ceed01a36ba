"""How answers ended, in each benchmark's own table: an empty one is judged, and counted."""

from pathlib import Path

import pytest

from mmconv.benchmarks.base.endings import (
    EMPTY,
    FILTERED,
    METRICS,
    SHARES,
    TOKENS,
    TRUNCATED,
    endings,
)
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.types import Failure, Finish, Reply, Table
from mmconv.engine.run import Place, open_evaluation
from mmconv.report.tables.cells import in_words
from tests.mmconv.benchmarks.few_records import DATA

SILENT = ModelSpec(provider="fake", model="scripted", options={"script": {".*": ""}})
JUDGE = ModelSpec(provider="fake", model="judge")


async def table_of_endings(benchmark: str, folder: Path) -> Table:
    """The benchmark's table of endings, of a candidate that says nothing."""
    spec = RunSpec(
        benchmark=benchmark,
        options=DATA[benchmark](folder),
        models={"candidate": SILENT, "judge": JUDGE},
    )
    async with open_evaluation(spec, Place(out=folder / "runs")) as evaluation:
        result = await evaluation.run(evaluation.runner())
    assert result.stats.models["judge"].ended
    [table] = [table for table in result.tables if SHARES[TRUNCATED] in table.columns]
    return table


@pytest.mark.parametrize("benchmark", DATA)
async def test_empty_answers_are_counted(tmp_path: Path, benchmark: str) -> None:
    table = await table_of_endings(benchmark, tmp_path)
    assert "empty (%)" in table.columns
    assert {row["empty (%)"].value for row in table.rows.values()} == {100.0}
    for column in ("cut off (%)", "filtered (%)"):
        assert {row[column].value for row in table.rows.values()} == {0.0}


def ended(reply: Reply) -> dict[str, float | None]:
    return {metric: value for metric, value, _ in endings(reply)}


@pytest.mark.parametrize(("text", "empty"), [("", 1.0), (" \n", 1.0), ("No.", 0.0)])
def test_blanks_alone_are_no_answer(text: str, empty: float) -> None:
    assert ended(Reply(text=text))[EMPTY] == empty


@pytest.mark.parametrize(
    ("finish", "counts"), [("stop", (0, 0)), ("length", (1, 0)), ("filter", (0, 1))]
)
def test_a_filter_is_no_limit(finish: Finish, counts: tuple[int, int]) -> None:
    found = ended(Reply(text="I cannot", finish=finish))
    assert (found[TRUNCATED], found[FILTERED]) == counts


def test_tokens_are_told_or_not() -> None:
    assert ended(Reply(text="No.", output_tokens=2))[TOKENS] == 2.0
    [message] = [each for each in endings(Reply(text="No.")) if each[0] == TOKENS]
    assert message == (TOKENS, None, "not reported by the server")


def test_what_a_filter_left_nothing_of_is_filtered_and_else_missing() -> None:
    failed = Failure(kind="filter", message="held back", attempts=1)
    found = {metric: (value, why) for metric, value, why in endings(failed)}
    assert found.pop(FILTERED) == (1.0, None)
    assert set(found.values()) == {(None, "failed: filter")}
    assert in_words("failed: filter") == ("", "held back by a content filter")


def test_what_failed_did_not_end() -> None:
    failed = Failure(kind="context", message="too long", attempts=1)
    assert [*endings(failed)] == [(metric, None, "failed: context") for metric in METRICS]
