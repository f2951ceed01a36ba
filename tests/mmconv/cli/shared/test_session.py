"""How commands end: exit codes, and the command that goes on, without passwords."""

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mmconv.cli import commands
from mmconv.cli.shared.session import EXIT_FAILURES, MORE_ROOM, exit_code, tell_stopped, typed
from mmconv.core.errors import FailureKind
from mmconv.core.run_stats import RunStats, StopReason
from mmconv.core.types import UNASKED, Failure, Skipped
from mmconv.engine import Runner
from mmconv.engine import run as evaluation
from mmconv.report.data_quality import DataQuality


@pytest.mark.parametrize(
    ("store", "shown"),
    [
        ("postgresql://ann:s3cr%40t@db/mm", "postgresql+psycopg://ann@db/mm"),
        ("postgresql://db/mm?user=ann&password=s3cr%40t", "postgresql+psycopg://db/mm?user=ann"),
    ],
)
@pytest.mark.parametrize("form", ["--store {}", "--store={}"])
def test_a_password_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch, form: str, store: str, shown: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["mmconv", "run", *form.format(store).split(), "a b.yaml"])
    output = typed(store)
    assert "s3cr" not in output
    command, advice = output.split("\n")
    assert shlex.split(command) == ["mmconv", "run", *form.format(shown).split(), "a b.yaml"]
    assert advice == "  (without the store's password: put it in again, or set PGPASSWORD)"


@pytest.mark.parametrize(
    "moments",
    [
        "mmconv.engine.resources.Resources.read_data",
        "mmconv.report.writing.write_tables = mmconv.engine.Runner.stop",
    ],
    ids=["before its calls", "twice"],
)
def test_a_command_that_is_told_to_end_was_interrupted(tmp_path: Path, moments: str) -> None:
    """While it asks, the first time stops the runner: see `tests.mmconv.test_resilience`."""
    code = (
        "import os, signal, sys\n"
        "import mmconv.cli, mmconv.engine.resources, mmconv.report.writing\n"
        f"{moments} = lambda *_: os.kill(os.getpid(), signal.SIGTERM)\n"
        "mmconv.cli.main()"
    )
    arguments = ("demo", "--limit", "1", "--out", str(tmp_path))
    command = [sys.executable, "-c", code, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (ended.returncode, ended.stderr.splitlines()[-1:]) == (130, ["interrupted"])


@pytest.mark.parametrize(
    ("failures", "unasked", "advice"),
    [
        (("rejected", "filter"), 0, "A retry fails again (filter, rejected) unless"),
        (("rejected", "timeout"), 0, "Run again to retry them."),
        (("rejected",), 1, "Run again to retry them."),
        ((), 1, "Run again to retry them."),
        ((), 0, "Run again to retry them."),
        (("context",), 0, f"A retry fails again (context) unless the cause is fixed. {MORE_ROOM}"),
    ],
)
def test_only_what_may_be_answered_the_next_time_is_worth_asking_again(
    failures: tuple[FailureKind, ...], unasked: int, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stats = RunStats()
    for kind in failures:
        failed = Failure(kind=kind, message="no", attempts=1)
        stats.model("candidate").count(failed, cached=False)
    stats.model("judge").count(Skipped(because="turn_1"), cached=False)
    for _ in range(unasked):
        stats.model("judge").count(Skipped(because=UNASKED, reason="unrequested"), cached=False)
    ended = evaluation.Result(
        folder=Path("runs"),
        tables=(),
        stats=stats,
        complete=True,
        seconds=1.0,
        scores=0,
        unscored={},
        quality=DataQuality(),
    )
    assert exit_code(ended, store="") == EXIT_FAILURES
    assert f"runs/transcripts.jsonl has the reasons. {advice}" in capsys.readouterr().err


def test_prompts_that_fit_nowhere_name_what_makes_room(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failure = Failure(kind="context", message="maximum context length is 4096", attempts=1)
    assert tell_stopped("", StopReason(reason="no call was answered", failure=failure)) == 1
    assert MORE_ROOM in capsys.readouterr().err


class TestDemo:
    """The demo ends as a run does."""

    def test_with_failed_calls(self, tmp_path: Path) -> None:
        (tmp_path / "broken.yaml").write_text(
            "provider: fake\nmodel: failing\nattempts: 1\n"
            "options: {rate: 0.3, kinds: [malformed]}\n"
        )
        result = demo(tmp_path, "--candidate", str(tmp_path / "broken.yaml"))
        assert result.exit_code == 1
        assert "Scenes, answered by broken" in result.stdout
        assert "% of the calls failed or were skipped (allowed: 1.0%)" in result.stderr

    def test_interrupted(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        asking = Runner.run

        async def stopped(self: Runner, *arguments: Any) -> bool:
            self.stop()
            return await asking(self, *arguments)

        monkeypatch.setattr(Runner, "run", stopped)
        result = demo(tmp_path, "--candidate", "fake/echo")
        assert result.exit_code == 130
        assert "Stopped; all replies are cached. Resume with:" in result.stderr
        assert "A transcript" not in result.output
        assert result.stdout.startswith(
            "NOT FINISHED, no results yet: 0 of 3 conversations; 0 calls"
        )
        assert "Everything is in" not in result.output


def demo(folder: Path, *more: str) -> Result:
    return CliRunner().invoke(commands, ["demo", "--limit", "1", "--out", str(folder), *more])
