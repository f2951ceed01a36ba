"""The code of a benchmark of one's own that fails: told with the sample and its own lines."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from images import ImageStore
from mmconv.benchmarks.base import Calls, Fields, FileBenchmark, Outcomes, Scores
from mmconv.cli import commands
from mmconv.cli.shared.session import evaluate
from mmconv.core.config import RunSpec
from mmconv.core.errors import ConfigError, UserCodeError
from mmconv.core.protocols import ImageSink
from mmconv.core.types import Call, Message, Ref, Reply, Score, Table, Verdict
from mmconv.engine.run import Evaluation, Place, open_evaluation
from mmconv.engine.setup import build_benchmark
from tests.example_benchmark import Riddles
from tests.mmconv.benchmarks.base.own import spec


def refused(folder: Path, kind: type[FileBenchmark]) -> str:
    """What building refuses the benchmark with."""
    with pytest.raises(UserCodeError) as caught:
        build_benchmark(spec(folder, kind), ImageStore())
    return str(caught.value)


class MisspeltField(Riddles):
    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        if sample["id"] == "b":
            return (Call(id=sample["riddel"], seat="candidate", messages=()),)
        return super().plan(sample, condition)


class NoCalls(Riddles):
    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        super().plan(sample, condition)
        return None  # type: ignore[return-value]  # as one forgets a return


class NoCall(Riddles):
    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        return (*super().plan(sample, condition), "fit")  # type: ignore[arg-type]


class NoSuchCall(Riddles):
    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        answer, fit = super().plan(sample, condition)
        nobody = Message(role="user", parts=(Ref(call="nobody"),))
        return answer, replace(fit, messages=(nobody,))


class MisspeltScore(Riddles):
    def score(self, sample: Fields, condition: str, calls: Calls, outcomes: Outcomes) -> Scores:
        yield Score(sample=sample["id"], condition=condition, metrik="fit", value=1.0)  # type: ignore[call-arg]


class Trusting(Riddles):
    """Takes every outcome for a reply."""

    def score(self, sample: Fields, condition: str, calls: Calls, outcomes: Outcomes) -> Scores:
        said = outcomes["answer"].text  # type: ignore[union-attr]
        yield Score(sample=sample["id"], condition=condition, metric="words", value=len(said))


class Number(Riddles):
    def score(self, sample: Fields, condition: str, calls: Calls, outcomes: Outcomes) -> Scores:
        yield 1.0  # type: ignore[misc]


class OtherSample(Riddles):
    def score(self, sample: Fields, condition: str, calls: Calls, outcomes: Outcomes) -> Scores:
        yield Score(sample=sample["riddle"], condition=condition, metric="fit", value=1.0)


class OtherCondition(Riddles):
    def score(self, sample: Fields, condition: str, calls: Calls, outcomes: Outcomes) -> Scores:
        yield Score(sample=sample["id"], condition="fre", metric="fit", value=1.0)


@pytest.mark.parametrize(
    ("kind", "where", "told"),
    [
        (MisspeltField, "MisspeltField.plan of sample 'b'", "KeyError: 'riddel'"),
        (NoCalls, "NoCalls.plan of sample 'a'", "gives None, and no Calls in a tuple: return one"),
        (NoCall, "NoCall.plan of sample 'a'", "gives 'fit', which is no Call"),
        (NoSuchCall, "NoSuchCall.plan of sample 'a'", "call 'fit' refers to 'nobody'"),
        (
            MisspeltScore,
            "MisspeltScore.score of sample 'a'",
            "unexpected keyword argument 'metrik'",
        ),
        (Trusting, "Trusting.score of sample 'a'", "'Skipped' object has no attribute 'text'"),
        (Number, "Number.score of sample 'a'", "gives 1.0, which is no Score"),
        (
            OtherSample,
            "OtherSample.score of sample 'a'",
            "'fit' is scored for sample 'Who is a?' under free",
        ),
        (
            OtherCondition,
            "OtherCondition.score of sample 'a'",
            "'fit' is scored for sample 'a' under fre",
        ),
    ],
)
def test_what_fails_is_told_before_anything_is_asked(
    tmp_path: Path, kind: type[FileBenchmark], where: str, told: str
) -> None:
    message = refused(tmp_path, kind)
    assert message.startswith(f"{where} under free")
    assert told in message


class Unbuilt(Riddles):
    def __init__(self, spec: RunSpec, images: ImageSink) -> None:
        super().__init__(spec, images)
        self.before = {"a": "Think. "}["b"]


class MisspeltKey(Riddles):
    def key(self, sample: Fields) -> str:
        return sample["ID"]


class NumberedKey(Riddles):
    def key(self, sample: Fields) -> str:
        return int(sample["id"], 16)  # type: ignore[return-value]


class MisspeltAbout(Riddles):
    def about(self, sample: Fields) -> Mapping[str, str]:
        return {"riddle": sample["riddel"]}


class NothingAbout(Riddles):
    def about(self, sample: Fields) -> Mapping[str, str]:
        return None  # type: ignore[return-value]


class Unloaded(Riddles):
    def load(self) -> Iterator[Fields]:
        yield from super().load()
        raise LookupError("no more")


class Unclustered(Riddles):
    def clustered(self, sample: Fields, scores: tuple[Score, ...]) -> tuple[Score, ...]:
        raise LookupError("no cluster")


@pytest.mark.parametrize(
    ("kind", "where", "told"),
    [
        (Unbuilt, f"{__name__}:Unbuilt.__init__ fails\n", "KeyError: 'b'"),
        (MisspeltKey, "MisspeltKey.key of the record with id 'a' fails\n", "KeyError: 'ID'"),
        (NumberedKey, "NumberedKey.key of the record with id 'a' gives", "10, which is no str"),
        (MisspeltAbout, "MisspeltAbout.about of sample 'a' fails\n", "KeyError: 'riddel'"),
        (NothingAbout, "NothingAbout.about of sample 'a' gives", "None, which is no Mapping"),
        (Unloaded, "Unloaded.load fails\n", "LookupError: no more"),
        (Unclustered, "Unclustered.clustered of sample 'a' fails\n", "LookupError: no cluster"),
    ],
)
def test_what_else_fails_is_told_before_anything_is_asked(
    tmp_path: Path, kind: type[FileBenchmark], where: str, told: str
) -> None:
    message = refused(tmp_path, kind)
    assert message.startswith(where)
    assert told in message
    assert (f'"{__file__}", line ' in message) == ("fails" in where)


class Misread(Riddles):
    """Its judge's parser takes every reply for a number."""

    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        answer, fit = super().plan(sample, condition)
        known: dict[str, Verdict] = {}
        return answer, replace(fit, parser=lambda text: known[text])


