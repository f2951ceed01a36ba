"""What a benchmark declares and plans: checked before anything is paid for."""

import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
import pytest
from click.testing import CliRunner
from pydantic import Field

from images import ImageStore
from judges import parse_prompt
from mmconv.benchmarks.base import Benchmark, Condition, Options, Results
from mmconv.cli import commands
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.errors import ConfigError
from mmconv.core.keys import hash_bytes, hash_file
from mmconv.core.plans import Finished, Plan
from mmconv.core.types import UNASKED, Call, Score, Skipped
from mmconv.engine.run import Place, open_evaluation
from mmconv.engine.setup import build_benchmark
from tests import example_benchmark
from tests.example_benchmark import Riddle, Riddles
from tests.messages import user
from tests.mmconv.benchmarks.base.own import build, spec


class Unscored(Benchmark[Riddle, Options]):
    name = "unscored"

    def plan(self, sample: Riddle, condition: str) -> tuple[Call, ...]:
        return ()


class Unnamed(Benchmark[Riddle, Options]):
    def plan(self, sample: Riddle, condition: str) -> tuple[Call, ...]:
        return ()

    def score(self, sample: Riddle, results: Results) -> tuple[Score, ...]:
        return ()


class Untyped(Benchmark):  # type: ignore[type-arg]  # as if the types were forgotten
    name = "untyped"
    plan, score = Unnamed.plan, Unnamed.score


class Slashed(Riddles):
    name = "my quiz/a"


class OneText(Riddles):
    conditions = "free"  # type: ignore[assignment]  # as if the comma were forgotten


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (Unscored, f"'{__name__}:Unscored' does not define score"),
        (Unnamed, "Unnamed.name must be set, of letters, digits"),
        (Slashed, "Slashed.name must be set, of letters, digits"),
        (Untyped, r"must name its types: class Untyped\(Benchmark\[MySample, Options\]\)"),
        (OneText, r"OneText.conditions must be a tuple: \('free',\)"),
    ],
)
def test_a_wrong_class_is_refused(tmp_path: Path, kind: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        build(tmp_path, kind)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("tests.example_benchmark:Ridles", "has no Ridles; did you mean Riddles"),
        ("tests.no_such_module:Riddles", "module 'tests.no_such_module' is not on Python's path"),
        ("mine_with_typo:X", "imports 'judgs'"),
        ("tests.example_benchmark:Riddle", "is not a subclass of mmconv.benchmarks"),
        ("tests.example_benchmark", "is not a subclass of mmconv.benchmarks"),
    ],
)
def test_a_benchmark_that_cannot_be_imported_has_a_reason(
    name: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine_with_typo.py").write_text("import judgs\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=problem):
        build_benchmark(RunSpec(benchmark=name, models={}), ImageStore())


class ShotOptions(Options):
    """One field more."""

    shots: int = Field(default=2, ge=0)
    """How many examples stand before a riddle."""


class Shots(Benchmark[Riddle, ShotOptions]):
    name, conditions = "shots", ("free", Condition("hinted", "The first letter is given."))
    prompts = Riddles.prompts

    def plan(self, sample: Riddle, condition: str) -> Iterator[Call]:
        text = "? " * self.options.shots + sample.riddle
        if condition == "hinted":
            text += f" ({sample.id}...)"
        message = user(text)
        yield Call(id="answer", model="candidate", messages=(message,))

    def score(self, sample: Riddle, results: Results) -> Iterator[Score]:
        yield results.score("words", None, "never read")


def asked(benchmark: Any, condition: str = "free") -> str:
    """The text of the first call for the first sample."""
    call = benchmark.calls(next(benchmark.load()), condition)[0]
    return str(call.messages[0].text)


def test_options_of_a_benchmark_are_checked_and_listed(tmp_path: Path) -> None:
    assert asked(build(tmp_path, Shots, "candidate", options={"shots": 3})) == "? ? ? Who is a?"
    with pytest.raises(ConfigError, match="shots: Input should be greater than or equal to 0"):
        build(tmp_path, Shots, "candidate", options={"shots": -1})
    with pytest.raises(ConfigError, match="shot is not a field here; did you mean shots"):
        build(tmp_path, Shots, "candidate", options={"shot": 1})
    listed = CliRunner().invoke(commands, ["options", f"{__name__}:Shots"]).output
    assert "How many examples stand before a riddle." in listed
    assert "The first letter is given." in listed


def test_conditions_can_be_chosen(tmp_path: Path) -> None:
    assert build(tmp_path, Shots, "candidate").conditions == ("free", "hinted")
    hinted = build(tmp_path, Shots, "candidate", conditions=("hinted",))
    assert hinted.conditions == ("hinted",)
    assert asked(hinted, "hinted") == "? ? Who is a? (a...)"
    with pytest.raises(ConfigError, match=r"shots has no condition 'fre'; .*: free, hinted"):
        build(tmp_path, Shots, "candidate", conditions=("fre",))


