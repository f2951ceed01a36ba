"""A benchmark over one file of records, with riddles as the benchmark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import openpyxl
import orjson
import pytest
from click.testing import CliRunner

from images import ImageStore
from judges import Prompt, parse_prompt
from mmconv.benchmarks.base import Calls, Fields, FileBenchmark, Outcomes, Scores
from mmconv.cli import commands
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.errors import ConfigError, DataError, PromptError
from mmconv.core.keys import hash_bytes, hash_file
from mmconv.core.protocols import Benchmark
from mmconv.core.types import Call, Cell, Message, Score, Text
from mmconv.engine.run import Place, open_evaluation
from mmconv.engine.setup import build_benchmark
from tests.example_benchmark import Riddles

SEATS = {seat: ModelSpec(provider="fake", model="echo") for seat in ("candidate", "judge")}


class Questions(FileBenchmark):
    """Asks every riddle by a prompt, and reads no answer."""

    name = "questions"
    fields = ("riddle",)
    prompts: tuple[Prompt, ...] = (
        parse_prompt("# user\nAnswer: {{riddle}}", "ask"),
        parse_prompt("# system\nBe brief.", "manner"),
    )

    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        slots = {"riddle": sample["riddle"]}
        messages = (*self.prompt("manner").fill({}), *self.prompt("ask").fill(slots))
        return (Call(id="answer", seat="candidate", messages=messages),)

    def score(self, sample: Fields, condition: str, calls: Calls, outcomes: Outcomes) -> Scores:
        yield Score(sample=sample["id"], condition=condition, metric="read", why="never")


class Bare(Questions):
    """The same with a message of its own making."""

    prompts = ()

    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        message = Message(role="user", parts=(Text(text=sample["riddle"]),))
        return (Call(id="answer", seat="candidate", messages=(message,)),)


def write(path: Path, *records: object) -> Path:
    path.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three good records; ids are text or numbers, and further fields do no harm."""
    return write(
        tmp_path / "riddles.jsonl",
        {"id": 1, "riddle": "What has keys?"},
        {"id": "two", "riddle": "What has hands?", "source": "folklore"},
        {"id": 3, "riddle": "What has a neck?"},
    )


def build(data: Path, **options: object) -> Benchmark[Fields]:
    spec = RunSpec(benchmark="riddles", options={"data": str(data), **options}, seats=SEATS)
    return Riddles(spec, ImageStore())


def test_records_are_streamed_by_their_fields(data: Path) -> None:
    benchmark = build(data)
    assert benchmark.size == 3
    assert [benchmark.key(sample) for sample in benchmark.load()] == ["1", "two", "3"]
    assert next(benchmark.load()) == {"id": "1", "riddle": "What has keys?"}
    assert [*benchmark.load()] == [*benchmark.load()]
    assert benchmark.facts["data"] == {"riddles.jsonl": hash_file(data)}
    assert benchmark.facts["left_out"] == []


def test_all_that_is_wrong_is_told_in_one_message(tmp_path: Path) -> None:
    bad = write(
        tmp_path / "bad.jsonl",
        {"id": 1, "riddle": ""},
        {"id": 2, "riddle": "Who?"},
        {"riddle": "What?"},
        {"id": 2, "riddle": "Where?"},
    )
    with pytest.raises(DataError) as caught:
        build(bad)
    assert caught.value.problems == (
        "bad.jsonl line 1 (id 1): no riddle",
        "bad.jsonl line 3: no id",
        "bad.jsonl line 4 (id 2): id is that of bad.jsonl line 2",
    )
    assert "needs id, riddle" in str(caught.value)


