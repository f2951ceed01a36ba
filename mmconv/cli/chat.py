"""`mmconv chat`: chat with a model, to try it before a run."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from images import ImageStore
from mmconv.cli.shared.basics import FILE, visible
from mmconv.core.config import ModelSpec, SamplingSpec, load_model
from mmconv.core.errors import ConfigError, ImageError
from mmconv.core.run_stats import ModelStats
from mmconv.core.types import Failure, Message, Part, Reply, Sampling, Text
from mmconv.engine import RoleModel
from mmconv.engine.setup import build_model, build_role_model, check_key, check_sight

DEFAULT = Sampling(max_tokens=512, temperature=0.0)
"""The sampling if neither the model's file nor the command line sets it."""

HELP = """\
/image PATH  shows an image with the next turn
/help        lists these commands
To send a line that starts with a slash, put a space before it.
Ctrl-C stops a reply; an empty line or Ctrl-D ends the chat."""


@click.command(name="chat")
@click.argument("model")
@click.option(
    "--image", "images", type=FILE, multiple=True, help="Shown with the first turn. Repeatable."
)
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    help=f"[default: the model file's, or {DEFAULT.max_tokens}]",
)
@click.option(
    "--temperature",
    type=click.FloatRange(min=0),
    help=f"[default: the model file's, or {DEFAULT.temperature:g}]",
)
def chat_command(
    model: str, images: tuple[Path, ...], max_tokens: int | None, temperature: float | None
) -> None:
    """Chat with MODEL; an empty line or Ctrl-D ends.  /image PATH shows it another image.

    A line that starts with a slash is a command (/help lists them); with a space before the slash
    it is sent. Ctrl-C stops a reply, and the chat continues.
    """
    values = {"max_tokens": max_tokens, "temperature": temperature}
    sampling = SamplingSpec.model_validate(
        {name: value for name, value in values.items() if value is not None}
    )
    # a person would rather see a failure than wait for retries
    spec = load_model(model).model_copy(update={"attempts": 1})
    check_key(spec)
    if images:
        _check_sight(spec)
    # lines are read outside the event loop, so that Ctrl-C at the prompt ends the program at once
    with asyncio.Runner() as runner:
        _chat(runner, spec, images, sampling)


def _chat(
    runner: asyncio.Runner, spec: ModelSpec, images: tuple[Path, ...], sampling: SamplingSpec
) -> None:
    library = ImageStore()
    shown: list[Part] = [library.add_file(str(path)) for path in images]
    history: list[Message] = []
    role = build_role_model(spec, build_model(spec, library), sampling)
    try:
        while line := _read_line():
            if line.startswith("/"):
                shown += _obey(library, spec, line)
                continue
            message = Message(role="user", parts=(*shown, Text(text=line)))
            try:
                reply = runner.run(_answer(role, (*history, message)))
            except KeyboardInterrupt:
                click.echo("(stopped: this turn does not count)", err=True)
                continue
            if reply is not None:
                history += [message, Message(role="assistant", parts=(Text(text=reply.text),))]
                shown = []
    finally:
        runner.run(role.model.aclose())


def _check_sight(spec: ModelSpec) -> None:
    try:
        check_sight(spec)
    except ConfigError as error:
        raise ConfigError(f"model {spec.label}: {error}") from error


def _obey(library: ImageStore, spec: ModelSpec, line: str) -> list[Part]:
    """The image that a command shows, if any; errors are printed, and the chat continues."""
    command, _, path = line.partition(" ")
    if line.strip() == "/help":
        click.echo(HELP, err=True)
    elif command != "/image" or not path.strip():
        click.echo(f"({line!r} is not a command and was not sent: see /help)", err=True)
    else:
        try:
            _check_sight(spec)
            return [library.add_file(path.strip())]
        except (ConfigError, ImageError) as error:
            click.echo(f"({error})", err=True)
    return []


async def _answer(role: RoleModel, messages: tuple[Message, ...]) -> Reply | None:
    """Request a reply and print it; after a failure, print that and return None."""
    prompt, sampling = role.prompt(messages, DEFAULT)
    reply = await role.model.ask(
        prompt, sampling, priority=0, affinity="chat", pinned=None, stats=ModelStats()
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
    """The next line, empty at the end; the prompt is for terminals only."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    try:
        return str(click.prompt("you", prompt_suffix="> ", default="", show_default=False))
    except click.Abort:
        return ""