def test_one_condition_that_is_not_a_list_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "run.yaml"
    run.write_text("benchmark: tests.example_benchmark:Riddles\nconditions: free\n")
    result = CliRunner().invoke(commands, ["check", str(run), "--candidate", "fake/echo"])
    assert "conditions is a list: write [free]" in str(result.exception)


def test_a_class_can_be_run_without_a_run_file(tmp_path: Path) -> None:
    data = str(spec(tmp_path, Riddles).options["data"])
    typed = ["check", "tests.example_benchmark:Riddles", "--data", data]
    roles = ["--candidate", "fake/echo", "--judge", "fake/judge", "--out", str(tmp_path / "runs")]
    result = CliRunner().invoke(commands, [*typed, *roles])
    assert result.exit_code == 0, result.exception
    assert "3 samples under free: data in order" in result.output


def test_the_manifest_hashes_a_users_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, base = Path(__file__), Path(inspect.getfile(example_benchmark))
    assert build(tmp_path, Slow).provenance["code"] == {
        own.name: hash_file(own),
        base.name: hash_file(base),
    }
    facts = build(tmp_path, Riddles).provenance
    assert facts["code"] == {base.name: hash_file(base)}
    assert (facts["scale"], facts["least"]) == ((1, 10), [])
    notebook = ModuleType("typed_into_a_notebook")
    monkeypatch.setitem(sys.modules, notebook.__name__, notebook)
    monkeypatch.setattr(Slow, "__module__", notebook.__name__)
    benchmark = Slow(spec(tmp_path, Slow))
    benchmark.load_data(ImageStore())
    assert benchmark.provenance["code"] == {base.name: hash_file(base)}


class Slow(Riddles):
    """A class of another file than its base."""


class Seldom(Riddles):
    """Requests a helper for the last riddle, one more in a rescue and under another condition."""

    conditions = ("free", "helped")

    def plan(self, sample: Riddle, condition: str) -> Iterator[Call]:
        call, _ = super().plan(sample, condition)
        again = replace(call, id="again", model="rescuer")
        yield replace(call, fallbacks=(again,))
        if sample.id == "c":
            yield replace(call, id="rare", model="helper")
        if condition == "helped":
            yield replace(call, id="more", model="teacher")


ALL = ("candidate", "rescuer", "helper", "teacher")


