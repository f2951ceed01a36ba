"""Several projects that share one folder of runs, each with data of the same name."""

import shutil
from pathlib import Path

import orjson
import pytest

from mmconv.core.config import ModelSpec, RunSpec
from mmconv.engine.run import Place, Result, open_evaluation

SPEC = RunSpec(
    benchmark="tests.example_benchmark:Riddles",
    options={"data": "data.jsonl"},
    models={
        "candidate": ModelSpec(provider="fake", model="echo"),
        "judge": ModelSpec(provider="fake", model="judge"),
    },
)


def project(path: Path, *riddles: str) -> Path:
    path.mkdir(exist_ok=True)
    rows = [{"id": str(place), "riddle": riddle} for place, riddle in enumerate(riddles)]
    (path / "data.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "runs"


async def run(out: Path, spec: RunSpec = SPEC) -> tuple[Result, tuple[str, ...]]:
    async with open_evaluation(spec, Place(out=out)) as evaluation:
        changed = evaluation.changed()
        return await evaluation.run(evaluation.runner(), page=False), changed


async def test_the_same_data_are_the_same_run_wherever_they_lie(
    tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = []
    for name in ("first", "second"):
        monkeypatch.chdir(project(tmp_path / name, "What has keys?"))
        result, changed = await run(out)
        folders.append(result.folder)
        assert not changed
    assert folders[0] == folders[1]


async def test_a_project_that_was_moved_may_mend_its_data(
    tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = project(tmp_path / "before", "What has keys?")
    monkeypatch.chdir(before)
    await run(out)
    after = Path(shutil.move(before, tmp_path / "after"))
    monkeypatch.chdir(project(after, "What has teeth?"))
    _, [message] = await run(out)
    assert "data.jsonl has changed since the run" in message
