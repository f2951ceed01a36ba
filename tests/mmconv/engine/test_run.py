"""A run beside others: stopped by a bug, written aside, told when it is not finished."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import orjson
import pytest

from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.errors import ConfigError, PlanError
from mmconv.core.types import Call, Ref
from mmconv.engine.run import Place, open_evaluation
from mmconv.run_folder.saved_run import find_unfinished
from tests.example_benchmark import Riddle, Riddles
from tests.messages import user

RECORDS = 150
ROLES = {role: ModelSpec(provider="fake", model="judge") for role in ("candidate", "judge")}


class Broken(Riddles):
    """Its last plan refers to a call that there is not, and nothing looks at it beforehand."""

    name = "broken"

    def check_plans(self) -> None:
        """The runner has plans of other benchmarks too."""

    def plan(self, sample: Riddle, condition: str) -> Iterator[Call]:
        yield from super().plan(sample, condition)
        if sample.id == str(RECORDS - 1):
            nobody = user(Ref(call="nobody"))
            yield Call(id="more", model="candidate", messages=(nobody,))


def spec(
    folder: Path, benchmark: str = "tests.example_benchmark:Riddles", rows: int = 3
) -> RunSpec:
    data = folder / "data.jsonl"
    records = [{"id": str(number), "riddle": f"What is {number}?"} for number in range(rows)]
    data.write_bytes(b"\n".join(map(orjson.dumps, records)))
    return RunSpec(benchmark=benchmark, options={"data": str(data)}, models=ROLES)


async def test_a_broken_plan_is_named_and_what_was_answered_is_kept(tmp_path: Path) -> None:
    broken = spec(tmp_path, "tests.mmconv.engine.test_run:Broken", RECORDS)
    place = Place(out=tmp_path / "runs")
    async with open_evaluation(broken, place) as evaluation:
        stopped = evaluation.runner()
        with pytest.raises(PlanError, match=r"sample 149, free: call 'more' refers to 'nobody'"):
            await evaluation.run(stopped)
        assert evaluation.folder.exists()
        assert not evaluation.folder.joinpath("manifest.json").exists()
    async with open_evaluation(spec(tmp_path, rows=RECORDS), place) as evaluation:
        mended = evaluation.runner()
        await evaluation.run(mended, page=False)
    assert (
        mended.stats.models["candidate"].cached >= stopped.stats.models["candidate"].requested > 0
    )


async def test_a_name_that_makes_no_folder_is_refused(tmp_path: Path) -> None:
    """The database has room for whatever a folder may be called."""
    named = ROLES["candidate"].model_copy(update={"name": "x" * 300})
    long = spec(tmp_path).model_copy(update={"models": ROLES | {"candidate": named}})
    async with open_evaluation(long, Place(out=tmp_path / "runs")) as evaluation:
        with pytest.raises(ConfigError, match=r"cannot make .*: File name too long"):
            await evaluation.run(evaluation.runner())


@pytest.mark.parametrize("slow", ["report.writing.remove_tables", "engine.run.trial_notes"])
async def test_records_are_written_and_read_while_the_loop_serves_others(
    slow: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done_in: list[threading.Thread] = []
    do = resolve_name(f"mmconv.{slow}")

    def noted(*arguments: object) -> object:
        done_in.append(threading.current_thread())
        return do(*arguments)

    monkeypatch.setattr(f"mmconv.{slow}", noted)
    async with open_evaluation(spec(tmp_path), Place(out=tmp_path / "runs")) as evaluation:
        await evaluation.run(evaluation.runner(), page=False)
    [thread] = done_in
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
    scores = map(orjson.loads, (one.folder / "scores.jsonl").read_bytes().splitlines())
    assert sorted(score["sample"] for score in scores if score["metric"] == "fit") == [*"012"]
    assert not [*one.folder.rglob("*.part")]


async def test_other_versions_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(out=tmp_path / "runs")

    async def run() -> tuple[Path, tuple[str, ...]]:
        async with open_evaluation(spec(tmp_path), place) as evaluation:
            changed = evaluation.changed()
            await evaluation.run(evaluation.runner(), page=False)
            return evaluation.folder, changed

    def installed(**packages: str) -> None:
        versions = {"mmconv": "0.1.0", "python": "3.11", "packages": packages}
        monkeypatch.setattr("mmconv.engine.run.software", lambda: versions)

    installed(torch="2.1", transformers="5.0")
    folder, changed = await run()
    assert not changed
    installed(torch="2.1", transformers="5.1", vllm="0.3")
    _, [message] = await run()
    asked = "earlier replies were made with transformers 5.0 (5.1 now)."
    assert message == f"{folder}: {asked}"
    assert (await run())[1] == ()


async def test_a_stopped_run_leaves_earlier_scores_with_their_sources(
    tmp_path: Path,
) -> None:
    place = Place(out=tmp_path / "runs")

    async def run(*, stopped: bool = False) -> tuple[Path, tuple[str, ...]]:
        async with open_evaluation(spec(tmp_path, rows=rows), place) as evaluation:
            changed, runner = evaluation.changed(), evaluation.runner()
            if stopped:
                runner.stop()
            await evaluation.run(runner, page=False)
            return evaluation.folder, changed

    def hashes() -> object:
        return orjson.loads((folder / "manifest.json").read_bytes())["provenance"]["data"]

    rows = 3
    folder, changed = await run(stopped=True)
    first = hashes()
    assert not changed
    assert find_unfinished(folder) == "it has no scores.jsonl"
    rows = 4
    _, changed = await run()
    scored = hashes()
    assert not changed
    assert scored != first
    assert find_unfinished(folder) is None
    rows = 5
    for stopped in (True, False):
        _, [message] = await run(stopped=stopped)
        assert message == (
            f"{folder}: data.jsonl has changed since the run. The results there will be replaced."
        )
        assert (hashes() == scored) == stopped
        assert (find_unfinished(folder) is not None) == stopped
