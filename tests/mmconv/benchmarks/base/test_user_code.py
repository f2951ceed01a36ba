"""Exceptions in a user's benchmark: where they were raised, and how to go on."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mmconv.benchmarks.base import Results
from mmconv.cli.shared.session import evaluate
from mmconv.core.config import RunSpec
from mmconv.core.errors import PlanError
from mmconv.core.types import Call, Ref, Reply, Score, Verdict
from mmconv.engine.run import Place, open_evaluation
from tests.example_benchmark import Riddle, Riddles
from tests.messages import user
from tests.mmconv.benchmarks.base.own import build, spec


class MisspeltField(Riddles):
    def plan(self, sample: Riddle, condition: str) -> Iterator[Call]:
        if sample.id == "b":
            yield Call(id=sample.riddel, model="candidate", messages=())  # type: ignore[attr-defined]
        yield from super().plan(sample, condition)


class NoCalls(Riddles):
    def plan(self, sample: Riddle, condition: str) -> Iterator[Call]:
        return None  # type: ignore[return-value]  # as if a return were forgotten


class NoSuchCall(Riddles):
    def plan(self, sample: Riddle, condition: str) -> Iterator[Call]:
        answer, fit = super().plan(sample, condition)
        yield from (answer, replace(fit, messages=(user(Ref(call="x")),)))


class Trusting(Riddles):
    """Takes every outcome for a reply."""

    def score(self, sample: Riddle, results: Results) -> Iterator[Score]:
        yield results.score("words", len(results["answer"].outcome.text))  # type: ignore[union-attr]


class Number(Riddles):
    def score(self, sample: Riddle, results: Results) -> Iterator[Score]:
        yield 1.0  # type: ignore[misc]


class Unbuilt(Riddles):
    def __init__(self, spec: RunSpec) -> None:
        super().__init__(spec)
        self.before = {"a": "Think. "}["b"]


@pytest.mark.parametrize(
    ("kind", "error", "where"),
    [
        (MisspeltField, AttributeError, "sample b, condition free, MisspeltField.plan"),
        (NoCalls, TypeError, "sample a, condition free, NoCalls.plan"),
        (Trusting, AttributeError, "sample a, condition free, Trusting.score"),
        (Number, AttributeError, "sample a, condition free, Number.score"),
    ],
)
def test_an_exception_keeps_its_type_and_has_a_note(
    tmp_path: Path, kind: Any, error: type[Exception], where: str
) -> None:
    with pytest.raises(error) as caught:
        build(tmp_path, kind)
    assert caught.value.__notes__ == [f"raised for {where}"]


def test_an_error_of_mmconv_says_where_it_was_raised(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        build(tmp_path, NoSuchCall)
    where = "sample a, condition free, NoSuchCall.plan"
    assert str(caught.value) == f"{where}: call 'fit' refers to 'x', which no call is named"


class Late(Riddles):
    """Fails on a reply."""

    def score(self, sample: Riddle, results: Results) -> Iterator[Score]:
        if isinstance(results["fit"].outcome, Reply):
            raise LookupError("a reply")
        return super().score(sample, results)


class Misread(Riddles):
    """The parser of its judgement fails."""

    def plan(self, sample: Riddle, condition: str) -> Iterator[Call]:
        answer, fit = super().plan(sample, condition)
        known: dict[str, Verdict] = {}
        yield from (answer, replace(fit, parser=lambda text: known[text]))


class Untabled(Riddles):
    def metrics(self) -> Any:
        raise LookupError("no metric")


@pytest.mark.parametrize(
    ("kind", "error", "where"),
    [
        (Late, LookupError, ", condition free, Late.score"),
        (Misread, KeyError, ", condition free, the parser of fit"),
        (Untabled, LookupError, "raised for the tables of Untabled"),
    ],
)
def test_an_exception_in_a_run_says_how_to_go_on_and_nothing_is_requested_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any, error: Any, where: str
) -> None:
    run, place = spec(tmp_path, kind), Place(out=tmp_path / "runs")

    async def run_once() -> Any:
        async with open_evaluation(run, place) as evaluation:
            return evaluation.folder, await evaluate(evaluation, page=False)

    with pytest.raises(error) as caught:
        asyncio.run(run_once())
    notes = caught.value.__notes__
    assert where in notes[0]
    assert "All replies are cached. Fix the error and " in notes[-1]
    for method in ("score", "metrics"):
        monkeypatch.setattr(kind, method, getattr(Riddles, method))
    monkeypatch.setattr(Misread, "plan", Riddles.plan)
    folder, result = asyncio.run(run_once())
    assert (folder / "tables" / "riddles.md").is_file()
    judge = result.stats.models["judge"]
    assert judge.cached >= 1
    if kind is Untabled:
        assert judge.requested == 0


@pytest.mark.parametrize(
    ("kind", "code", "notes"),
    [
        (MisspeltField, "sample.riddel", ["raised for sample b, condition free, MisspeltField.pl"]),
        (Unbuilt, '{"a": "Think. "}["b"]', ["KeyError: 'b'"]),
        (
            Late,
            'raise LookupError("a reply")',
            ["raised for sample ", "All replies are cached. Fix"],
        ),
    ],
)
def test_lines_of_code_are_printed(tmp_path: Path, kind: Any, code: str, notes: list[str]) -> None:
    data = str(spec(tmp_path, kind).options["data"])
    typed = ["--traceback", "run", f"{__name__}:{kind.__name__}", "--data", data, "--no-page"]
    typed += ["--out", str(tmp_path / "runs"), "--candidate", "fake/echo", "--judge", "fake/judge"]
    command = [sys.executable, "-m", "mmconv", *typed]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    whole, heading, own = done.stderr.rpartition("Traceback (most recent call last):\n")
    line, source, *rest = own.splitlines()
    assert line.startswith(f'  File "{__file__}", line ')
    assert code in source
    assert all(any(note in each for each in rest) for note in notes)
    assert rest[-1] == "`mmconv --traceback COMMAND ...` shows the whole traceback."
    assert heading and "asyncio" in whole and "asyncio" not in own
