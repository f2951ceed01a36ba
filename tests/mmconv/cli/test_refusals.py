"""What a command refuses before anything is asked, and what it says where it cannot write."""

import errno
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import orjson
import pytest

from mmconv.cli import commands, main
from mmconv.core.errors import MmconvError
from mmconv.report.writing import OrderedLines
from tests.drawn_data import write_scenes
from tests.mmconv.benchmarks.few_records import DATA as RECORDS
from tests.mmconv.processes import succeed, typed
from tests.mmconv.store.conftest import small_disk

DATA = ("convbench", "--data", "data/data.jsonl", "--images", "data/images")
FAKES = ("--candidate", "fake/echo", "--judge", "fake/judge")
OVERLAP = "reference/chrf"

WAYS = pytest.mark.parametrize("way", [("check",), ("run", "--dry-run"), ("run",)])
"""The commands that a wrong run is given to."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the test's own as the working directory."""
    write_scenes(tmp_path / "data", 3)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(*arguments: str) -> str:
    """What the command says when it refuses; nothing has been asked then."""
    result = typed(*arguments)
    assert isinstance(result.exception, MmconvError), result.output
    assert not list(Path().glob("runs/convbench-*/scores.jsonl"))
    return str(result.exception)


class TestSight:
    """A model that is known to take no images is refused where it would get some."""

    @WAYS
    def test_by_its_file(self, way: tuple[str, ...]) -> None:
        message = refused(*way, *DATA, "--candidate", "qwen2.5-7b", "--judge", "fake/judge")
        assert "candidate (qwen2.5-7b): its model file says that it takes no images" in message
        assert "convbench shows its images to candidate;" in message

    @WAYS
    def test_by_its_configuration(self, here: Path, way: tuple[str, ...]) -> None:
        (here / "blind").mkdir()
        (here / "blind/config.json").write_text(json.dumps({"model_type": "llama"}))
        message = refused(*way, *DATA, "--candidate", "hf/./blind", "--judge", "fake/judge")
        assert "candidate (blind): it takes no images: blind/config.json" in message

    def test_of_a_judge_only_where_it_is_shown_them(self, here: Path) -> None:
        (here / "judge.yaml").write_text("provider: fake\nmodel: judge\nabout: {images: false}\n")
        roles = ("--candidate", "fake/echo", "--judge", "judge.yaml")
        message = refused("run", *DATA, *roles, "--judge-sees-image")
        assert message.startswith("judge (judge): its model file says")
        succeed("run", *DATA, *roles)

    def test_of_the_demo_before_the_store_knows_of_a_run(self) -> None:
        message = refused("demo", "--limit", "1", "--candidate", "qwen2.5-7b")
        assert message.startswith(
            "candidate (qwen2.5-7b): its model file says that it takes no image"
        )
        with closing(sqlite3.connect("runs/demo/store.sqlite")) as store:
            assert store.execute("SELECT count(*) FROM runs").fetchone() == (0,)

    def test_what_is_not_known_goes_on(self) -> None:
        succeed("check", *DATA, *FAKES)


class TestOfflineJudges:
    """Judges that are not models read ConvBench's own prompts alone."""

    @WAYS
    @pytest.mark.parametrize("benchmark", ["mtbench101", "fbbench"])
    def test_others_refuse_it(self, here: Path, way: tuple[str, ...], benchmark: str) -> None:
        data = RECORDS[benchmark](here)["data"]
        roles = ("--candidate", "fake/echo", "--judge", OVERLAP)
        message = refused(*way, benchmark, "--data", data, *roles)
        assert message.startswith("judge (chrf): ")
        assert "no system message names a task" in message

    def test_a_custom_benchmark_refuses_it(self, here: Path) -> None:
        (here / "riddles.jsonl").write_bytes(orjson.dumps({"id": 1, "riddle": "Who?"}))
        (here / "riddles.yaml").write_text("benchmark: tests.example_benchmark:Riddles\n")
        roles = ("--candidate", "fake/echo", "--judge", OVERLAP)
        message = refused("run", "riddles.yaml", "--data", "riddles.jsonl", *roles)
        assert message.startswith("judge (")

    def test_it_judges_convbench_and_answers_nothing_there(self) -> None:
        message = refused("run", *DATA, "--candidate", OVERLAP, "--judge", "fake/judge")
        assert message.startswith("candidate (")
        succeed("check", *DATA, "--candidate", "fake/echo", "--judge", OVERLAP)


class TestRoles:
    """A role that the benchmark does not have is refused, and the nearest one named."""

    @WAYS
    def test_on_the_command_line(self, way: tuple[str, ...]) -> None:
        message = refused(*way, *DATA, *FAKES, "--set", "models.jugde=fake/judge")
        assert "convbench has no role 'jugde'; did you mean judge?" in message

    def test_in_a_file(self, here: Path) -> None:
        (here / "mine.yaml").write_text(
            "benchmark: convbench\nseats: {candidate: fake/echo, audience: fake/judge}\n"
        )
        message = refused("run", "mine.yaml")
        assert message == "mine.yaml: convbench has no role 'audience'; there are: candidate, judge"

    def test_botchat_takes_opponents_of_any_name(self) -> None:
        message = refused("run", "botchat", *FAKES, "--set", "models.gpt4=fake/echo")
        assert "data is needed and not set" in message