class Untyped(Riddles):
    """Its judge's parser gives a number."""

    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        answer, fit = super().plan(sample, condition)
        return answer, replace(fit, parser=lambda text: 1.0)  # type: ignore[arg-type,return-value]


class Untabled(Riddles):
    def tables(self, scores: Scores) -> Sequence[Table]:
        return [{score.metric: score for score in scores}["misspelt"]]  # type: ignore[list-item]


class NoTable(Riddles):
    def tables(self, scores: Scores) -> Sequence[Table]:
        return ["fit"]  # type: ignore[list-item]


class Unfounded(Riddles):
    @property
    def facts(self) -> Mapping[str, Any]:
        return {"riddles": super().facts["misspelt"]}


KEPT = "What was answered is kept. Mend it, and give the same command again."


@pytest.mark.parametrize(
    ("kind", "where", "told", "advice"),
    [
        (Misread, "Misread: the parser of call 'fit' of sample '", "KeyError: ", KEPT),
        (Untyped, "Untyped: the parser of call 'fit' of sample '", "which is no Verdict", KEPT),
        (Untabled, "Untabled.tables fails\n", "KeyError: 'misspelt'", ""),
        (NoTable, "NoTable.tables gives 'fit', which is no Table", "", ""),
        (Unfounded, "Unfounded.facts fails\n", "KeyError: 'misspelt'", ""),
    ],
)
def test_what_fails_later_is_told_with_what_makes_the_results_after_the_mend(
    tmp_path: Path, kind: type[FileBenchmark], where: str, told: str, advice: str
) -> None:
    built = spec(tmp_path, kind)
    out = tmp_path / "runs"

    async def run(*, offline: bool = False) -> Evaluation:
        async with open_evaluation(built, Place(out=out)) as evaluation:
            with pytest.raises(UserCodeError) as caught:
                await evaluate(evaluation, offline=offline)
            message = str(caught.value)
            assert message.startswith(where)
            assert told in message
            scored = f"All that was asked is kept. Mend it; `mmconv score {evaluation.folder}` "
            assert message.splitlines()[-1].startswith(advice or scored)
            return evaluation

    folder = asyncio.run(run()).folder
    if advice:
        return
    # the same class, mended: only its name is known
    mended = CliRunner().invoke(commands, ["score", str(folder)])
    assert isinstance(mended.exception, UserCodeError)
    with pytest.MonkeyPatch.context() as patched:
        for method in ("tables", "facts"):
            patched.setattr(kind, method, getattr(Riddles, method))
        mended = CliRunner().invoke(commands, ["score", str(folder)])
    assert mended.exit_code == 0, mended.output
    assert (folder / "tables").is_dir()
    assert "6 replies reused" in mended.output


