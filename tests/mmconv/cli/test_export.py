"""Which runs are exported; what is written then, `tests.mmconv.report.exports` holds.

The module that needs the package inspect-ai is a stand-in here.
"""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mmconv.cli import results
from mmconv.core.errors import DataError
from mmconv.core.plans import Finished
from tests.mmconv.processes import typed
from tests.mmconv.riddle_desk import ROWS, Desk, riddles
from tests.mmconv.test_scoring_again import desk

__all__ = ["desk"]


@pytest.fixture(autouse=True)
def written(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """The samples of each log that was written."""
    logs: list[list[Any]] = []

    class Log:
        def __init__(self, *_: object) -> None:
            self.samples: list[str] = []

        def add(self, finished: Finished, _sample: Any) -> None:
            self.samples.append(finished.plan.sample)

        def write(self, _path: Path) -> None:
            logs.append(sorted(self.samples))

    monkeypatch.setattr(results, "find_spec", lambda _: True)
    module = SimpleNamespace(Log=Log)
    monkeypatch.setitem(sys.modules, "mmconv.report.exports.inspect_log", module)
    return logs


def exported(folder: Path) -> None:
    out = folder.with_name("run.eval")
    result = typed("export", str(folder), "--to", "inspect", "--out", str(out))
    if result.exception is not None:
        raise result.exception


def test_a_run_is_exported_wherever_it_lies(desk: Desk, written: list[list[Any]]) -> None:
    desk.run()
    exported(desk.folder.rename(desk.folder.with_name("renamed")))
    assert written == [[str(number) for number in range(1, ROWS + 1)]]


def test_a_run_is_not_exported_with_other_data(desk: Desk, written: list[list[Any]]) -> None:
    desk.run()
    desk.write(*riddles()[:-1], {"id": ROWS, "riddle": "What is that?"})
    with pytest.raises(DataError) as caught:
        exported(desk.folder)
    assert caught.value.problems == (
        f"the run was finished, and {desk.store} has no reply to 2 of its calls now",
        "riddles.jsonl has changed since the run",
    )
    assert written == []


def test_data_that_differ_beside_requests_are_scored(desk: Desk, written: list[list[Any]]) -> None:
    """Scores may be read off what no model is shown, and the log would call them the run's."""
    desk.run()
    desk.write(*({**riddle, "source": "folklore"} for riddle in riddles()))
    with pytest.raises(DataError) as caught:
        exported(desk.folder)
    assert caught.value.problems == ("riddles.jsonl has changed since the run",)
    assert "run `mmconv score` on the folder and export the results" in str(caught.value)
    assert written == []
    desk.score()
    exported(desk.folder)
    assert len(written) == 1
