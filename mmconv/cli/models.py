"""`mmconv models`: the models that have a name, what helps to choose one, and what a file sets."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence

import click

from mmconv.cli.shared.field_lists import PREFIX, Entry, print_sections, tell_fields
from mmconv.cli.shared.table_output import form_option, print_tables
from mmconv.core.config import ModelSpec, load_model, model_files
from mmconv.core.errors import ConfigError
from mmconv.core.types import Cell, Table
from model_zoo.providers import PROVIDERS, find_provider
from model_zoo.simulated.fake import STAND_INS
from model_zoo.simulated.reference import METRICS
from model_zoo.simulated.scenes import MODEL as FACTS

SIMULATED = {
    "candidate": "answers with planted mistakes, at known rates",
    "judge": "marks simulated/candidate",
}
"""What each model of the provider `simulated` does."""

PARAMETERS = "parameters (billions)"
IMAGES = "images"
TERMS = "licence, or price per million tokens"
MODEL = "model"
FIELDS = (
    "Fields of a model file; in a run file, under seats.SEAT, or by --set seats.SEAT.FIELD=VALUE"
)

NEED_NO_FILE = {
    **{
        f"reference/{metric}": f"offline judge of ConvBench: overlap of texts by {name}"
        for metric, name in METRICS.items()
    },
    f"scenes/{FACTS}": "offline judge of drawn scenes: fact by fact",
    **{f"simulated/{name}": f"simulated: {does}" for name, does in SIMULATED.items()},
    **{f"fake/{name}": f"stand-in: {does}" for name, does in STAND_INS.items()},
}
"""What is no model and has no file: name -> what it does."""

COLUMNS = (PARAMETERS, IMAGES, TERMS, MODEL)


@click.command(name="models")
@click.argument("word", default="")
@click.option("--images", is_flag=True, help="Only models that take images.")
@click.option(
    "--fields", is_flag=True, help="List what a model file can set, or a provider's options (WORD)."
)
@form_option
def command(word: str, images: bool, fields: bool, form: str) -> None:
    """List the shipped models, or those with WORD in their name, model, provider or licence.

    What is not told is not known, or changes. Those that need no file stand at the end; any other
    model is named provider/model, or by a .yaml file of your own.
    """
    if fields:
        print_sections(_options(word) if word else _fields())
        return
    found = {
        name: cells
        for name, cells in (*_described(), *_without_files())
        if (not images or cells[IMAGES].value == "yes") and _holds(word, name, cells)
    }
    if not found:
        raise ConfigError(f"no shipped model has {word!r} in its name, model, provider or licence")
    count = len(model_files()) + len(NEED_NO_FILE)
    title = f"{len(found)} of {count} models" if word or images else "Models"
    table = Table(name="models", title=title, columns=COLUMNS, rows=found, digits=1)
    print_tables([table], form)


def _fields() -> Iterator[tuple[str, Sequence[Entry]]]:
    yield FIELDS, tell_fields(ModelSpec)
    asked = [(f"mmconv models --fields {name}", PROVIDERS[name]) for name in sorted(PROVIDERS)]
    yield "The options of a provider", asked


def _options(provider: str) -> list[tuple[str, Sequence[Entry]]]:
    """What a provider's models can be told, by the classes that read it.

    Raises `ConfigError` for a module of one's own that has none.
    """
    kinds = find_provider(provider).options
    if not kinds:
        raise ConfigError(f"{provider} has no pydantic model whose name ends in Options to list")
    return [
        ((inspect.getdoc(kind) or kind.__name__).splitlines()[0], tell_fields(kind, PREFIX))
        for kind in kinds
    ]


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


def _without_files() -> Iterator[tuple[str, Mapping[str, Cell]]]:
    for name, does in NEED_NO_FILE.items():
        yield (
            name,
            {
                IMAGES: Cell(value="unseen"),
                TERMS: Cell(value=does),
                MODEL: Cell(value=name),
            },
        )


def _terms(model: ModelSpec) -> str:
    if model.price is None:
        return model.about.licence
    return f"${model.price.input:g} in, ${model.price.output:g} out"


def _holds(word: str, name: str, cells: Mapping[str, Cell]) -> bool:
    texts = (name, str(cells[TERMS].value), str(cells[MODEL].value))
    return any(word.lower() in text.lower() for text in texts)
