"""A run in short: what its folder's summary counts, what heads its report, and the versions."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from mmconv import __version__
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.protocols import Benchmark
from mmconv.core.run_stats import SeatTally, Tally
from mmconv.report.costs import cost
from mmconv.report.notes import Answered, list_answered
from mmconv.run_folder.layout import RunSummary, SeatSummary

PACKAGES = ("torch", "transformers", "accelerate", "bitsandbytes", "vllm", "openai", "sacrebleu")
"""Packages whose version can change a reply or a score."""


def software() -> dict[str, Any]:
    """Versions of mmconv, Python and the packages that matter, where they are installed."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "mmconv": __version__,
        "python": platform.python_version(),
        "packages": versions,
    }


def summary(spec: RunSpec, tally: Tally, complete: bool, seconds: float) -> RunSummary:
    """What came of a run, with cost where a model's file gives prices."""
    return RunSummary(
        complete=complete,
        seconds=round(seconds, 3),
        plans=tally.finished,
        seats={name: _seat(spec.seats[name], counts) for name, counts in tally.seats.items()},
    )


def headline(
    spec: RunSpec, benchmark: Benchmark[Any], samples: int, answered_by: Answered
) -> dict[str, str]:
    """What stands at the head of a run's report, by name.

    Of the models that answered, those that go by another name than they were asked for.
    """
    models = {seat: model.label for seat, model in spec.seats.items()}
    for seat, counts in answered_by.items():
        if not counts.keys() <= {spec.seats[seat].model, spec.seats[seat].label}:
            models[seat] += f", answered by {list_answered(counts)}"
    options = spec.model_dump(mode="json")["options"]
    return {
        **models,
        "samples": f"{samples} of {benchmark.name}",
        "trials": str(spec.trials),
        "conditions": ", ".join(benchmark.conditions),
        "options": ", ".join(f"{name} {value}" for name, value in options.items()),
        "seed": str(spec.seed),
        "written": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC by mmconv {__version__}",
    }


def _seat(model: ModelSpec, counts: SeatTally) -> SeatSummary:
    return SeatSummary(
        model=model.label,
        asked=counts.asked,
        stored=counts.stored,
        failed=counts.failed,
        skipped=counts.skipped,
        needless=counts.needless,
        retried=counts.retried,
        truncated=counts.truncated,
        failures=dict(counts.failures),
        input_tokens=counts.input_tokens,
        output_tokens=counts.output_tokens,
        unmetered=counts.unmetered,
        timed_out=counts.timed_out,
        cost_usd=cost(model, counts.input_tokens, counts.output_tokens, counts.unmetered),
        total_input_tokens=counts.total_input_tokens,
        total_output_tokens=counts.total_output_tokens,
        total_unmetered=counts.total_unmetered,
        total_cost_usd=cost(
            model,
            counts.total_input_tokens,
            counts.total_output_tokens,
            counts.total_unmetered,
        ),
    )
