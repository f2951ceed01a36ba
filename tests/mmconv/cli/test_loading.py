"""Commands are loaded without looking for garbage, which is looked for again afterwards."""

from __future__ import annotations

import gc

import click
import pytest

from mmconv import cli


def test_garbage_is_looked_for_again_once_a_command_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[bool] = []

    def fail(_: str) -> None:
        looked.append(gc.isenabled())
        raise ImportError("no such module")

    assert cli.commands.get_command(click.Context(cli.commands), "run") is not None
    assert gc.isenabled()
    monkeypatch.setattr(cli, "import_module", fail)
    with pytest.raises(ImportError):
        cli.commands.get_command(click.Context(cli.commands), "score")
    assert looked == [False]
    assert gc.isenabled()
