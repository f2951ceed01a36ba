"""`mmconv chat`: talk to a model, to see what it says before paying for a run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from images import Library
from mmconv.assemble import find_provider
from mmconv.cli.specs import FILE
from mmconv.config import ModelSpec, load_model
from mmconv.errors import BackendError, ImageError
from mmconv.protocols import Backend
from mmconv.values import Message, Part, Reply, Sampling, Text


@click.command(name="chat")
@click.argument("model")
@click.option("--image", "pictures", type=FILE, multiple=True, help="Shown with the first turn.")
@click.option("--max-tokens", default=512, show_default=True)
@click.option("--temperature", default=0.0, show_default=True)
def command(model: str, pictures: tuple[Path, ...], max_tokens: int, temperature: float) -> None:
    """Talk to MODEL; an empty line or Ctrl-D ends.  /image PATH shows it another picture."""
    sampling = Sampling(max_tokens=max_tokens, temperature=temperature)
    # A line is read outside of the event loop, so that Ctrl-C ends the program at once.
    with asyncio.Runner() as runner:
        _chat(runner, load_model(model), pictures, sampling)


def _chat(
    runner: asyncio.Runner, spec: ModelSpec, pictures: tuple[Path, ...], sampling: Sampling
) -> None:
    library = Library()
    shown: list[Part] = [library.add_file(str(path)) for path in pictures]
    history: list[Message] = []
    if spec.system is not None:
        history.append(Message(role="system", parts=(Text(text=spec.system),)))
    backend = runner.run(find_provider(spec.provider).open_backend(spec, library))
    try:
        while line := _read_line():
            if line.startswith("/image "):
                shown += _pictures(library, line.removeprefix("/image ").strip())
                continue
            said = Message(role="user", parts=(*shown, Text(text=line)))
            reply = runner.run(_answer(backend, [*history, said], sampling))
            if reply is not None:
                history += [said, Message(role="assistant", parts=(Text(text=reply.text),))]
                shown = []
    finally:
        runner.run(backend.aclose())


def _pictures(library: Library, path: str) -> list[Part]:
    """The picture at the path, or none: a wrong path is told, and the conversation goes on."""
    try:
        return [library.add_file(path)]
    except ImageError as error:
        click.echo(f"({error})", err=True)
        return []


async def _answer(backend: Backend, messages: list[Message], sampling: Sampling) -> Reply | None:
    """Ask once; a failure is told and leaves the history as it was."""
    try:
        reply = await backend.generate(messages, sampling, affinity="chat")
    except BackendError as error:
        click.echo(f"({error.kind}: {error})", err=True)
        return None
    if reply.reasoning:
        click.secho(reply.reasoning, dim=True)
    click.echo(reply.text)
    if reply.finish == "length":
        click.echo("(cut off at --max-tokens)", err=True)
    return reply


def _read_line() -> str:
    try:
        return str(click.prompt("you", prompt_suffix="> ", default="", show_default=False))
    except click.Abort:
        return ""
