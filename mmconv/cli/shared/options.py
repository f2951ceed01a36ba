"""Options that several commands have, and the run specification that they lead to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache, reduce
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import click

from mmconv.benchmarks.options import describe
from mmconv.benchmarks.registry import TITLES
from mmconv.cli.shared.basics import FILE, Command, comma_list
from mmconv.core.config import YAML_FILES, RunSpec, accept_seats, override, set_field, use_ray
from mmconv.core.documents import nearest, read_document
from mmconv.core.errors import ConfigError
from mmconv.core.judges import JUDGE, base_role, judge_roles, spread_judges
from mmconv.engine.setup import validate_run

Option: TypeAlias = Callable[[Command], Command]

BENCHMARKS = f"Benchmarks: {', '.join(TITLES)}."

SHORT_FORMS = {
    "candidate": "models.candidate",
    "judge": "models.judge",
    "data": "options.data",
    "images": "options.images",
    "annotations": "options.annotations",
    "positions": "options.positions",
    "grading": "options.grading",
    "order": "options.order",
    "no_judge": "options.generate_only",
    "skip_bad_records": "options.skip_bad_records",
    "allow_drafts": "options.allow_drafts",
    "judge_sees_image": "options.judge_sees_image",
    "conditions": "conditions",
    "limit": "limit",
    "shuffle": "shuffle",
    "sample_id": "samples",
    "trials": "trials",
    "seed": "seed",
    "prompts": "prompts",
}
"""Option -> the field of a run file that it sets."""

LISTS = ("grading", "conditions", "sample_id")


ARGUMENTS = "mmconv.arguments"

OWN = "own_"
"""What the parameters of a benchmark's own options begin with."""


@cache
def own_options(benchmark: str) -> tuple[click.Option, ...]:
    """An option for each option of a shipped benchmark that has no short form for all."""
    return tuple(
        click.Option(
            [f"--{name.replace('_', '-')}", f"{OWN}{name}"],
            metavar="VALUE",
            help=(field.description or "").partition("\n")[0],
        )
        for name, field in describe(benchmark).options.model_fields.items()
        if f"options.{name}" not in SHORT_FORMS.values()
    )


def read_own(values: Mapping[str, Any]) -> dict[str, str]:
    """The values of `own_options` that are given, by the names of the benchmark's options."""
    return {
        name.removeprefix(OWN): value
        for name, value in values.items()
        if name.startswith(OWN) and value is not None
    }


class BenchmarkCommand(click.Command):
    """A command whose first argument may be a benchmark, whose own options it then has too."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The options of the command, then those of the benchmark that the arguments name."""
        params = super().get_params(ctx)
        target = next((each for each in ctx.meta.get(ARGUMENTS, ()) if each in TITLES), None)
        taken = {name for each in params for name in each.opts}
        own = own_options(target) if target else ()
        return [*params, *(each for each in own if taken.isdisjoint(each.opts))]


def _flag(name: str, text: str) -> Option[Command]:
    """A switch that keeps the run file's value unless it is given."""
    return click.option(name, is_flag=True, default=None, help=text)


SAMPLE_OPTIONS: tuple[Option[Any], ...] = (
    click.option("--limit", type=int, metavar="N", help="Run only the first N samples."),
    click.option(
        "--shuffle",
        type=int,
        metavar="SEED",
        help="Draw the samples that --limit counts at random, by this seed.",
    ),
    click.option(
        "--sample-id",
        metavar="LIST",
        help="Run only the samples with these keys, separated by commas.",
    ),
)

SPEC_OPTIONS: tuple[Option[Any], ...] = (
    click.option("--candidate", metavar="MODEL", help="The model to evaluate."),
    click.option("--judge", metavar="MODEL", help="The model that judges, or several: a,b,c."),
    click.option("--data", type=FILE, help="The dataset's file or folder."),
    click.option("--images", type=FILE, help="The folder of its images."),
    click.option("--annotations", type=FILE, help="A file of missing columns, joined by ID."),
    click.option("--positions", type=FILE, help="The authors' pairwise.npy (for --order authors)."),
    click.option("--grading", metavar="LIST", help="direct, pairwise, or direct,pairwise."),
    click.option(
        "--order",
        type=click.Choice(["authors", "random", "both"]),
        help="The candidate's side in pairwise grading.",
    ),
    click.option("--conditions", metavar="LIST", help="Conditions, separated by commas."),
    *SAMPLE_OPTIONS,
    click.option("--trials", type=int, metavar="N", help="Run each sample N times."),
    click.option("--seed", type=int, help="Seed of everything random.  [default: 0]"),
    click.option("--prompts", type=FILE, help="Folder with prompt files that replace mmconv's."),
    _flag("--no-judge", "Only request the candidate's answers."),
    _flag("--skip-bad-records", "Continue without incomplete records; tables say so."),
    _flag("--allow-drafts", "Use unverified annotations; tables say so."),
    _flag("--judge-sees-image", "Send the image to the judge too."),
    click.option(
        "--batch",
        metavar="LIST",
        help="Send the requests of these roles in batches, at half the price, such as judge.",
    ),
    click.option(
        "--wait-for-servers",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="Wait this long for the first connection to each server.  [default: 10]",
    ),
    click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="FIELD=VALUE",
        help="Set any field of the run file, such as sampling.candidate.max_tokens=256.",
    ),
)

