"""`mmconv models`: the models that ship with mmconv."""

from __future__ import annotations

import click

from mmconv.config import load_model, model_files


@click.command(name="models")
@click.argument("word", default="")
def command(word: str) -> None:
    """List the shipped model files, or those whose name holds WORD.

    Any other model is named provider/model, or by a .yaml file of your own.
    """
    names = [name for name in model_files() if word.lower() in name.lower()]
    if not names:
        click.echo(f"no shipped model has {word!r} in its name")
        return
    width = max(len(name) for name in names)
    for name in names:
        model = load_model(name)
        click.echo(f"{name:<{width}}  {model.provider:<9}  {model.model}")
