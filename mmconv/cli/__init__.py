"""The command line: thin commands over `mmconv.engine.run`, imported when they are used.

What commands share is in `mmconv.cli.shared`. Errors that mmconv raises on purpose are printed
without a traceback, unless `--traceback` is given. Exit codes: see mmconv/engine/README.md.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from traceback import print_exc
from typing import Any

import click

from mmconv import __version__
from mmconv.benchmarks import registry
from mmconv.cli.shared.basics import describe_file_error, visible
from mmconv.core.errors import DataError, InputError, MmconvError, UserCodeError

COMMANDS = {
    "run": ("cli.evaluating", "Run a benchmark; the same command resumes it."),
    "sweep": ("cli.sweeping", "Run many models on many benchmarks; the same command resumes it."),
    "score": ("cli.evaluating", "Score a run again from its cached replies."),
    "show": ("cli.show", "Show prompts and replies, sample by sample."),
    "report": ("cli.results", "Write the report page of a run again."),
    "compare": ("cli.comparing", "Compare runs of one benchmark, paired per sample."),
    "power": ("cli.comparing", "Plan how many samples, trials, verdicts or labels find an effect."),
    "leaderboard": ("cli.comparing", "Rank runs of one benchmark."),
    "view": ("service.command", "Browse and compare the runs of a folder in a web page."),
    "label": ("service.command", "Rate a run's answers as people, in a web page."),
    "export": ("cli.results", "Export a run for another tool (lmms-eval, MLflow, ...)."),
    "check": ("cli.evaluating", "Check a configuration and its data, without a call."),
    "options": ("cli.listing", "List a benchmark's model roles, conditions and options."),
    "models": ("cli.listing", "List the models that ship with mmconv."),
    "chat": ("cli.chat", "Chat with a model, with images."),
    "judge": (
        "benchmarks.audit.commands",
        "Audit a judge with answers known to be right or wrong.",
    ),
    "rescore": ("cli.judging", "Score judgements that a benchmark's authors published."),
    "agree": ("cli.judging", "Measure how well a judge agrees with people."),
    "serve": ("service.command", "Serve models, judges and benchmarks over HTTP."),
    "merge": ("cli.results", "Merge the caches of shards."),
}
"""Command -> the module of mmconv that has it as NAME_command, and its help.

Benchmarks bring more: `COMMANDS` of `mmconv.benchmarks.registry`.
"""

WHOLE_TRACEBACK = "`mmconv --traceback COMMAND ...` shows the whole traceback."

CLOSED_PIPE = 141
"""The exit code of a program that SIGPIPE ends, as `head` does once it has read enough."""


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is used, so that help is fast.

    It refuses an option that is given twice but takes one value; click would use the last value.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of a user's work, then those of single benchmarks."""
        return [*COMMANDS, *registry.COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        if cmd_name in registry.COMMANDS:
            module, attribute = registry.find_command(cmd_name)
        elif cmd_name in COMMANDS:
            module, attribute = f"mmconv.{COMMANDS[cmd_name][0]}", f"{cmd_name}_command"
        else:
            return None
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        for title, group in (("Commands", COMMANDS), ("For single benchmarks", registry.COMMANDS)):
            with formatter.section(title):
                formatter.write_dl([(name, text) for name, (_, text) in group.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; show an error in as much detail as the options say."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # otherwise Python reports the rest of the buffer as an error when it exits
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(CLOSED_PIPE)
        except Exception as error:
            signals = (click.ClickException, click.Abort, click.exceptions.Exit)
            if ctx.params["traceback"] and not isinstance(error, signals):
                print_exc()
            if ctx.params["all_problems"] and isinstance(error, DataError):
                raise InputError(error.in_full) from error
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command and its arguments.

        Raises `click.UsageError` for an unknown command and for an option that is given twice.
        """
        if args[0] not in (known := self.list_commands(ctx)):
            # imported late: it imports pydantic
            from mmconv.core.documents import nearest

            ctx.fail(f"no command {args[0]!r}{nearest(args[0], known)}")
        name, command, rest = super().resolve_command(ctx, args)
        # `BenchmarkCommand` takes the benchmark's options from them
        ctx.meta["mmconv.arguments"] = tuple(rest)
        if command is not None and not ctx.resilient_parsing:
            with command.context_class(command, ctx, name, **command.context_settings) as inner:
                seen: set[click.Parameter] = set()
                for option in command.make_parser(inner).parse_args([*rest])[2]:
                    is_single = isinstance(option, click.Option) and not (
                        option.multiple or option.is_flag or option.count
                    )
                    if is_single and option in seen:
                        raise click.UsageError(
                            f"{option.opts[0]} is given twice, but takes one value.", inner
                        )
                    seen.add(option)
        return name, command, rest


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
@click.option("--traceback", is_flag=True, help="Show where in the code an error comes from.")
@click.option(
    "--all-problems",
    is_flag=True,
    help="List every problem of a data file, instead of a few of each kind.",
)
def commands(traceback: bool, all_problems: bool) -> None:
    """Evaluate vision-language models and LLMs in multi-turn conversation."""


def main() -> None:
    """Run the command line and exit with its code."""
    # batch systems also send SIGTERM while a command reads data or writes tables
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(commands.main(standalone_mode=False))
    except MmconvError as error:
        click.echo(visible(f"Error: {error}"), err=True)
        if isinstance(error, UserCodeError):
            click.echo(WHOLE_TRACEBACK, err=True)
        if isinstance(error, DataError) and error.is_cut:
            click.echo("`mmconv --all-problems COMMAND ...` lists every problem.", err=True)
        sys.exit(2)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        # imported late: asyncio takes two fifths of the start-up time of every command
        from model_zoo.loading_threads import end_with_loads

        click.echo("interrupted", err=True)
        end_with_loads(130)
        sys.exit(130)
    except Exception as error:
        # imported late: it imports asyncio
        from mmconv.core.user_code import user_traceback

        message = user_traceback(error)
        if message:
            message += f"\n{WHOLE_TRACEBACK}"
        elif isinstance(error, OSError) and (reason := describe_file_error(error)):
            message = f"Error: {reason}"
        else:
            raise
        click.echo(visible(message), err=True)
        sys.exit(2)
