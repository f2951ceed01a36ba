"""The command line: thin commands over `mmconv.engine.run`, imported when they are used.

Every module of this package is a command; what they are built from is in `mmconv.cli.shared`.

Errors that mmconv raises on purpose are printed without a traceback, unless it is asked for. Exit
codes: 0 done, 1 done but more calls failed than allowed, or stopped because a model cannot answer,
2 bad configuration, input or code of one's own, or a place that cannot be read or written, 130
interrupted, or stopped by --max-cost, 141 nobody reads the output any more.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from traceback import print_exc
from types import ModuleType
from typing import Any

import click

from mmconv import __version__
from mmconv.cli.shared.file_errors import tell_file_error
from mmconv.cli.shared.option_values import require_utf8
from mmconv.cli.shared.visible_text import visible
from mmconv.core.errors import ConfigError, DataError, InputError, MmconvError, OwnCodeError

COMMANDS = {
    "run": "Run a benchmark; running it again resumes.",
    "score": "Parse and aggregate a run again, asking nothing.",
    "show": "Show what a model was sent and said, sample by sample.",
    "report": "Write the page of a run again.",
    "compare": "Compare runs of one benchmark, with paired differences.",
    "leaderboard": "Rank runs of one benchmark, a row each.",
    "export": "Write a run as a log of another tool (Inspect).",
    "check": "Check a configuration and its data, asking nothing.",
    "options": "List what a benchmark can be told.",
    "scenes": "Draw scenes with questions and true answers about them.",
    "models": "List the models that ship with mmconv.",
    "chat": "Talk to a model, with pictures.",
    "rescore": "Read published judgements, and print their tables.",
    "agree": "Compare a judge's ratings with people's.",
    "calibrate": "Fit settings that papers do not publish.",
    "perturb": "Put typing errors and pinyin into what users say.",
    "annotate": "Draft the annotations that a data set lacks.",
    "serve": "Serve models, judges and benchmarks over HTTP.",
    "merge": "Join the stores of shards.",
    "demo": "Run the main job on drawn pictures: no data, no key, no GPU.",
}

PACKAGES = ("images", "judges", "model_zoo")
"""The packages that are installed beside this one."""

ELSEWHERE = {"serve": "mmconv.service.command"}
"""Commands whose modules lie outside this package."""

LIMITS = {
    "ulimit -v": (resource.RLIMIT_AS, 1000, 2**20),
    "ulimit -n": (resource.RLIMIT_NOFILE, 40, 1),
}
"""The command that raises a limit -> the limit, the least that it may be, and its unit."""

READER_LEFT = 141
"""The exit code of a program that SIGPIPE ends, as `head` does to what it has read enough of."""


class LazyGroup(click.Group):
    """A group whose commands are modules of this package or `ELSEWHERE`, loaded when named.

    The list of commands comes from `COMMANDS`, so that help is quick. An option that is given twice
    and takes one value is refused: the library takes the last value and says nothing.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of a user's work."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command's own object, from its module."""
        if cmd_name not in COMMANDS:
            return None
        command = _load(ELSEWHERE.get(cmd_name, f"mmconv.cli.{cmd_name}")).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and tell as much of an error as is asked for."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # what is left in the buffer would be told as an error at the very end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(READER_LEFT)
        except (MmconvError, OSError) as error:
            if ctx.params["traceback"]:
                print_exc()
            if ctx.params["all_problems"] and isinstance(error, DataError):
                raise InputError(error.in_full) from error
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command and its arguments.

        Raises `click.UsageError` for an option that is given twice, `ConfigError` for an argument
        that is not UTF-8.
        """
        for given in args:
            require_utf8(given)
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing:
            settings = command.context_settings
            with command.context_class(command, ctx, name, **settings) as below:
                _refuse_repeated(command, below, rest)
        return name, command, rest


def _load(name: str) -> ModuleType:
    """Import a module, without looking for garbage in what is going to stay."""
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.freeze()
        gc.enable()


def _refuse_repeated(command: click.Command, ctx: click.Context, args: Sequence[str]) -> None:
    given: set[click.Parameter] = set()
    for option in command.make_parser(ctx).parse_args(list(args))[2]:
        if option in given and isinstance(option, click.Option) and _takes_one(option):
            raise click.UsageError(f"{option.opts[-1]} is given twice, and takes one value.", ctx)
        given.add(option)


def _takes_one(option: click.Option) -> bool:
    return not (option.multiple or option.is_flag or option.count)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
@click.option("--traceback", is_flag=True, help="Show where in the code an error comes from.")
@click.option(
    "--all-problems",
    is_flag=True,
    help="List every problem of a data file, not a few of each kind.",
)
def commands(traceback: bool, all_problems: bool) -> None:
    """Evaluate vision-language models and LLMs in multi-turn conversation."""


def check_packages() -> None:
    """Raise `ConfigError` where a file or folder of the user's has the name of a package of ours.

    With PYTHONPATH=. those come first, and what they lack would be told as an error of mmconv's.
    """
    home = Path(__file__).parents[2]
    for name in PACKAGES:
        spec = find_spec(name)
        found = spec and (spec.origin or next(iter(spec.submodule_search_locations or ()), None))
        if found and not Path(found).is_relative_to(home):
            raise ConfigError(
                f"{found} hides the package {name!r} that mmconv brings: rename it, or take its "
                "folder off PYTHONPATH"
            )


def check_limits() -> None:
    """Raise `ConfigError` for a limit on memory or open files that no command can work with.

    Libraries do not say so: OpenBLAS ends the process, pyarrow crashes it, SQLite finds no file.
    """
    for limit, (number, least, unit) in LIMITS.items():
        soft, _ = resource.getrlimit(number)
        if soft != resource.RLIM_INFINITY and soft < least * unit:
            kind = "MB of address space" if unit > 1 else "open files"
            raise ConfigError(
                f"this shell allows {soft // unit} {kind}, and mmconv needs {least}: raise the "
                f"limit with `{limit}`"
            )


def main() -> None:
    """Run the command line and leave with its exit code."""
    # Batch systems send it while data are read and tables are made too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        check_packages()
        check_limits()
        sys.exit(commands.main(standalone_mode=False))
    except MmconvError as error:
        click.echo(visible(f"Error: {error}"), err=True)
        if isinstance(error, OwnCodeError):
            click.echo("`mmconv --traceback COMMAND ...` shows the whole traceback.", err=True)
        if isinstance(error, DataError) and error.is_cut:
            click.echo("`mmconv --all-problems COMMAND ...` lists every problem.", err=True)
        sys.exit(2)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except OSError as error:
        told = tell_file_error(error)
        if told is None:
            raise
        click.echo(f"Error: {told}", err=True)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        # asyncio comes with it, which would be two fifths of what every command takes to start
        from model_zoo.loading_threads import end_with_loads

        click.echo("interrupted", err=True)
        end_with_loads(130)
        sys.exit(130)