def test_the_sheet_with_the_fields_is_read_or_the_one_that_is_named(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for title, riddle in (("old", "What has hands?"), ("new", "What has keys?")):
        page = book.create_sheet(title)
        page.append(["id", "riddle"])
        page.append([1, riddle])
    path = tmp_path / "riddles.xlsx"
    book.save(path)
    with pytest.raises(DataError, match=r"the sheets old, new .* which one is meant\?"):
        build(path)
    assert [sample["riddle"] for sample in build(path, sheet="new").load()] == ["What has keys?"]
    book.remove(book["old"])
    book.save(path)
    assert [sample["riddle"] for sample in build(path).load()] == ["What has keys?"]


def test_a_file_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no record"):
        build(write(tmp_path / "empty.jsonl"))


def test_options_and_seats_are_checked(data: Path) -> None:
    with pytest.raises(ConfigError, match="dta"):
        build(data, dta="x")
    with pytest.raises(ConfigError, match="name a judge"):
        spec = RunSpec(
            benchmark="riddles",
            options={"data": str(data)},
            seats={"candidate": SEATS["candidate"]},
        )
        Riddles(spec, ImageStore()).check_plans()


def seated(data: Path, *seats: str, kind: type[FileBenchmark] = Riddles, **fields: Any) -> RunSpec:
    """The specification of a run with these seats, once a benchmark was built of it."""
    spec = RunSpec(
        benchmark="mine",
        options={"data": str(data)},
        seats=dict.fromkeys(seats, SEATS["judge"]),
        **fields,
    )
    kind(spec, ImageStore()).check_plans()
    return spec


def test_a_seat_that_nothing_asks_is_refused(data: Path) -> None:
    seated(data, "candidate", "judge")
    with pytest.raises(ConfigError, match="riddles has no seat 'judg'; did you mean judge"):
        seated(data, "candidate", "judg")
    with pytest.raises(ConfigError, match="riddles has no seat 'x'; there are: candidate, judge"):
        seated(data, "candidate", "judge", "x")


class Seldom(Bare):
    """Asks a helper about the last riddle, and in a rescue; one more under another condition."""

    conditions = ("free", "helped")

    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        [call] = super().plan(sample, condition)
        again = replace(call, id="again", seat="rescuer")
        rare = (replace(call, id="rare", seat="helper"),) if sample["id"] == "3" else ()
        more = (replace(call, id="more", seat="teacher"),) if condition == "helped" else ()
        return (replace(call, fallbacks=(again,)), *rare, *more)


def test_seats_of_other_samples_rescues_and_conditions_are_known(data: Path) -> None:
    every = ("candidate", "rescuer", "helper", "teacher")
    seated(data, *every, kind=Seldom)
    seated(data, *every, kind=Seldom, conditions=("free",))
    with pytest.raises(ConfigError, match="questions has no seat 'helpr'; did you mean helper"):
        seated(data, *every, "helpr", kind=Seldom)


def test_tables_are_means_of_every_metric(data: Path) -> None:
    scores = [
        Score(sample=name, condition="free", metric=metric, value=value, why=why)
        for name, metric, value, why in (
            ("1", "fit", 4.0, None),
            ("two", "fit", 8.0, None),
            ("3", "fit", None, "unparsed"),
            ("1", "words", 3.0, None),
        )
    ]
    [table] = build(data).tables(scores)
    fit = table.rows["fit"]["free"]
    assert (fit.value, fit.n, fit.missing) == (6.0, 2, {"unparsed": 1})
    assert table.rows["words"]["free"] == Cell(value=3.0, n=1, missing={"not scored": 2})


async def test_an_unreadable_judgement_is_asked_again_and_then_unscored(
    data: Path, tmp_path: Path
) -> None:
    seats = {**SEATS, "judge": ModelSpec(provider="fake", model="unreadable")}
    spec = RunSpec(
        benchmark="tests.example_benchmark:Riddles", options={"data": str(data)}, seats=seats
    )
    async with open_evaluation(spec, Place(out=tmp_path / "runs")) as evaluation:
        result = await evaluation.run(evaluation.runner())
    assert result.complete
    cell = result.tables[0].rows["fit"]["free"]
    assert (cell.value, cell.missing) == (None, {"unparsed": 3})
    lines = (result.folder / "transcripts.jsonl").read_bytes().splitlines()
    assert len(lines) == 3 * 3


def test_bad_records_can_be_left_out_and_all_tables_say_so(tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.jsonl", {"id": 1}, {"id": 2, "riddle": "Who?"})
    benchmark = build(bad, skip_bad_records=True)
    assert [sample["id"] for sample in benchmark.load()] == ["2"]
    table, left_out = benchmark.tables([])
    assert "1 of 2 records is left out" in table.notes[0]
    assert left_out.rows["bad.jsonl line 1 (id 1)"]["what is wrong"].value == "no riddle"
    assert not left_out.detail


def test_a_long_list_of_bad_records_is_written_and_not_printed(tmp_path: Path) -> None:
    records = [{"id": 0, "riddle": "Who?"}, *({"id": number} for number in range(1, 42))]
    benchmark = build(write(tmp_path / "bad.jsonl", *records), skip_bad_records=True)
    table, left_out = benchmark.tables([])
    assert "41 of 42 records are left out as bad" in table.notes[0]
    assert (left_out.detail, len(left_out.rows)) == (True, 41)


def test_what_many_records_lack_is_told_once(tmp_path: Path) -> None:
    records = [{"id": number} for number in range(30)]
    with pytest.raises(DataError) as caught:
        build(write(tmp_path / "wrong.jsonl", *records))
    [told] = caught.value.problems
    assert told.startswith("30 records: no riddle (wrong.jsonl line 1 (id 0), 2 (id 1), ")
    assert told.endswith(", 20 (id 19) and 10 more)")


def test_an_unknown_condition_is_refused(data: Path) -> None:
    options = {"data": str(data)}
    spec = RunSpec(benchmark="riddles", options=options, seats=SEATS, conditions=("fre",))
    with pytest.raises(ConfigError, match="riddles has no condition 'fre'; there are: free"):
        Riddles(spec, ImageStore())


def test_an_interval_ends_where_the_scale_does(data: Path) -> None:
    values = (1.0, 10.0, 1.0, 10.0, 9.0)
    scores = [
        Score(sample=str(number), condition="free", metric="fit", value=value)
        for number, value in enumerate(values)
    ]
    fit = build(data).tables(scores)[0].rows["fit"]["free"]
    assert (fit.value, fit.low, fit.high) == (6.2, 1.0, 10.0)


async def test_keys_of_all_seats_are_checked_before_anything_is_asked(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = ModelSpec(provider="openai", model="x", api_key_env="MMCONV_TEST_KEY")
    monkeypatch.delenv("MMCONV_TEST_KEY", raising=False)
    spec = RunSpec(
        benchmark="tests.example_benchmark:Riddles",
        options={"data": str(data)},
        seats={**SEATS, "judge": judge},
    )
    async with open_evaluation(spec, Place(out=tmp_path / "runs")) as evaluation:
        runner = evaluation.runner()
        with pytest.raises(ConfigError, match=r"judge .*MMCONV_TEST_KEY is not set"):
            await evaluation.run(runner)
    assert evaluation.run_id.startswith("riddles-echo-")
    assert not evaluation.folder.exists()
    assert not runner.stats.replies


async def test_a_run_of_stand_ins_says_so(data: Path, tmp_path: Path) -> None:
    spec = RunSpec(
        benchmark="tests.example_benchmark:Riddles", options={"data": str(data)}, seats=SEATS
    )
    async with open_evaluation(spec, Place(out=tmp_path / "runs")) as evaluation:
        result = await evaluation.run(evaluation.runner())
    assert result.tables[0].notes[0].startswith("FAKE: stand-ins without a model")
    manifest = orjson.loads((result.folder / "manifest.json").read_bytes())
    assert manifest["notes"] == [result.tables[0].notes[0]]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("tests.example_benchmark:Ridles", "has no Ridles; did you mean Riddles"),
        ("tests.no_such_module:Riddles", "there is no module 'tests.no_such_module'"),
        ("mine_with_typo:X", "imports 'judgs'"),
    ],
)
def test_a_benchmark_that_cannot_be_imported_says_why(
    name: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine_with_typo.py").write_text("import judgs\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=told):
        build_benchmark(RunSpec(benchmark=name, seats=SEATS), ImageStore())


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """A folder with riddles and a folder of prompts, and `mmconv run` there."""

    data: Path
    prompts: Path
    runs: Path

    def replace(self, name: str, text: bytes) -> None:
        self.prompts.mkdir(exist_ok=True)
        (self.prompts / name).write_bytes(text)

    def run(self, benchmark: type[FileBenchmark]) -> dict[str, Any]:
        """The manifest of a run with `--prompts`; raises what stops it."""
        file = self.data.with_name("run.yaml")
        file.write_text(f"benchmark: {benchmark.__module__}:{benchmark.__name__}\n")
        arguments = ["run", str(file), "--data", str(self.data), "--prompts", str(self.prompts)]
        seats = ["--candidate", "fake/echo", "--no-page", "--out", str(self.runs)]
        result = CliRunner().invoke(commands, [*arguments, *seats])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        [manifest] = self.runs.glob("*/manifest.json")
        found: dict[str, Any] = orjson.loads(manifest.read_bytes())
        return found

    def asked(self) -> list[str]:
        """What the model was sent for the first riddle."""
        [transcripts] = self.runs.glob("*/transcripts.jsonl")
        call = orjson.loads(transcripts.read_bytes().splitlines()[0])
        return [part["text"] for message in call["messages"] for part in message["parts"]]


@pytest.fixture
def desk(data: Path, tmp_path: Path) -> Desk:
    return Desk(data=data, prompts=tmp_path / "prompts", runs=tmp_path / "runs")


def test_a_users_prompts_replace_the_benchmarks(desk: Desk) -> None:
    text = b"# user\n{{riddle}} - what is it?\r\n"
    desk.replace("ask.md", text)
    desk.replace("notes.txt", b"no prompt")
    facts = desk.run(Questions)["facts"]
    assert desk.asked() == ["Be brief.", "What has keys? - what is it?\r"]
    ask, manner = Questions.prompts
    assert facts["prompts"]["manner"] == manner.digest
    assert facts["prompts"]["ask"] == hash_bytes(text) != ask.digest


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("aks.md", b"# user\n{{riddle}}", "questions has no prompt 'aks'; its prompts are ask, m"),
        ("ask.md", b"# user\n{{question}}", r"ask\.md: slots missing riddle; superfluous question"),
        ("ask.md", b"# user\nAnswer.", r"ask\.md: slots missing riddle"),
        ("ask.md", b"Answer: {{riddle}}", r"ask\.md: .*no role heading"),
        ("ask.md", b"# user\n\xff{{riddle}}", r"ask\.md: not UTF-8 at byte 7"),
    ],
)
def test_a_file_that_replaces_no_prompt_is_refused(
    desk: Desk, name: str, text: bytes, told: str
) -> None:
    desk.replace(name, text)
    with pytest.raises(PromptError, match=told):
        desk.run(Questions)
    assert not list(desk.runs.glob("*/"))


def test_a_folder_of_prompts_must_be_there(desk: Desk) -> None:
    with pytest.raises(PromptError, match="prompts: no such folder of prompts"):
        desk.run(Questions)


def test_a_benchmark_without_prompts_refuses_a_folder_of_them(desk: Desk) -> None:
    desk.replace("ask.md", b"# user\n{{riddle}}")
    with pytest.raises(ConfigError, match="questions has no prompts to replace; leave out"):
        desk.run(Bare)
