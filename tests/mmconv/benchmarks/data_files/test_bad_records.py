"""Malformed files of the four text benchmarks, as a user meets them on the command line.

Each stops before anything is asked, with file, record and field; with --skip-bad-records the run
goes on, and its report lists what was left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result

from mmconv.benchmarks.fbbench import query_id
from mmconv.cli import commands
from mmconv.core.errors import DataError
from tests.mmconv.benchmarks.botchat import samples as botchat
from tests.mmconv.benchmarks.cmteval import dialogues as cmteval
from tests.mmconv.benchmarks.fbbench import samples as fbbench
from tests.mmconv.benchmarks.mtbench101 import dialogues as mtbench101

FAKES = ("--candidate", "fake/echo", "--judge", "fake/judge")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """A benchmark's file of good records and a bad one, the last, and what must be said of it.

    `text` stands there instead of a record, as it is.
    """

    benchmark: str
    file: str
    good: tuple[Any, ...]
    record: Any
    told: str


GOOD_TALKS = (botchat.record(1), botchat.record(2))
GOOD_SAMPLES = (fbbench.correction(1), fbbench.maintenance(2))
GOOD_TURNS = tuple(mtbench101.records()[:2])
GOOD_DIALOGUES = (cmteval.record("1"), cmteval.record("2"))


def talk(told: str, **fields: Any) -> Bad:
    record = botchat.record(3, **fields)
    return Bad(benchmark="botchat", file="a.jsonl", good=GOOD_TALKS, record=record, told=told)


def sample(told: str, **fields: Any) -> Bad:
    record = fbbench.correction(3, **fields)
    return Bad(benchmark="fbbench", file="a.json", good=GOOD_SAMPLES, record=record, told=told)


def golden(told: str, **fields: Any) -> Bad:
    record = {**mtbench101.records()[2], **fields}
    return Bad(benchmark="mtbench101", file="a.jsonl", good=GOOD_TURNS, record=record, told=told)


def dialogue(told: str, turn: int = 1, **fields: Any) -> Bad:
    record = cmteval.record("3")
    record["会话内容"][turn - 1].update(fields)
    return Bad(
        benchmark="cmteval",
        file="standard_data.json",
        good=GOOD_DIALOGUES,
        record=record,
        told=told,
    )


def instead(bad: Bad, record: Any, told: str) -> Bad:
    """The same file with something else in the place of its bad record."""
    return replace(bad, record=record, told=told)


BAD: dict[str, Bad] = {
    "botchat, wrong JSON in a cell": talk(
        "a.jsonl line 3 (index MT-3): conv-GT: not a JSON list of utterances",
        **{"conv-GT": '["Hi", '},
    ),
    "botchat, wrong JSON": instead(talk(""), "{", "a.jsonl line 3: not JSON"),
    "fbbench, an empty field": sample(
        f"a.json item 3 (id {query_id(fbbench.correction(3))}): feedback is empty", feedback=None
    ),
    "fbbench, no object": instead(sample(""), [1, 2], "a.json item 3: holds a list, not an object"),
    "mtbench101, an empty utterance": golden(
        "a.jsonl line 3 (id 3): history[1].user is empty", history=[{"user": "", "bot": "b"}] * 2
    ),
    "cmteval, an unknown speech act": dialogue(
        "standard_data.json item 3 (id standard/3): 会话内容[2].言语行为: '唱歌' must be one of",
        turn=2,
        言语行为="反馈+唱歌",
    ),
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path) -> Iterator[Path]:
    before = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


def write(bad: Bad) -> None:
    records = [*bad.good, bad.record]
    if bad.file.endswith(".json"):
        Path(bad.file).write_bytes(orjson.dumps(records))
        return
    lines = [each.encode() if isinstance(each, str) else orjson.dumps(each) for each in records]
    Path(bad.file).write_bytes(b"\n".join(lines))


def run(bad: Bad, *more: str) -> Result:
    return CliRunner().invoke(
        commands, ["run", bad.benchmark, "--data", bad.file, *FAKES, "--out", "runs", *more]
    )


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_record_stops_a_run_before_anything_is_asked(bad: Bad) -> None:
    write(bad)
    result = run(bad)
    assert isinstance(result.exception, DataError)
    assert bad.told in str(result.exception)
    assert "--skip-bad-records continues with the 2 good records." in str(result.exception)
    assert not list(Path("runs").glob("*/"))


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_run_goes_on_without_bad_records_and_lists_them(bad: Bad) -> None:
    write(bad)
    result = run(bad, "--skip-bad-records")
    assert result.exit_code == 0, result.output
    where, _, fault = bad.told.partition(": ")
    where, fault = (each.replace("_", r"\_") for each in (where, fault))
    [report] = Path("runs").glob("*/report.md")
    text = report.read_text()
    assert "1 of 3 records is left out as bad (--skip-bad-records): see the table left" in text
    assert f"| {where} | " in text
    assert fault in text
    assert "see the table left_out" in result.output
