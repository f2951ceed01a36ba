"""A run beside others: stopped by a bug, written aside, told when it is not finished."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import orjson
import pytest

from mmconv.benchmarks.base import Fields
from mmconv.config import ModelSpec, RunSpec
from mmconv.errors import ConfigError, PlanError
from mmconv.evaluation import Place, open_evaluation
from mmconv.report.output import Records
from mmconv.values import Call, Message, Ref
from tests.example_benchmark import Riddles

RECORDS = 500
SEATS = {seat: ModelSpec(provider="fake", model="judge") for seat in ("candidate", "judge")}


class Broken(Riddles):
    """Its last plan refers to a call that there is not, and nothing looks at it beforehand."""

    name = "broken"

    def check_plans(self) -> None:
        """The runner has plans of other benchmarks too."""

    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        calls = super().plan(sample, condition)
        if sample["id"] != str(RECORDS - 1):
            return calls
        nobody = Message(role="user", parts=(Ref(call="nobody"),))
        return (*calls, Call(id="more", seat="candidate", messages=(nobody,)))


def spec(
    folder: Path, benchmark: str = "tests.example_benchmark:Riddles", rows: int = 3
) -> RunSpec:
    data = folder / "data.jsonl"
    records = [{"id": str(number), "riddle": f"What is {number}?"} for number in range(rows)]
    data.write_bytes(b"\n".join(map(orjson.dumps, records)))
    return RunSpec(benchmark=benchmark, options={"data": str(data)}, seats=SEATS)


async def test_a_broken_plan_is_named_and_what_was_answered_is_kept(tmp_path: Path) -> None:
    broken = spec(tmp_path, "tests.mmconv.test_evaluation:Broken", RECORDS)
    place = Place(out=tmp_path / "runs")
    async with open_evaluation(broken, place) as evaluation:
        stopped = evaluation.runner()
        with pytest.raises(PlanError, match=r"sample 499, free: call 'more' refers to 'nobody'"):
            await evaluation.run(stopped)
        assert not evaluation.folder.joinpath("manifest.json").exists()
    async with open_evaluation(spec(tmp_path, rows=RECORDS), place) as evaluation:
        mended = evaluation.runner()
        await evaluation.run(mended, page=False)
    assert mended.tally.seats["candidate"].stored >= stopped.tally.seats["candidate"].asked > 0


async def test_a_name_that_makes_no_folder_is_refused(tmp_path: Path) -> None:
    """The database has room for whatever a folder may be called."""
    named = SEATS["candidate"].model_copy(update={"name": "x" * 300})
    long = spec(tmp_path).model_copy(update={"seats": SEATS | {"candidate": named}})
    async with open_evaluation(long, Place(out=tmp_path / "runs")) as evaluation:
        with pytest.raises(ConfigError, match=r"cannot make .*: File name too long"):
            await evaluation.run(evaluation.runner())


async def test_records_are_written_while_the_loop_serves_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_in: list[threading.Thread] = []
    leave = Records.__exit__

    def noted(records: Records, *failed: object) -> None:
        written_in.append(threading.current_thread())
        leave(records, *failed)  # type: ignore[arg-type]  # what it was called with

    monkeypatch.setattr(Records, "__exit__", noted)
    async with open_evaluation(spec(tmp_path), Place(out=tmp_path / "runs")) as evaluation:
        await evaluation.run(evaluation.runner(), page=False)
    [thread] = written_in
    assert thread is not threading.current_thread()


async def test_two_runs_of_one_folder_at_once_spoil_nothing(tmp_path: Path) -> None:
    place = Place(out=tmp_path / "runs")
    async with (
        open_evaluation(spec(tmp_path), place) as one,
        open_evaluation(spec(tmp_path), place) as other,
    ):
        results = await asyncio.gather(
            one.run(one.runner(), page=False), other.run(other.runner(), page=False)
        )
    assert [result.complete for result in results] == [True, True]
    assert one.folder == other.folder
    assert len((one.folder / "scores.jsonl").read_bytes().splitlines()) == 3
    assert not [*one.folder.rglob("*.part")]
