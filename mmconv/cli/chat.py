"""`mmconv chat`: talk to a model, to see what it says before paying for a run."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from images import Library
from mmconv.cli.shared.option_values import FILE
from mmconv.cli.shared.visible_text import visible
from mmconv.core.config import ModelSpec, SamplingSpec, load_model
from mmconv.core.errors import ConfigError, ImageError
from mmconv.core.run_stats import SeatTally
from mmconv.core.types import Failure, Message, Part, Reply, Sampling, Text
from mmconv.engine import Seat
from mmconv.engine.setup import build_model, build_seat, check_key, check_sight

UNLESS_TOLD = Sampling(max_tokens=512, temperature=0.0)
"""How a model is asked where neither its file nor the command line says."""

HELP = """\
/image PATH  shows a picture with the next turn
/help        tells this
A line with a blank before its slash is said. Ctrl-C stops a reply; an empty line or Ctrl-D ends."""


@click.command(name="chat")
@click.argument("model")
@click.option("--image", "pictures", type=FILE, multiple=True, help="Shown with the first turn.")
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    help=f"The model file's own unless set, or {UNLESS_TOLD.max_tokens}.",
)
@click.option(
    "--temperature",
    type=click.FloatRange(min=0),
    help=f"The model file's own unless set, or {UNLESS_TOLD.temperature:g}.",
)
def command(
    model: str, pictures: tuple[Path, ...], max_tokens: int | None, temperature: float | None
) -> None:
    """Talk to MODEL; an empty line or Ctrl-D ends.  /image PATH shows it another picture.

    A line that begins with a slash is a command (/help tells them), and with a blank before the
    slash it is said. Ctrl-C stops a reply, and the chat goes on.
    """
    told = {"max_tokens": max_tokens, "temperature": temperature}
    sampling = SamplingSpec.model_validate(
        {name: value for name, value in told.items() if value is not None}
    )
    # A person who waits would rather be told of a failure than wait for it to pass.
    spec = load_model(model).model_copy(update={"attempts": 1})
    check_key(spec)
    if pictures:
        _check_sight(spec)
    # A line is read outside of the event loop, so that Ctrl-C ends the program at once.
    with asyncio.Runner() as runner:
        _chat(runner, spec, pictures, sampling)


def _chat(
    runner: asyncio.Runner, spec: ModelSpec, pictures: tuple[Path, ...], sampling: SamplingSpec
) -> None:
    library = Library()
    shown: list[Part] = [library.add_file(str(path)) for path in pictures]
    history: list[Message] = []
    seat = build_seat(spec, build_model(spec, library), sampling)
    try:
        while line := _read_line():
            if line.startswith("/"):
                shown += _obey(library, spec, line)
                continue
            said = Message(role="user", parts=(*shown, Text(text=line)))
            try:
                reply = runner.run(_answer(seat, (*history, said)))
            except KeyboardInterrupt:
                click.echo("(stopped: the turn does not count)", err=True)
                continue
            if reply is not None:
                history += [said, Message(role="assistant", parts=(Text(text=reply.text),))]
                shown = []
    finally:
        runner.run(seat.model.aclose())


def _check_sight(spec: ModelSpec) -> None:
    """Raise `ConfigError` for a model that is known, before it is loaded, to take no images."""
    try:
        check_sight(spec)
    except ConfigError as error:
        raise ConfigError(f"model {spec.label}: {error}") from error


def _obey(library: Library, spec: ModelSpec, line: str) -> list[Part]:
    """The picture that a command shows, or none: what is wrong is told, and one can go on."""
    command, _, path = line.partition(" ")
    if line.strip() == "/help":
        click.echo(HELP, err=True)
    elif command != "/image" or not path.strip():
        click.echo(f"({line!r} is not said: /help tells what a slash can begin)", err=True)
    else:
        try:
            _check_sight(spec)
            return [library.add_file(path.strip())]
        except (ConfigError, ImageError) as error:
            click.echo(f"({error})", err=True)
    return []


async def _answer(seat: Seat, said: tuple[Message, ...]) -> Reply | None:
    """Ask once; a failure is told and leaves the history as it was."""
    messages, sampling = seat.prompt(said, UNLESS_TOLD)
    reply = await seat.model.ask(
        messages, sampling, priority=0, affinity="chat", pinned=None, tally=SeatTally()
    )
    if isinstance(reply, Failure):
        click.echo(visible(f"({reply.kind}: {reply.message})"), err=True)
        return None
    if reply.reasoning:
        click.secho(visible(reply.reasoning), dim=True)
    click.echo(visible(reply.text))
    if reply.finish == "length":
        click.echo(f"(cut off after {sampling.max_tokens} tokens: see --max-tokens)", err=True)
    return reply


def _read_line() -> str:
    """What is said next, nothing at the end; only a person is prompted for it."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    try:
        return str(click.prompt("you", prompt_suffix="> ", default="", show_default=False))
    except click.Abort:
        return ""