def test_the_lines_are_those_of_ones_own_code(tmp_path: Path) -> None:
    message = refused(tmp_path, MisspeltField)
    files = [line for line in message.splitlines() if line.startswith("  File ")]
    assert [f'"{__file__}"' in line and line.endswith("in plan") for line in files] == [True]
    assert 'sample["riddel"]' in message


class Late(Riddles):
    """Scores what is lost, and fails on a reply."""

    def score(self, sample: Fields, condition: str, calls: Calls, outcomes: Outcomes) -> Scores:
        if isinstance(outcomes["fit"], Reply):
            raise ValueError("a reply")
        return super().score(sample, condition, calls, outcomes)


async def test_what_fails_on_a_reply_is_told_and_what_was_answered_is_kept(tmp_path: Path) -> None:
    place = Place(out=tmp_path / "runs")
    async with open_evaluation(spec(tmp_path, Late), place) as evaluation:
        runner = evaluation.runner()
        with pytest.raises(
            UserCodeError, match=r"^Late.score of sample '[abc]' under free fails\n"
        ):
            await evaluation.run(runner)
    async with open_evaluation(spec(tmp_path, Riddles), place) as evaluation:
        mended = evaluation.runner()
        await evaluation.run(mended, page=False)
    assert mended.stats.seats["judge"].stored >= 1


def test_a_terminal_shows_no_line_of_asyncio(tmp_path: Path) -> None:
    run = tmp_path / "run.yaml"
    built = spec(tmp_path, MisspeltField)
    run.write_text(f"benchmark: {built.benchmark}\n", encoding="utf-8")
    typed = ["run", str(run), "--data", str(built.options["data"]), "--out", str(tmp_path / "runs")]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mmconv",
            *typed,
            "--candidate",
            "fake/echo",
            "--judge",
            "fake/judge",
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(
        "Error: MisspeltField.plan of sample 'b' under free fails\n  File "
    )
    assert "asyncio" not in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.endswith("`mmconv --traceback COMMAND ...` shows the whole traceback.\n")


class Stateful(Riddles):
    """Sets what it plans with once the base class is ready."""

    def __init__(self, spec: RunSpec, images: ImageSink) -> None:
        super().__init__(spec, images)
        self.before = {sample["id"]: "Think. " for sample in self.load()}

    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        asked = Fields({**sample, "riddle": self.before[sample["id"]] + sample["riddle"]})
        return super().plan(asked, condition)


def test_state_may_be_set_below_super(tmp_path: Path) -> None:
    built: Any = build_benchmark(spec(tmp_path, Stateful), ImageStore())
    first, *_ = built.load()
    answer, _ = built.plan(first, "free")
    assert answer.messages[0].parts[0].text == "Think. Who is a?"


class SeatOfTheLast(Riddles):
    """Asks a helper about the last sample only."""

    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        answer, fit = super().plan(sample, condition)
        return (answer, replace(fit, seat="helper") if sample["id"] == "c" else fit)


def test_a_seat_that_only_a_later_sample_asks_needs_a_model(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="riddles needs a model: name a helper"):
        build_benchmark(spec(tmp_path, SeatOfTheLast), ImageStore())


class Unscored(FileBenchmark):
    name = "unscored"
    fields = ("riddle",)

    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        return ()


class Unnamed(FileBenchmark):
    fields = ("riddle",)
    plan = Riddles.plan
    score = Riddles.score


class OneText(Riddles):
    fields = "riddle"  # type: ignore[assignment]  # as one forgets the comma


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (
            Unscored,
            "'tests.mmconv.benchmarks.base.test_own_methods:Unscored' does not define score",
        ),
        (Unnamed, "Unnamed is a benchmark without `name`: set it"),
        (OneText, r"OneText.fields is 'riddle', and no tuple: write \('riddle',\)"),
    ],
)
def test_what_a_class_lacks_is_told(tmp_path: Path, kind: type[FileBenchmark], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        build_benchmark(spec(tmp_path, kind), ImageStore())
