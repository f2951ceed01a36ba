"""The command line itself: loading, errors, repeated options, hidden packages, few open files."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import orjson
import pytest

import mmconv
from mmconv.cli import commands, evaluating, main
from mmconv.cli.shared import basics
from tests.drawn_data import write_scenes
from tests.mmconv.processes import typed

HOME = Path(mmconv.__file__).parents[1]
ROWS = 60
HEAVY = {"aiohttp", "asyncio", "numpy", "orjson", "pydantic", "rich", "sqlalchemy", "yaml"}


def start(*arguments: str, here: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    """Start the command line in a folder that comes first on Python's path."""
    program = f"import sys\n{before}\nfrom mmconv.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=here,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(here), str(HOME)])},
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_imports_only_what_it_needs() -> None:
    code = f"import mmconv.cli, sys; print(sorted({HEAVY} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def image(number: int) -> str:
    return f"picture of {number}.png"


def test_problems_are_cut_unless_all_are_wanted_and_a_traceback_is_shown_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A check of rows whose images are all missing except one, which is not an image."""
    data, pictures = write_scenes(tmp_path, 1)
    row = orjson.loads(data.read_bytes())
    rows = [row | {"ID": str(number + 1), "image_id": image(number)} for number in range(ROWS)]
    data.write_bytes(b"\n".join(map(orjson.dumps, rows)))
    (pictures / image(ROWS - 1)).write_text("no image", encoding="utf-8")
    command = ["check", "convbench", "--data", str(data), "--images", str(pictures)]
    command += ["--candidate", "fake/echo", "--judge", "fake/judge", "--out", str(tmp_path)]

    def error(*flags: str) -> list[str]:
        monkeypatch.setattr("sys.argv", ["mmconv", *flags, *command])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        return capsys.readouterr().err.splitlines()

    first, rare, *others = error()
    assert first.endswith(f": {ROWS} problems")
    assert image(ROWS - 1) in rare
    assert all(f"image {image(number)} is not in " in others[number] for number in range(5))
    assert others[5] == f"  ... and {ROWS - 6} more of this kind"
    assert others[-1] == "`mmconv --all-problems COMMAND ...` lists every problem."

    first, *lines = error("--all-problems")
    assert first.endswith(f": {ROWS} problems")
    assert all(image(number) in lines[number] for number in range(ROWS))
    assert not any("more of this kind" in line or "--all-problems" in line for line in lines)

    lines = error("--traceback")
    assert lines[0] == "Traceback (most recent call last):"
    assert any(line.startswith(f'  File "{evaluating.__file__}", line ') for line in lines)
    assert any(line.startswith("Error: ") for line in lines)


def test_a_closed_pipe_ends_a_command_without_a_message() -> None:
    program = "from mmconv.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program, "models"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        started.stdout.close()
        assert started.stderr.read() == b""
    assert started.returncode == 141


def test_a_package_called_configs_hides_no_model(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "__init__.py").touch()
    assert "qwen2.5-vl-7b" in start("models", "qwen2.5-vl-7b", here=tmp_path).stdout


def test_serving_names_the_extra_to_install(tmp_path: Path) -> None:
    without = "sys.modules['fastapi'] = None"
    assert start("serve", "--help", here=tmp_path, before=without).returncode == 0
    done = start("serve", "--model", "fake/echo", here=tmp_path, before=without)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "mmconv[serve]" in done.stderr


def single_options() -> Iterator[tuple[str, str]]:
    """Every command with one of its options that take one value."""
    context = click.Context(commands)
    for name in commands.list_commands(context):
        command = commands.get_command(context, name)
        assert command is not None
        options = (each for each in command.params if isinstance(each, click.Option))
        single = [each for each in options if not (each.multiple or each.is_flag)]
        if single:
            yield name, single[0].opts[0]


def test_an_unknown_command_names_the_nearest() -> None:
    result = typed("runn")
    assert result.exit_code == 2
    assert "no command 'runn'; did you mean run?" in result.output


@pytest.mark.parametrize(
    ("words", "named"),
    [((name, option, "1", f"{option}=2"), option) for name, option in single_options()],
)
def test_an_option_given_twice_is_refused(words: tuple[str, ...], named: str) -> None:
    result = typed(*words)
    assert result.exit_code == 2
    assert f"Usage: commands {words[0]}" in result.output
    assert f"{named} is given twice, but takes one value." in result.output


def test_a_file_that_cannot_be_opened_is_not_blamed_on_the_installation() -> None:
    error = OSError(errno.EMFILE, "Too many open files", basics.__file__)
    message = basics.describe_file_error(error)
    assert message is not None
    assert message.startswith("too many open files (limit ")
    assert "install mmconv" not in message
