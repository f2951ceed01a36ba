"""`mmconv models`: the models that ship with mmconv, and what helps to choose one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click

from mmconv.cli.tabling import form_option, print_tables
from mmconv.config import ModelSpec, load_model, model_files
from mmconv.errors import ConfigError
from mmconv.values import Cell, Table
from model_zoo.fake import STAND_INS

PARAMETERS = "parameters (billions)"
IMAGES = "images"
TERMS = "licence, or price per million tokens"
MODEL = "model"
COLUMNS = (PARAMETERS, IMAGES, TERMS, MODEL)


@click.command(name="models")
@click.argument("word", default="")
@click.option("--images", is_flag=True, help="Only models that take images.")
@form_option
def command(word: str, images: bool, form: str) -> None:
    """List the shipped models, or those with WORD in their name, model, provider or licence.

    What is not told is not known, or changes. Any other model is named provider/model, or by a
    .yaml file of your own.
    """
    found = {
        name: cells
        for name, cells in (*_described(), *_stand_ins())
        if (not images or cells[IMAGES].value == "yes") and _holds(word, name, cells)
    }
    if not found:
        raise ConfigError(f"no shipped model has {word!r} in its name, model, provider or licence")
    count = len(model_files()) + len(STAND_INS)
    title = f"{len(found)} of {count} models" if word or images else "Models"
    table = Table(name="models", title=title, columns=COLUMNS, rows=found, digits=1)
    print_tables([table], form)


def _described() -> Iterator[tuple[str, Mapping[str, Cell]]]:
    for name in model_files():
        model = load_model(name)
        about = model.about
        size = {} if about.parameters is None else {PARAMETERS: Cell(value=about.parameters)}
        seeing = {True: "yes", False: "no", None: "?"}[about.images]
        yield (
            name,
            {
                **size,
                IMAGES: Cell(value=seeing),
                TERMS: Cell(value=_terms(model)),
                MODEL: Cell(value=f"{model.provider}/{model.model}"),
            },
        )


def _stand_ins() -> Iterator[tuple[str, Mapping[str, Cell]]]:
    for name, does in STAND_INS.items():
        model = f"fake/{name}"
        cells = {IMAGES: Cell(value="unseen"), TERMS: Cell(value=f"stand-in: {does}")}
        yield model, cells | {MODEL: Cell(value=model)}


def _terms(model: ModelSpec) -> str:
    if model.price is None:
        return model.about.licence
    return f"${model.price.input:g} in, ${model.price.output:g} out"


def _holds(word: str, name: str, cells: Mapping[str, Cell]) -> bool:
    texts = (name, str(cells[TERMS].value), str(cells[MODEL].value))
    return any(word.lower() in text.lower() for text in texts)