class TestStore:
    """A store is a file in a folder that is there."""

    def test_a_folder_is_none(self) -> None:
        assert "data is a folder; a store is a file" in refused(
            "run", *DATA, *FAKES, "--store", "data"
        )

    @pytest.mark.parametrize("store", ["deep/down/s.sqlite", "sqlite:///deep/down/s.sqlite"])
    @pytest.mark.parametrize(
        "command",
        [
            ("run", *DATA, *FAKES),
            ("check", *DATA, *FAKES),
            ("annotate", *DATA, "--annotator", "fake/echo", "--out", "drafts.jsonl"),
        ],
    )
    def test_no_folder_is_created(self, here: Path, command: tuple[str, ...], store: str) -> None:
        message = refused(*command, "--store", store)
        assert message == f"--store {store}: folder deep/down does not exist; create it first"
        assert not (here / "deep").exists()

    @pytest.mark.parametrize("store", ["deep/all.sqlite", "sqlite:///deep/all.sqlite"])
    def test_no_folder_is_made_to_merge_into(self, here: Path, store: str) -> None:
        message = refused("merge", store, "one.sqlite")
        assert message == f"{store}: folder deep does not exist; create it first"
        assert not (here / "deep").exists()

    @pytest.mark.parametrize(
        "store",
        [(), ("--store", "new/runs/all.sqlite"), ("--store", "sqlite:///new/runs/all.sqlite")],
    )
    def test_that_of_the_runs_is_made(self, store: tuple[str, ...]) -> None:
        succeed("check", *DATA, *FAKES, "--out", "new/runs", *store)


class TestFullDisk:
    """What was answered is kept, and the same command goes on."""

    def test_of_the_store(self) -> None:
        with small_disk():
            message = refused("run", *DATA, *FAKES, "--trials", "20")
        assert "the store runs/store.sqlite fails: database or disk is full" in message
        again = succeed("run", *DATA, *FAKES, "--trials", "20")
        assert "Traceback" not in again.output

    def test_of_the_run(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        full = OSError(errno.ENOSPC, "No space left on device")
        with monkeypatch.context() as patch:
            patch.setattr(OrderedLines, "append", raising(full))
            message = refused("run", *DATA, *FAKES)
        assert message.startswith("cannot write into runs/convbench-echo-")
        assert "No space left on device; earlier replies are cached: make room" in message
        succeed("run", *DATA, *FAKES)


class TestClosedFolder:
    """What cannot be written is told in a line that names the place."""

    @pytest.fixture
    def folder(self) -> Path:
        succeed("run", *DATA, *FAKES)
        [found] = Path("runs").glob("convbench-*")
        return found

    def test_of_a_report(self, folder: Path) -> None:
        page = folder / "report.html"
        page.unlink()
        page.mkdir()
        message = str(typed("report", str(folder)).exception)
        page = folder / "report.html"
        assert (
            message == f"{page.absolute()} is not a file, and would be replaced by one: name a file"
        )

    def test_of_scores(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        closed = OSError(errno.EROFS, "Read-only file system", str(folder.absolute() / "x"))
        monkeypatch.setattr("mmconv.report.writing.ordered_lines", raising(closed))
        message = str(typed("score", str(folder)).exception)
        assert message == f"cannot write into {folder.absolute()}: Read-only file system"

    def test_other_places_are_named(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        gone = PermissionError(errno.EACCES, "Permission denied", "/elsewhere/data.jsonl")
        monkeypatch.setattr("mmconv.report.writing.ordered_lines", raising(gone))
        assert typed("score", str(folder)).exception is gone

    @pytest.mark.parametrize(
        ("error", "message"),
        [
            (OSError(errno.EACCES, "Permission denied", "a/b"), "Error: a/b: Permission denied\n"),
            (OSError(errno.ENOSPC, "No space left on device"), "Error: No space left on device\n"),
        ],
    )
    def test_any_command_ends_with_a_line(
        self,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        error: OSError,
        message: str,
    ) -> None:
        monkeypatch.setattr(commands, "main", raising(error))
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        assert capsys.readouterr().err == message

    def test_what_is_about_no_file_stays_a_bug(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(commands, "main", raising(ConnectionResetError("reset by peer")))
        with pytest.raises(ConnectionResetError):
            main()


def raising(error: Exception) -> object:
    """A method that raises this error."""

    def method(*_arguments: object, **_more: object) -> None:
        raise error

    return method


@WAYS
def test_dialogues_without_what_the_conditions_need(here: Path, way: tuple[str, ...]) -> None:
    turns = [{"instruction": "What?", "reference": "A cup."}, {"instruction": "Why?"}]
    rows = [
        {"id": "whole", "turns": turns},
        {"id": "bare", "turns": [{"instruction": "What?"}] * 2},
    ]
    (here / "dialogues.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    message = refused(
        *way, "dialogue", "--data", "dialogues.jsonl", "--conditions", "free,perception", *FAKES
    )
    assert "dialogues.jsonl line 2 (id bare): turns[1].reference: needed" in message
    assert "line 1" not in message
    message = refused(
        *way, "dialogue", "--data", "dialogues.jsonl", "--conditions", "reasoning", *FAKES
    )
    assert "line 1 (id whole): turns: the condition reasoning leaves none of 2" in message
    message = refused(
        *way, "dialogue", "--data", "dialogues.jsonl", "--set", "options.prompts=convbench", *FAKES
    )
    assert "line 1 (id whole): turns[2].reference: needed: ConvBench's prompts" in message
    assert "caption: ConvBench's prompts contain it" in message
