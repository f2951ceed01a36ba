"""What the records of a run count while they are taken in, and what its files say to readers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from judges.parsers import rating
from mmconv.benchmarks.registry import TITLES
from mmconv.cli import commands
from mmconv.core.config import ModelSpec
from mmconv.core.errors import DataError
from mmconv.core.plans import Finished, Plan
from mmconv.core.types import Call, Failure, Outcome, Reply, Table
from mmconv.report.comparison.differences import compare
from mmconv.report.page import write_page
from mmconv.report.tables.formats import write_tables
from mmconv.report.writing import RunFolder
from mmconv.run_folder.layout import PAGE, REPORT, SCORES
from mmconv.run_folder.saved_run import read_finished, read_tables
from tests.mmconv.report.runs import ALPHA, SIZE, make_run

READABLE = Reply(text="Good. Rating: [[7]]")
UNREADABLE = Reply(text="Who am I to say?")


def finished(order: int, outcomes: Mapping[str, Outcome]) -> Finished:
    """A plan of an answer and its judgement, which may be asked for once more."""
    answer = Call(id="answer", model="candidate", messages=())
    fallback = Call(id="judgement~retry_1", model="judge", messages=(), parser=rating)
    judgement = replace(fallback, id="judgement", fallbacks=(fallback,))
    plan = Plan(order=order, sample=str(order), condition="free", calls=(answer, judgement))
    return Finished(plan=plan, outcomes=outcomes, resolved={})


def test_a_verdict_is_unread_if_none_of_its_replies_can_be_read(tmp_path: Path) -> None:
    answered: dict[str, Outcome] = {"answer": UNREADABLE}
    failed = Failure(kind="server", message="down", attempts=8)
    all_judged: tuple[dict[str, Outcome], ...] = (
        {"judgement": READABLE},
        {"judgement": UNREADABLE, "judgement~retry_1": READABLE},
        {"judgement": UNREADABLE, "judgement~retry_1": UNREADABLE},
        {"judgement": UNREADABLE, "judgement~retry_1": failed},
        {"judgement": failed},
    )
    with RunFolder(tmp_path / "run").records() as records:
        for order, judged in enumerate(all_judged):
            records.add(finished(order, answered | judged), ())
    quality = records.quality
    assert +quality.judged() == {"read": 1, "read after a retry": 1, "unreadable": 2}
    assert (quality.calls, quality.failed, quality.skipped) == (13, 2, 0)


async def test_tables_of_a_session_before_do_not_stand_beside_new_scores(tmp_path: Path) -> None:
    folder = await make_run("fbbench", tmp_path)
    with suppress(ValueError), RunFolder(folder).records():
        raise ValueError("nothing is written")
    with RunFolder(folder).records() as records:
        records.discard()
    assert read_finished(folder).tables
    with RunFolder(folder).records():
        pass  # a run that is killed now has scores, and not yet their tables
    with pytest.raises(DataError, match=r"the run is not finished: it has no index\.json"):
        read_finished(folder)


@pytest.mark.parametrize("benchmark", TITLES)
async def test_every_table_with_intervals_says_once_what_they_are(
    benchmark: str, tmp_path: Path
) -> None:
    tables = read_tables(await make_run(benchmark, tmp_path) / "tables")
    told = {
        table.name: sum(note.startswith("Brackets hold") for note in table.notes)
        for table in tables
    }
    cells = {
        table.name: [cell for row in table.rows.values() for cell in row.values()]
        for table in tables
    }
    expected = {name: int(any(cell.low is not None for cell in cells[name])) for name in cells}
    assert told == expected
    # its records are too few
    assert 1 in expected.values() or benchmark == "mtbench101"


def test_that_answers_are_not_the_model_s_is_told_wherever_numbers_are(tmp_path: Path) -> None:
    silent = ModelSpec(provider="fake", model="scripted", options={"script": {"(?s).*": ""}})
    folder = asyncio.run(make_run("convbench", tmp_path, silent, page=True, conditions=("free",)))
    told = f"free, turn 1 ({SIZE} of {SIZE}, 100.0 %)"
    report = (folder / REPORT).read_text(encoding="utf-8")
    assert report.index("- **warning**: More than 1 %") < report.index(told) < report.index("S1")
    page = (folder / PAGE).read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    assert page.index(told) < page.index('<section id="headline"')
    printed = CliRunner().invoke(commands, ["score", str(folder)]).stderr
    assert any(line.startswith("WARNING: ") and told in line for line in printed.splitlines())


def before(table: Table) -> Table:
    """The table as it was while filtered answers were counted as cut off."""
    old = "filtered (%)"
    return replace(
        table,
        columns=tuple(column for column in table.columns if column != old),
        rows={
            name: {column: cell for column, cell in row.items() if column != old}
            for name, row in table.rows.items()
        },
    )


def test_runs_of_before_filtered_answers_were_told_apart_are_read(tmp_path: Path) -> None:
    old, new = (
        asyncio.run(make_run("convbench", tmp_path, ALPHA, conditions=("free",), seed=seed))
        for seed in (1, 2)
    )
    scores = (old / SCORES).read_bytes().splitlines(keepends=True)
    kept = [line for line in scores if orjson.loads(line)["metric"] != "filtered"]
    assert len(kept) < len(scores)
    (old / SCORES).write_bytes(b"".join(kept))
    write_tables(old / "tables", [before(table) for table in read_tables(old / "tables")])
    tables = {table.name: table for table in compare([old, new]).tables}
    found = ["filtered (%)" in row for row in tables["answers"].rows.values()]
    assert found == [False, True] * 3
    assert write_page(old).exists()
    result = CliRunner().invoke(commands, ["score", str(old)])
    assert result.exception is None
    assert (old / SCORES).read_bytes() == b"".join(scores)
