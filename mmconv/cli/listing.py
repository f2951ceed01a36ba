"""`mmconv models` and `options`: what can be named, and what can be set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import click
from pydantic import BaseModel

from mmconv.benchmarks.options import Description, describe
from mmconv.benchmarks.registry import TITLES
from mmconv.cli.shared.options import BENCHMARKS, SHORT_FORMS
from mmconv.cli.shared.table_output import form_option, print_tables, terminal_width
from mmconv.core.config import REFERENCE, YAML_FILES, ModelSpec, load_model, model_files
from mmconv.core.documents import read_document
from mmconv.core.errors import ConfigError
from mmconv.core.types import Cell, Table
from mmconv.engine.setup import find_benchmark
from mmconv.report.tables.text import fold
from model_zoo.providers import PROVIDERS, find_provider
from model_zoo.simulated.fake import FAKES
from model_zoo.simulated.reference import METRICS

Entry: TypeAlias = tuple[str, ...]

PARAMETERS = "parameters (billions)"
IMAGES = "images"
TERMS = "licence, or price per million tokens"
MODEL = "model"

NEED_NO_FILE = {
    REFERENCE: "as a candidate: the human references of the benchmark's data",
    **{
        f"reference/{metric}": f"offline judge of ConvBench: overlap of texts by {name}"
        for metric, name in METRICS.items()
    },
    "simulated/candidate": "simulated: answers with planted mistakes, at known rates",
    "simulated/judge": "simulated: judges simulated/candidate",
    **{f"fake/{name}": f"fake: {text}" for name, text in FAKES.items()},
}
"""Names that are not models and need no file -> what they do."""

WIDEST = 100

PREFIX = "options."

_OPTION_OF = {field.removeprefix(PREFIX): option for option, field in SHORT_FORMS.items()}
_BOUNDS = {"minimum": "from {}", "exclusiveMinimum": "above {}", "maximum": "to {}"}
_TYPES = {"boolean": "true or false", "integer": "an integer", "number": "a number"}


@click.command(name="models")
@click.argument("word", default="")
@click.option("--images", is_flag=True, help="Only models that take images.")
@click.option(
    "--fields",
    is_flag=True,
    help="List the fields of a model file, or with WORD the options of that provider.",
)
@form_option
def models_command(word: str, images: bool, fields: bool, form: str) -> None:
    """List the models that ship, or those with WORD in their name, model, provider or licence.

    An empty cell is unknown, or changes often. Names that need no file are at the end. Any other
    model is named provider/model, or by a .yaml file of yours.
    """
    if fields:
        print_sections(_provider_options(word) if word else _model_fields())
        return
    rows = {
        name: cells
        for name, cells in _model_rows()
        if (not images or cells[IMAGES].value == "yes")
        and any(
            word.lower() in str(text).lower()
            for text in (name, cells[TERMS].value, cells[MODEL].value)
        )
    }
    if not rows:
        raise ConfigError(f"no shipped model has {word!r} in its name, model, provider or licence")
    count = len(model_files()) + len(NEED_NO_FILE)
    title = f"{len(rows)} of {count} models" if word or images else "Models"
    columns = PARAMETERS, IMAGES, TERMS, MODEL
    print_tables([Table(name="models", title=title, columns=columns, rows=rows, digits=1)], form)


def _model_rows() -> Iterator[tuple[str, Mapping[str, Cell]]]:
    for name in model_files():
        model = load_model(name)
        about, price = model.about, model.price
        size = {} if about.parameters is None else {PARAMETERS: Cell(value=about.parameters)}
        terms = about.licence if price is None else f"${price.input:g} in, ${price.output:g} out"
        yield (
            name,
            {
                **size,
                IMAGES: Cell(value={True: "yes", False: "no", None: "?"}[about.images]),
                TERMS: Cell(value=terms),
                MODEL: Cell(value=f"{model.provider}/{model.model}"),
            },
        )
    for name, text in NEED_NO_FILE.items():
        cells = {IMAGES: "ignored", TERMS: text, MODEL: name}
        yield name, {column: Cell(value=value) for column, value in cells.items()}


def _model_fields() -> Iterator[tuple[str, Sequence[Entry]]]:
    heading = (
        "Fields of a model file; in a run file under models.NAME, or --set models.NAME.FIELD=VALUE"
    )
    yield heading, list_fields(ModelSpec)
    providers = [(f"mmconv models --fields {name}", PROVIDERS[name]) for name in sorted(PROVIDERS)]
    yield "The options of a provider", providers


def _provider_options(provider: str) -> list[tuple[str, Sequence[Entry]]]:
    classes = find_provider(provider).options
    if not classes:
        raise ConfigError(f"{provider} has no pydantic model whose name ends in Options to list")
    return [
        ((kind.__doc__ or kind.__name__).splitlines()[0], list_fields(kind, PREFIX))
        for kind in classes
    ]


@click.command(name="options", epilog=BENCHMARKS)
@click.argument("benchmark", metavar="BENCHMARK|MODULE:CLASS|RUN.yaml")
def options_command(benchmark: str) -> None:
    """List a benchmark's model roles, conditions and options, with values and defaults.

    A run file stands for its benchmark, MODULE:CLASS for a benchmark of yours. `mmconv run --help`
    lists what every run has (limit, trials, seed, sampling).
    """
    description = _describe(benchmark)
    print_sections(
        [
            ("Model roles, --set models.NAME=MODEL", list(description.roles.items())),
            (
                f"Conditions, --conditions LIST  [default: {description.unnamed}]",
                list(description.conditions.items()),
            ),
            (
                "Options: --NAME VALUE (with dashes), or options: in a run file",
                list_fields(description.options),
            ),
        ]
    )


def _describe(target: str) -> Description:
    name = target
    if target.endswith(YAML_FILES):
        document = read_document(Path(target))
        if "benchmark" not in document:
            raise ConfigError(f"{target}: benchmark is required and not set")
        name = str(document["benchmark"])
    if name in TITLES or ":" not in name:
        return describe(name)
    return find_benchmark(name).describe()


def print_sections(sections: Iterable[tuple[str, Sequence[Entry]]]) -> None:
    """Print each heading with its entries: names on the left, their texts on the right."""
    width = min(terminal_width(), WIDEST)
    lines: list[str] = []
    for heading, entries in sections:
        lines += ["", *fold(heading, width)]
        indent = max((len(name) for name, *_ in entries), default=0) + 4
        for name, *texts in entries:
            folded = [line for text in texts for line in fold(text, width - indent)]
            lines.append(f"  {name}".ljust(indent) + f"\n{' ' * indent}".join(folded))
    click.echo("\n".join(lines[1:]))


def list_fields(kind: type[BaseModel], prefix: str = "") -> list[Entry]:
    """Each field, its name after `prefix`, with its docstring and facts; required fields first."""
    schema = kind.model_json_schema()
    fields = sorted(_fields(schema, schema.get("$defs", {}), prefix), key=lambda field: field[0])
    return [entry for _, entry in fields]


def _fields(
    schema: Mapping[str, Any], groups: Mapping[str, Any], prefix: str
) -> Iterator[tuple[bool, Entry]]:
    """Each entry, and whether the field is optional. Groups are flattened unless optional."""
    required = schema.get("required", ())
    for field, rule in schema["properties"].items():
        name = prefix + field
        if "$ref" in rule:
            group = groups[rule["$ref"].rpartition("/")[2]]
            yield from _fields(group, groups, f"{name}.")
            continue
        facts = [f"--{_OPTION_OF[name].replace('_', '-')}"] if name in _OPTION_OF else []
        facts.append(_values(rule))
        default = _default(rule.get("default"))
        facts.append("required" if field in required else f"default: {default}")
        yield field not in required, (name, rule.get("description", "-"), f"[{'; '.join(facts)}]")


def _values(rule: Mapping[str, Any]) -> str:
    """The values that a field takes, from its JSON schema."""
    if "anyOf" in rule:
        return " or ".join(_values(part) for part in rule["anyOf"] if part.get("type") != "null")
    if "const" in rule:
        return str(rule["const"])
    if "enum" in rule:
        return "|".join(rule["enum"])
    if "$ref" in rule:
        return "a mapping"
    match rule["type"]:
        case "array":
            return f"a list, each {_values(rule['items'])}"
        case "object" if rule["additionalProperties"] is True:
            return "a mapping"
        case "object":
            keys = _values(rule.get("propertyNames", {"type": "string"}))
            return f"a mapping from {keys} to {_values(rule['additionalProperties'])}"
        case "string":
            return "a path" if rule.get("format") == "path" else "a text"
    bounds = [text.format(rule[bound]) for bound, text in _BOUNDS.items() if bound in rule]
    return " ".join([_TYPES[rule["type"]], *bounds])


def _default(value: Any) -> str:
    if value is None or value == "":
        return "not set"
    if value == []:
        return "none"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
