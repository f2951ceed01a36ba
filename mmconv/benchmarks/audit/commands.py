"""`mmconv judge`: audit a judge without people."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mmconv.benchmarks.audit.benchmark import PARAPHRASER
from mmconv.benchmarks.audit.metrics import CONTROLS, SECOND
from mmconv.benchmarks.options import as_new
from mmconv.benchmarks.registry import AUDIT, JUDGED
from mmconv.cli.shared.basics import comma_list
from mmconv.cli.shared.costs import COST_OPTIONS, Budget
from mmconv.cli.shared.options import (
    BENCHMARKS,
    PLACE_OPTIONS,
    SPEC_OPTIONS,
    TARGET,
    BenchmarkCommand,
    read_spec,
    with_options,
)
from mmconv.cli.shared.run_folders import open_existing, place
from mmconv.cli.shared.session import exit_code, forecast_new, run_new
from mmconv.core.config import CANDIDATE, RunSpec, load_model
from mmconv.core.errors import ConfigError
from mmconv.core.judges import JUDGE, judge_roles
from mmconv.engine.drift import check_drift as request_again

SAMPLES = 100
"""How many samples are drawn unless options say which."""


@click.command(name="judge", cls=BenchmarkCommand, epilog=BENCHMARKS)
@TARGET
@click.option(
    "--controls",
    metavar="LIST",
    help=f"Only these of {', '.join(CONTROLS)}.  [default: all that the data allow]",
)
@click.option("--second", metavar="MODEL", help="Another judge of the same answers.")
@click.option(
    "--check-drift",
    is_flag=True,
    help="Only request 30 verdicts of a finished run again: mmconv judge FOLDER --check-drift.",
)
@click.option("--paraphraser", metavar="MODEL", help="Writes answers in other words, and in fewer.")
@with_options(*SPEC_OPTIONS, *PLACE_OPTIONS, *COST_OPTIONS)
def judge_command(target: str, out: Path, store: str, *, check_drift: bool, **values: Any) -> None:
    """Audit the judge of a run file, or of a benchmark with options: no people are needed.

    The judge gets the benchmark's own prompts, about answers that are known: references,
    references of other samples, both in turn, twice as long, and again. The report says how often
    it errs, and what moves it that should not. It draws 100 samples unless --limit or --sample-id
    say which; a candidate and conditions are not needed and ignored.

    With --check-drift it says whether the judge of a finished run (its folder) has changed since.
    """
    if check_drift:
        asyncio.run(_check_drift(Path(target).absolute()))
        return
    named = values["controls"]
    controls = comma_list(named, "--controls") if named else None
    others = {role: values[role] for role in (SECOND, PARAPHRASER) if values[role]}
    run = read_spec(target, values, instead=JUDGED)
    spec = audit_spec(run, controls, others)
    where = place(out, store)
    budget = None if values["max_cost"] is None else Budget(values["max_cost"], spec)
    if values["dry_run"]:
        asyncio.run(forecast_new(spec, where))
        return
    sys.exit(exit_code(asyncio.run(run_new(spec, where, budget=budget)), store))


def audit_spec(spec: RunSpec, controls: Sequence[str] | None, others: dict[str, str]) -> RunSpec:
    """The audit of a run's judge; `others` are names of models by role.

    Raises `ConfigError` if the run has no judge.
    """
    if JUDGE not in spec.models:
        raise ConfigError("nothing to audit: name the judge (--judge, or models.judge)")
    if len(judge_roles(spec.models)) > 1:
        raise ConfigError("an audit is of one judge: name it (--judge MODEL)")
    models = {role: load_model(name) for role, name in others.items()}
    is_chosen = spec.limit is not None or spec.samples is not None
    drawn = {} if is_chosen else {"limit": SAMPLES, "shuffle": 0}
    sampling = {CANDIDATE: spec.sampling[JUDGE]} if JUDGE in spec.sampling else {}
    fields = {
        "benchmark": AUDIT,
        "options": {"of": spec.benchmark, **as_new(spec).options},
        "conditions": controls and tuple(controls),
        "models": {CANDIDATE: spec.models[JUDGE], **models},
        "sampling": sampling,
        "trials": 1,
        **drawn,
    }
    return spec.model_copy(update=fields)


async def _check_drift(folder: Path) -> None:
    async with open_existing(folder) as evaluation:
        drift = await request_again(evaluation)
    n, shift = drift.shift.n, drift.shift
    if not n:
        raise ConfigError("no verdict could be read again; see the judge's server")
    interval = "" if shift.low is None else f" [{shift.low:.2f}, {shift.high:.2f}]"
    click.echo(
        f"{n} verdicts requested again: {drift.changed} changed. Mean change over all {n}: "
        f"{shift.mean:+.2f}{interval}."
    )
    for when, names in (("then", drift.then), ("now", drift.now)):
        if names:
            click.echo(f"Its server named, {when}: {', '.join(sorted(names))}.")
    if drift.has_changed:
        click.echo(
            "WARNING: the judge has changed. Do not compare new verdicts with those of then."
        )
    elif shift.low is None:
        click.echo("All changes are equal, or too few verdicts were read: no sign of a change.")
    else:
        click.echo("No sign of a change beyond the judge's own variation.")
