"""Folders of runs that are spoilt, unfinished or none: one message that says what to do, code 2."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from mmconv.cli import main
from tests.drawn_data import write_scenes
from tests.mmconv.processes import succeed

RUN = (
    *("run", "convbench", "--data", "data/data.jsonl", "--images", "data/images"),
    *("--candidate", "fake/echo", "--judge", "fake/judge"),
)
AGAIN = "Run its command again with the same --out: the replies are cached."
SCORE = "`mmconv score` of the run's folder rewrites it: the replies are cached."


class Typed(NamedTuple):
    """How a command ended, and what it printed."""

    code: object
    out: str
    err: str


Type = Callable[..., Typed]

Spoil = Callable[[Path], object]
"""Changes a file."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, and with the runs of two models over them."""
    here = tmp_path_factory.mktemp("made")
    write_scenes(here / "data", 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        for more in ((), ("--set", "models.candidate=fake/judge")):
            succeed(*RUN, *more)
    return here


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same under a folder of the test's own, which is the working directory."""
    shutil.copytree(made, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    for spec in Path("runs").glob("*/spec.json"):
        change(spec, store=str(Path("runs/store.sqlite").absolute()), started_in=str(Path.cwd()))
    return tmp_path / "copy"


@pytest.fixture
def typed(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    """Type a command as a user does; it may go to another folder."""

    def type_(*arguments: object) -> Typed:
        os.chdir(here)
        monkeypatch.setattr(sys, "argv", ["mmconv", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return Typed(ended.value.code, *capsys.readouterr())

    return type_


@pytest.fixture
def run(here: Path) -> Path:
    """The run that is spoilt."""
    [folder] = Path("runs").glob("convbench-echo-*")
    return folder


def change(path: Path, **fields: Any) -> None:
    path.write_bytes(orjson.dumps(orjson.loads(path.read_bytes()) | fields))


def drop(path: Path, field: str) -> None:
    document = orjson.loads(path.read_bytes())
    del document[field]
    path.write_bytes(orjson.dumps(document))


def cut(path: Path) -> None:
    """Leave the first three quarters, which end within a line."""
    data = path.read_bytes()
    path.write_bytes(data[: 3 * len(data) // 4].rstrip(b"\n"))


def put(content: str) -> Spoil:
    return lambda path: path.write_text(content)


def with_option(path: Path) -> None:
    """As a later version may write it."""
    spec = orjson.loads(path.read_bytes())["spec"]
    change(path, spec=spec | {"tempo": 3})


def first_line(**fields: Any) -> Spoil:
    """Change the first record of a file."""

    def change_first(path: Path) -> None:
        first, *others = path.read_bytes().splitlines()
        lines = [orjson.dumps(orjson.loads(first) | fields), *others]
        path.write_bytes(b"\n".join([*lines, b""]))

    return change_first


def lines(path: Path) -> int:
    return len(path.read_bytes().splitlines())


def done(result: Typed) -> Typed:
    """It ended well."""
    assert not result.code, result
    return result


def one_message(result: Typed, *words: str) -> None:
    """It ended as bad input does, with one message that holds these words."""
    assert result.code == 2, result
    assert result.out == ""
    assert result.err.startswith("Error: ")
    assert result.err.count("Error: ") == 1
    assert "Traceback" not in result.err
    for word in words:
        assert word in result.err


SPECS: list[tuple[Spoil, str]] = [
    (cut, "cut short, or not JSON: "),
    (put(""), "empty"),
    (put("plain words"), "cut short, or not JSON: "),
    (put("[1]"), "holds a list, not an object"),
    (with_option, "spec.tempo is not a field here"),
    (lambda path: drop(path, "spec"), "spec is needed and not set"),
]
"""How a `spec.json` is spoilt, and the message."""


@pytest.mark.parametrize("command", ["show", "score", "report", "compare"])
def test_a_spoilt_specification_is_refused(typed: Type, run: Path, command: str) -> None:
    [other] = Path("runs").glob("convbench-judge-*")
    path = run / "spec.json"
    whole = path.read_bytes()
    for spoil, fault in SPECS:
        spoil(path)
        ended = typed(command, *([other] if command == "compare" else []), run)
        one_message(ended, f"{path}: 1 problem\n  {fault}", AGAIN)
        path.write_bytes(whole)


def test_a_run_started_nowhere_still_has_a_page(typed: Type, run: Path) -> None:
    drop(run / "spec.json", "started_in")
    (run / "report.html").unlink()
    result = done(typed("report", run))
    assert "The page has no images and references: " in result.err
    assert "started_in is needed and not set" in result.err


def test_the_results_of_a_run_are_not_shown_beside_other_data(typed: Type, run: Path) -> None:
    """Today's references would stand beside ratings of the old ones."""
    data = Path("data/data.jsonl")
    data.write_text(data.read_text().replace('"first_turn_answer":"', '"first_turn_answer":"Other'))
    page = (run / "report.html").read_bytes()
    result = typed("report", run)
    assert result.code == 2
    assert "data.jsonl has changed since the run" in result.err
    assert (
        f"{run.absolute() / 'report.html'} exists and may contain them: move it away" in result.err
    )
    assert (run / "report.html").read_bytes() == page
    (run / "report.html").unlink()
    assert "The page has no images and references: " in done(typed("report", run)).err


def test_a_page_with_pictures_is_not_replaced_by_one_without(typed: Type, run: Path) -> None:
    folder = run.absolute()
    change(folder / "spec.json", started_in=str(folder / "gone"))
    page = (folder / "report.html").read_bytes()
    result = typed("report", folder)
    assert result.code == 2
    assert "run the same command there: cached replies are not requested again" in result.err
    assert (folder / "report.html").read_bytes() == page


def test_running_again_mends_a_spoilt_specification(typed: Type, run: Path) -> None:
    cut(run / "spec.json")
    done(typed(*RUN))
    roles = orjson.loads((run / "summary.json").read_bytes())["models"]
    assert [role["requested"] for role in roles.values()] == [0, 0]
    done(typed("show", run, "1"))


FILES: list[tuple[str, Spoil, str]] = [
    ("manifest.json", cut, "cut short, or not JSON"),
    ("manifest.json", put("[]"), "holds a list"),
    ("manifest.json", lambda path: change(path, weather="fine"), "weather is not a field here"),
    ("manifest.json", lambda path: drop(path, "packages"), "packages is needed and not set"),
    ("tables/scores.json", cut, "cut short, or not JSON"),
    ("tables/index.json", put(""), "cut short, or not JSON"),
    ("scores.jsonl", put("[]\n"), "line 1: holds a list"),
    ("scores.jsonl", first_line(mood=1), "line 1: has an unknown field mood"),
    ("scores.jsonl", cut, "line {last}: cut short, or not JSON"),
]
"""A file that scoring writes, how it is spoilt, and the message."""


def test_a_spoilt_file_is_refused_and_scoring_rewrites_it(typed: Type, run: Path) -> None:
    [other] = Path("runs").glob("convbench-judge-*")
    for name, spoil, fault in FILES:
        path = run / name
        whole = path.read_bytes()
        spoil(path)
        words = (f"{path}: 1 problem\n  {fault.format(last=lines(path))}", SCORE)
        one_message(typed("report", run), *words)
        one_message(typed("compare", other, run), *words)
        path.write_bytes(whole)
    for name in {name for name, _, _ in FILES}:
        cut(run / name)
    done(typed("score", run))
    done(typed("report", run))
    done(typed("compare", other, run))


def test_a_score_of_another_kind_is_told(typed: Type, run: Path) -> None:
    [other] = Path("runs").glob("convbench-judge-*")
    first_line(value="high")(run / "scores.jsonl")
    one_message(typed("compare", other, run), "line 1: not a score: ", SCORE)


NO_RUNS = [
    ("nowhere", "no run found (folder does not exist)"),
    ("data", "no run found (it has no spec.json"),
    ("data/data.jsonl", "no run found (it is a file; name the run's folder"),
    ("runs", "no run found (it holds runs; name one of them, as "),
]
"""What is no run's folder, and what is told of it."""


@pytest.mark.parametrize(("place", "words"), NO_RUNS)
@pytest.mark.parametrize("command", ["show", "score", "report", "compare"])
def test_what_is_no_run_is_told(typed: Type, command: str, place: str, words: str) -> None:
    [other] = Path("runs").glob("convbench-judge-*")
    result = typed(command, *([other] if command == "compare" else []), place)
    one_message(result, f"{place}: {words}")


def test_stores_are_merged_and_folders_are_not(typed: Type, run: Path) -> None:
    for source, problem in ((run, "store"), (run / "spec.json", "store"), ("nowhere", "cache")):
        one_message(typed("merge", "all.sqlite", source), problem, str(source))


KILLED = [
    pytest.param(("spec.json",), "manifest.json", id="while it asked"),
    pytest.param(("spec.json", "manifest.json"), "scores.jsonl", id="copied in part"),
    pytest.param(
        ("spec.json", "scores.jsonl", "transcripts.jsonl", "manifest.json"),
        "index.json",
        id="before its tables",
    ),
]
"""What a run had written when it was killed, and what it lacks."""


@pytest.mark.parametrize(("kept", "lacking"), KILLED)
def test_a_killed_run_is_told_to_be_unfinished_and_can_be_scored(
    typed: Type, run: Path, kept: tuple[str, ...], lacking: str
) -> None:
    [other] = Path("runs").glob("convbench-judge-*")
    for path in [*run.iterdir()]:
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in kept:
            path.unlink()
    words = (f"the run is not finished: it has no {lacking}", "with the same --out to finish it")
    one_message(typed("report", run), *words)
    one_message(typed("compare", other, run), *words)
    done(typed("show", run))
    done(typed("score", run))
    done(typed("report", run))