@pytest.mark.parametrize(
    ("kind", "roles", "problem"),
    [
        (Riddles, ("candidate", "judg"), "riddles has no role 'judg'; did you mean judge"),
        (Riddles, ("candidate", "judge", "x"), "no role 'x'; there are: candidate, judge"),
        (Riddles, ("candidate",), r"needs a model: name a judge \(for call 'fit~retry_1'\)"),
        (Seldom, (*ALL, "helpr"), "riddles has no role 'helpr'; did you mean helper"),
        (Seldom, ALL[:2], "needs a model: name a teacher"),
        (Seldom, (*ALL[:2], "teacher"), "needs a model: name a helper"),
        (Seldom, ALL[1:], "needs a model: name a candidate"),
    ],
)
def test_roles_without_a_model_and_models_without_a_role_are_refused(
    tmp_path: Path, kind: Any, roles: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        build(tmp_path, kind, *roles)


def test_roles_of_other_samples_rescues_and_conditions_are_known(tmp_path: Path) -> None:
    build(tmp_path, Seldom, *ALL)
    build(tmp_path, Seldom, *ALL, conditions=("free",))
    with pytest.raises(ConfigError, match="has no role 'x'"):
        build(tmp_path, Seldom, *ALL, "x")
    # a part of the data cannot show which roles the whole has
    build(tmp_path, Seldom, *ALL, "x", limit=2)


class Counting(Riddles):
    numbers = count()

    def plan(self, sample: Riddle, condition: str) -> Iterator[Call]:
        number = next(self.numbers)
        return super().plan(Riddle(id=sample.id, riddle=f"Number {number}?"), condition)


def test_a_plan_that_changes_is_refused(tmp_path: Path) -> None:
    problem = "sample a, condition free, Counting.plan: not deterministic: it returned different"
    with pytest.raises(ConfigError, match=problem):
        build(tmp_path, Counting)


async def test_keys_are_checked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MMCONV_TEST_KEY", raising=False)
    run = spec(tmp_path, Riddles)
    judge = ModelSpec(provider="openai", model="x", api_key_env="MMCONV_TEST_KEY")
    run = run.model_copy(update={"models": {**run.models, "judge": judge}})
    async with open_evaluation(run, Place(out=tmp_path / "runs")) as evaluation:
        runner = evaluation.runner()
        with pytest.raises(ConfigError, match=r"judge .*MMCONV_TEST_KEY is not set"):
            await evaluation.run(runner)
    assert not evaluation.folder.exists()
    assert not runner.stats.replies


class Questions(Benchmark[Riddle, Options]):
    """Sends every riddle by two prompts, and reads no answer."""

    name = "questions"
    prompts = (
        parse_prompt("# user\nAnswer: {{riddle}}", "ask"),
        parse_prompt("# system\nBe brief.", "manner"),
    )

    def plan(self, sample: Riddle, condition: str) -> Iterator[Call]:
        slots = {"riddle": sample.riddle}
        messages = (*self.prompt("manner").fill({}), *self.prompt("ask").fill(slots))
        yield Call(id="answer", model="candidate", messages=messages)

    def score(self, sample: Riddle, results: Results) -> Iterator[Score]:
        yield results.score("read", None, "never")


@dataclass(frozen=True, slots=True)
class Desk:
    """A folder with riddles and a folder of prompts, and `mmconv run` there."""

    folder: Path

    def replace(self, name: str, text: bytes) -> None:
        (self.folder / "prompts").mkdir(exist_ok=True)
        (self.folder / "prompts" / name).write_bytes(text)

    def run(self, kind: type[Benchmark[Any, Any]]) -> None:
        """Run the benchmark; raises what stops it."""
        data = str(spec(self.folder, kind).options["data"])
        typed = ["run", f"{__name__}:{kind.__name__}", "--data", data, "--candidate", "fake/echo"]
        prompts = ["--prompts", str(self.folder / "prompts"), "--no-page"]
        out = ["--out", str(self.folder / "runs")]
        result = CliRunner().invoke(commands, [*typed, *prompts, *out])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output

    def read(self, name: str) -> Any:
        """The first line of a file of the run's folder."""
        [path] = self.folder.glob(f"runs/*/{name}")
        return orjson.loads(path.read_bytes().splitlines()[0])


def test_a_users_prompts_replace_those_of_the_benchmark(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    text = b"# user\n{{riddle}} - what is it?\r\n"
    desk.replace("ask.md", text)
    desk.replace("notes.txt", b"no prompt")
    desk.run(Questions)
    call = desk.read("transcripts.jsonl")
    sent = [part["text"] for message in call["messages"] for part in message["parts"]]
    assert sent == ["Be brief.", "Who is a? - what is it?\r"]
    [manifest] = tmp_path.glob("runs/*/manifest.json")
    recorded = orjson.loads(manifest.read_bytes())["provenance"]["prompts"]
    ask, manner = Questions.prompts
    assert recorded == {"ask": hash_bytes(text), "manner": manner.digest}
    assert recorded["ask"] != ask.digest


class Given(Riddles):
    """Scores what the test says."""

    given: Any = ()

    def score(self, sample: Riddle, results: Results) -> Any:
        return [results.score(name, value, **fields) for name, value, fields in self.given]


@pytest.mark.parametrize(
    ("scale", "given", "problem"),
    [
        ((1, 10), [("fit", 700, {})], "'fit' is 700, but its scale is 1 to 10; correct the score"),
        ({"fit": (0, 1)}, [("fit", 2, {})], "'fit' is 2, but its scale is 0 to 1"),
        (
            None,
            [("fit", 1, {"turn": 1, "side": "a"}), ("fit", 2, {"turn": 1, "side": "a"})],
            "'fit' is scored twice; give the scores different turns or tags",
        ),
        (
            None,
            [("fit", 1, {"judge": "a"})],
            "scores cannot have the tag 'judge': it names one of several judges; rename the tag",
        ),
        (None, [], "missing score; return one without a value and with a reason"),
    ],
)
def test_wrong_scores_are_refused_before_any_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scale: Any, given: Any, problem: str
) -> None:
    monkeypatch.setattr(Given, "scale", scale)
    monkeypatch.setattr(Given, "given", given)
    with pytest.raises(ConfigError, match=problem) as caught:
        build(tmp_path, Given)
    assert str(caught.value).startswith("sample a, condition free, Given.score")


def test_scores_differ_in_turn_or_tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Given, "scale", {"fit": (1, 1000), "other": None})
    given = [("fit", True, {"turn": 1}), ("fit", 999, {"turn": 2}), ("other", -5, {"side": "a"})]
    monkeypatch.setattr(Given, "given", given)
    benchmark = build(tmp_path, Given)
    scores = benchmark.scores(next(benchmark.load()), "free", {}, {})
    assert [(score.metric, score.value, score.turn, dict(score.tags)) for score in scores] == [
        ("fit", 1.0, 1, {}),
        ("fit", 999.0, 2, {}),
        ("other", -5.0, None, {"side": "a"}),
    ]
    assert {type(score.value) for score in scores} == {float}


def test_scores_bear_the_name_of_the_trial(tmp_path: Path) -> None:
    benchmark = build(tmp_path, Riddles)
    sample = next(iter(benchmark.load()))
    calls = benchmark.calls(sample, "free")
    outcomes = {call.id: Skipped(because=UNASKED, reason="unrequested") for call in calls}
    for name in (sample.id, f"{sample.id}#2"):
        plan = Plan(order=0, sample=name, condition="free", calls=calls)
        finished = Finished(plan=plan, outcomes=outcomes, resolved={})
        assert {score.sample for score in benchmark.score_finished(sample, finished)} == {name}
