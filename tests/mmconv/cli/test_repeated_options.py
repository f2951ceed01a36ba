"""An option that takes one value is refused where it is given twice, by every command."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from mmconv.cli import commands


def single_options() -> Iterator[tuple[str, str]]:
    """Every command with one of its options that take one value."""
    context = click.Context(commands)
    for name in commands.list_commands(context):
        command = commands.get_command(context, name)
        assert command is not None
        options = (each for each in command.params if isinstance(each, click.Option))
        single = [each for each in options if not (each.multiple or each.is_flag)]
        if single:
            yield name, single[0].opts[-1]


@pytest.mark.parametrize(("command", "option"), list(single_options()))
def test_an_option_given_twice_is_refused(command: str, option: str) -> None:
    result = CliRunner().invoke(commands, [command, option, "1", f"{option}=2"])
    assert result.exit_code == 2
    assert f"{option} is given twice, and takes one value." in result.output


def test_two_candidates_are_not_silently_the_last() -> None:
    words = ("run", "convbench", "--candidate", "a", "--judge", "b", "--candidate", "c")
    result = CliRunner().invoke(commands, words)
    assert result.exit_code == 2
    assert "Usage: commands run" in result.output
    assert "--candidate is given twice, and takes one value." in result.output


def test_options_of_many_values_and_flags_may_be_repeated() -> None:
    words = ["check", "nothing", "--set", "seed=1", "--set", "limit=2", "--generate-only"]
    result = CliRunner().invoke(commands, [*words, "--generate-only"])
    assert "twice" not in result.output
    assert "'nothing' is neither a .yaml file nor a benchmark" in str(result.exception)
