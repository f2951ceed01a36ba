"""From command-line options to a run's specification; shared by the commands that take one."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from mmconv.benchmarks.describing import describe
from mmconv.benchmarks.registry import TITLES
from mmconv.config import (
    YAML_FILES,
    RunSpec,
    nearest,
    override,
    read_document,
    set_field,
    validate,
)
from mmconv.errors import ConfigError
from mmconv.evaluation import Evaluation, Place, open_evaluation, read_run
from mmconv.identity import Shard
from mmconv.store.address import require_folder

Command = TypeVar("Command", bound=Callable[..., Any])

FILE = click.Path(path_type=Path)

NAMED = f"Benchmarks: {', '.join(TITLES)}."
"""What stands below the help of commands that take a benchmark by its name."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""The errors that a full disk brings."""

SHORT_FORMS = {
    "candidate": "seats.candidate",
    "judge": "seats.judge",
    "data": "options.data",
    "images": "options.images",
    "annotations": "options.annotations",
    "positions": "options.positions",
    "grading": "options.grading",
    "order": "options.order",
    "generate_only": "options.generate_only",
    "skip_bad_records": "options.skip_bad_records",
    "allow_drafts": "options.allow_drafts",
    "judge_sees_image": "options.judge_sees_image",
    "conditions": "conditions",
    "limit": "limit",
    "trials": "trials",
    "seed": "seed",
    "prompts": "prompts",
}
"""Option -> the field of the run file that it stands for."""

LISTS = ("grading", "conditions")


def _flag(name: str, text: str) -> Callable[[Command], Command]:
    """A switch that, where it is not given, leaves the run file's word in force."""
    return click.option(name, is_flag=True, default=None, help=text)


OPTIONS = (
    click.option("--candidate", metavar="MODEL", help="The model to evaluate."),
    click.option("--judge", metavar="MODEL", help="The model that judges."),
    click.option("--data", type=FILE, help="The benchmark's data file."),
    click.option("--images", type=FILE, help="The folder of its images."),
    click.option("--annotations", type=FILE, help="Columns that the data file lacks, by ID."),
    click.option("--positions", type=FILE, help="The authors' pairwise.npy."),
    click.option("--grading", metavar="LIST", help="direct, pairwise, or both with a comma."),
    click.option(
        "--order",
        type=click.Choice(["authors", "random", "both"]),
        help="Which side the candidate stands on in pairwise grading.",
    ),
    click.option("--conditions", metavar="LIST", help="Conditions, with commas."),
    click.option("--limit", type=int, help="Only the first so many samples."),
    click.option("--trials", type=int, help="Repeat every sample so often."),
    click.option("--seed", type=int, help="Seed of whatever is drawn."),
    click.option("--prompts", type=FILE, help="A folder whose prompt files replace ours."),
    _flag("--generate-only", "Do not judge."),
    _flag("--skip-bad-records", "Go on without incomplete records; tables say so."),
    _flag("--allow-drafts", "Use annotations that no person has verified; tables say so."),
    _flag("--judge-sees-image", "Send the judge the picture too."),
    click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="FIELD=VALUE",
        help="Set any field of the run file, as in sampling.candidate.max_tokens=256.",
    ),
)


def spec_options(command: Command) -> Command:
    """Add the options that stand for fields of a run file."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def place_options(command: Command) -> Command:
    """Add the options that say where runs and their store lie."""
    out = click.option(
        "--out", type=FILE, default=Path("runs"), show_default=True, help="Folder of the runs."
    )
    store = click.option(
        "--store", default="", help="Store: a path or a database URL.  [default: OUT/store.sqlite]"
    )
    return out(store(command))


def place(out: Path, store: str) -> Place:
    """Where the run is written; raises `StoreError` for a store in a folder that is not there.

    The folder of the runs, where the default one lies, is made.
    """
    require_folder(store, f"--store {store}", made=out)
    return Place(out=out, store=store)


@asynccontextmanager
async def open_new(
    spec: RunSpec, where: Place, part: Shard | None = None
) -> AsyncIterator[Evaluation]:
    """A run that is to be made, refused where its models are known to be unfit for it.

    Raises as `mmconv.evaluation.open_evaluation` and `Evaluation.check_calls` do.
    """
    async with open_evaluation(spec, where, part) as evaluation:
        evaluation.check_calls()
        yield evaluation


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Raise `ConfigError` that says where, in place of an `OSError` of files in this folder."""
    place = folder.absolute()
    try:
        yield
    except OSError as error:
        told = f"cannot write into {folder}: {error.strerror}"
        if error.errno in NO_ROOM:  # Then the system does not name the file.
            told += "; what was answered before is kept: make room, and give the same command again"
        elif not error.filename or not Path(error.filename).absolute().is_relative_to(place):
            raise
        raise ConfigError(told) from error


def enter_run(folder: Path) -> tuple[RunSpec, Place, Shard]:
    """What a run's folder says of itself, from the folder that the run was started in.

    A run's paths are as they were typed, so the process goes there. Raises `InputError`.
    """
    spec, found, shard, started_in = read_run(folder)
    try:
        os.chdir(started_in)
    except OSError as error:
        raise ConfigError(
            f"{folder} was started in {started_in}, where its data are looked for: "
            f"{error.strerror or error}"
        ) from error
    return spec, found, shard


def read_spec(target: str, chosen: Mapping[str, Any]) -> RunSpec:
    """The specification of a run file or a benchmark's name, with the options on top.

    Raises `ConfigError` that names the file or lists the benchmarks, or that names the seat which
    the benchmark does not have.
    """
    document: dict[str, Any]
    if target in TITLES:
        document, where = {"benchmark": target}, "command line"
    elif target.endswith(YAML_FILES):
        document, where = read_document(Path(target)), target
    else:
        raise ConfigError(
            f"{target!r} is neither a .yaml file nor a benchmark ({', '.join(TITLES)})"
        )
    document.setdefault("seats", {})
    for option, field in SHORT_FORMS.items():
        value = chosen.get(option)
        if value is not None:
            named = f"--{option.replace('_', '-')}"
            given = comma_list(value, named) if option in LISTS else _plain(value)
            set_field(document, field, given, named)
    spec = validate(RunSpec, override(document, chosen.get("overrides") or ()), where)
    _check_seats(spec, where)
    return spec


def _check_seats(spec: RunSpec, where: str) -> None:
    """Raise `ConfigError` for a seat that no call would be asked of; our benchmarks tell theirs."""
    if spec.benchmark not in TITLES:
        return
    known = describe(spec.benchmark)
    for seat in spec.seats:
        if not known.has_seat(seat):
            raise ConfigError(
                f"{where}: {spec.benchmark} has no seat {seat!r}{nearest(seat, list(known.seats))}"
            )


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def comma_list(value: str, option: str) -> list[str]:
    """The names between commas; raises `ConfigError` that names the option where there are none."""
    parts = [part.strip() for part in value.split(",") if part.strip()]
    if not parts:
        raise ConfigError(f"{option} is empty: name what is wanted, or leave the option out")
    return parts
