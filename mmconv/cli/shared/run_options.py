"""The options that stand for fields of a run file, and the specification that they lead to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from mmconv.benchmarks.registry import TITLES
from mmconv.benchmarks.shared.options import describe, without_idle_judge
from mmconv.cli.shared.option_values import FILE, Command, comma_list
from mmconv.core.config import YAML_FILES, RunSpec, override, read_document, set_field, validate
from mmconv.core.errors import ConfigError
from mmconv.core.validation import nearest

NAMED = f"Benchmarks: {', '.join(TITLES)}."
"""What stands below the help of commands that take a benchmark by its name."""

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
    "shuffle": "shuffle",
    "samples": "samples",
    "trials": "trials",
    "seed": "seed",
    "prompts": "prompts",
}
"""Option -> the field of the run file that it stands for."""

LISTS = ("grading", "conditions", "samples")


def _flag(name: str, text: str) -> Callable[[Command], Command]:
    """A switch that, where it is not given, leaves the run file's word in force."""
    return click.option(name, is_flag=True, default=None, help=text)


CHOICES = (
    click.option("--limit", type=int, help="Only so many samples: the first ones."),
    click.option(
        "--shuffle",
        type=int,
        metavar="SEED",
        help="Draw at random the samples that --limit counts, by this seed.",
    ),
    click.option("--samples", metavar="LIST", help="Only the samples of these keys, with commas."),
)
"""Which samples are taken."""

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
    *CHOICES,
    click.option("--trials", type=int, help="Repeat every sample so often."),
    click.option("--seed", type=int, help="Seed of whatever is drawn, answers too.  [default: 0]"),
    click.option("--prompts", type=FILE, help="A folder whose prompt files replace ours."),
    _flag("--generate-only", "Do not judge."),
    _flag("--skip-bad-records", "Go on without incomplete records; tables say so."),
    _flag("--allow-drafts", "Use annotations that no person has verified; tables say so."),
    _flag("--judge-sees-image", "Send the judge the picture too."),
    click.option(
        "--wait-for-servers",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="Wait so long for a first connection to models' servers that start.  [default: 10]",
    ),
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
    return _with_options(command, OPTIONS)


def choice_options(command: Command) -> Command:
    """Add those that say which samples are taken."""
    return _with_options(command, CHOICES)


def _with_options(command: Command, options: Sequence[Callable[[Command], Command]]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def read_spec(target: str, chosen: Mapping[str, Any]) -> RunSpec:
    """The specification of a run file or a benchmark's name or class, with the options on top.

    Raises `ConfigError` that names the file or lists the benchmarks, or that names the seat which
    the benchmark does not have.
    """
    document: dict[str, Any]
    if target.endswith(YAML_FILES):
        document, where = read_document(Path(target)), target
    elif target in TITLES or ":" in target:
        document, where = {"benchmark": target}, "command line"
    else:
        raise ConfigError(
            f"{target!r} is neither a .yaml file nor a benchmark ({', '.join(TITLES)}, or one of "
            "your own as MODULE:CLASS)"
        )
    document.setdefault("seats", {})
    for option, field in SHORT_FORMS.items():
        value = chosen.get(option)
        if value is not None:
            named = f"--{option.replace('_', '-')}"
            given = comma_list(value, named) if option in LISTS else _plain(value)
            set_field(document, field, given, named)
    document = override(document, chosen.get("overrides") or ())
    if (seconds := chosen.get("wait_for_servers")) is not None:
        for seat in document["seats"]:
            set_field(document, f"seats.{seat}.wait_for_server", seconds, "--wait-for-servers")
    spec = validate(RunSpec, document, where)
    _check_seats(spec, where)
    return without_idle_judge(spec)


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