PLACE_OPTIONS: tuple[Option[Any], ...] = (
    click.option(
        "--out", type=FILE, default=Path("runs"), show_default=True, help="Folder of the runs."
    ),
    click.option(
        "--store",
        default="",
        help="Cache of replies: a path or a database URL.  [default: OUT/store.sqlite]",
    ),
)


def _use_ray(_ctx: click.Context, _parameter: click.Parameter, address: str | None) -> None:
    if address is not None:
        use_ray(address)


RAY = click.option(
    "--ray",
    metavar="ADDRESS",
    expose_value=False,
    callback=_use_ray,
    help="Ray's cluster for models with replicas.  [default: RAY_ADDRESS, or Ray on this machine]",
)

AUDIT = click.option(
    "--audit", type=FILE, help="An audit of the judge (mmconv judge) that corrects the numbers."
)

TARGET = click.argument("target", metavar="RUN.yaml|BENCHMARK|MODULE:CLASS")


def with_options(*options: Option[Any]) -> Option[Any]:
    """A decorator that adds the options to a command, in this order."""
    return lambda command: reduce(lambda done, option: option(done), reversed(options), command)


def read_spec(
    target: str, values: Mapping[str, Any], *, instead: Mapping[str, str] = MappingProxyType({})
) -> RunSpec:
    """The specification of a run file or of a benchmark, with the command's options on top.

    `instead` maps benchmarks to the classes that are run in their place.
    Raises `ConfigError` that names the file, lists the benchmarks, or names a model role that the
    benchmark does not have.
    """
    document: dict[str, Any]
    if target.endswith(YAML_FILES):
        document, where = read_document(Path(target)), target
    elif target in TITLES or ":" in target:
        document, where = {"benchmark": target}, "command line"
    else:
        raise ConfigError(
            f"{target!r} is neither a .yaml file nor a benchmark nor MODULE:CLASS"
            f"{nearest(target, list(TITLES))}"
        )
    document = _with_values(document, values)
    if isinstance(named := document.get("benchmark"), str):
        document["benchmark"] = instead.get(named, named)
    return validate_run(document, where)


def _quote_texts(document: Mapping[str, Any], own: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """A benchmark's own options as `--set` reads them, those that are texts in quotes."""
    fields = describe(document["benchmark"]).options.model_fields if own else {}
    for name, value in own.items():
        is_text = name in fields and fields[name].annotation in (str, str | None)
        yield name, json.dumps(value, ensure_ascii=False) if is_text else value


def _drop_further_judges(document: Mapping[str, Any]) -> None:
    """Drop `judge_2`, `judge_3`, ... of a run file, which `--judge` replaces too."""
    for group in (document.get("models"), document.get("sampling")):
        if isinstance(group, dict):
            for role in judge_roles(group)[JUDGE in group :]:
                del group[role]


def _with_values(document: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    document = accept_seats(document)
    document.setdefault("models", {})
    for name, field in SHORT_FORMS.items():
        if (value := values.get(name)) is not None:
            option = f"--{name.replace('_', '-')}"
            if name in LISTS or (name == "judge" and "," in value):
                value = comma_list(value, option)
            elif isinstance(value, Path):
                value = str(value)
            set_field(document, field, value, option)
    if values.get("judge") is not None:
        _drop_further_judges(document)
    own = [f"options.{name}={value}" for name, value in _quote_texts(document, read_own(values))]
    document = override(document, [*own, *(values.get("overrides") or ())])
    try:
        document = spread_judges(document)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    _set_for_roles(document, values)
    return document


def _set_for_roles(document: dict[str, Any], values: Mapping[str, Any]) -> None:
    models = document["models"]
    for name in comma_list(batch, "--batch") if (batch := values.get("batch")) else ():
        roles = [role for role in models if name in (role, base_role(role))]
        if not roles:
            hint = nearest(name, list(models))
            raise ConfigError(f"--batch: the run has no model role {name!r}{hint}")
        for role in roles:
            set_field(document, f"models.{role}.batch", True, "--batch")
    if (seconds := values.get("wait_for_servers")) is not None:
        for role in document["models"]:
            set_field(document, f"models.{role}.wait_for_server", seconds, "--wait-for-servers")
