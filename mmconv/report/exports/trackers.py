"""Runs in experiment trackers: trackio, Weights & Biases (offline) and MLflow, all on this machine.

Each gets the headline numbers, the configuration, and the run's files as an artifact. A number has
its interval and counts next to it: `direct/S2`, `direct/S2.low`, `.high`, `.n`, `.missing`. A
missing number has its counts only.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from mmconv.core.config import CANDIDATE
from mmconv.report.exports.records import file_name, read_estimates
from mmconv.run_folder.layout import MANIFEST, PAGE, REPORT, SPEC, SUMMARY, TABLES
from mmconv.run_folder.saved_run import FinishedRun

LONGEST_PARAMETER = 6_000
"""How many characters a parameter of MLflow can have."""

_FILES = (TABLES, PAGE, "report.samples", REPORT, MANIFEST, SPEC, SUMMARY)


def write_trackio(run: FinishedRun, out: Path) -> list[Path]:
    """Add the run to the trackio project `mmconv-BENCHMARK` in a folder."""
    os.environ["TRACKIO_DIR"] = str(out.absolute())  # trackio reads it when it is imported
    import trackio

    with redirect_stdout(StringIO()):
        trackio.init(_project(run), name=run.folder.name, config=dict(_settings(run)))
        trackio.log(dict(_numbers(run)))
        for path in _files(run):
            trackio.log_artifact(path, name=file_name(run.folder.name, path.name), type="report")
        trackio.finish()
    return [out / f"{_project(run)}.db"]


def write_wandb(run: FinishedRun, out: Path) -> list[Path]:
    """Write an offline run of Weights & Biases in `wandb/`; `wandb sync` uploads it."""
    # artifacts wait for their upload in this folder, else in the home folder
    os.environ["WANDB_DATA_DIR"] = str(out.absolute() / "wandb")
    import wandb

    out.mkdir(parents=True, exist_ok=True)
    tracked = wandb.init(
        mode="offline",
        dir=out,
        project=_project(run),
        id=file_name(run.folder.name),
        name=run.folder.name,
        config=dict(_settings(run)),
        settings=wandb.Settings(silent=True, console="off", disable_git=True),
    )
    tracked.log(dict(_numbers(run)))
    artifact = wandb.Artifact(file_name(run.folder.name), type="report")
    for path in _files(run):
        if path.is_dir():
            artifact.add_dir(str(path), name=path.name)
        else:
            artifact.add_file(str(path))
    tracked.log_artifact(artifact)
    tracked.finish()
    return [Path(tracked.dir).parent]


def write_mlflow(run: FinishedRun, out: Path) -> list[Path]:
    """Add the run to the MLflow experiment `mmconv-BENCHMARK`: `mlflow.db` and `artifacts/`.

    MLflow refuses new stores of files without a database.
    """
    import mlflow

    out.mkdir(parents=True, exist_ok=True)
    database = out.absolute() / "mlflow.db"
    mlflow.set_tracking_uri(f"sqlite:///{database}")
    if mlflow.get_experiment_by_name(_project(run)) is None:
        artifacts = (out.absolute() / "artifacts").as_uri()
        mlflow.create_experiment(_project(run), artifact_location=artifacts)
    mlflow.set_experiment(_project(run))
    with mlflow.start_run(run_name=run.folder.name):
        mlflow.log_params(
            {name: str(value)[:LONGEST_PARAMETER] for name, value in _settings(run).items()}
        )
        mlflow.log_metrics(dict(_numbers(run)))
        for path in _files(run):
            if path.is_dir():
                mlflow.log_artifacts(str(path), path.name)
            else:
                mlflow.log_artifact(str(path))
    return [database]


def _project(run: FinishedRun) -> str:
    return file_name(f"mmconv-{run.spec.benchmark}")


def _files(run: FinishedRun) -> list[Path]:
    return [path for name in _FILES if (path := run.folder / name).exists()]


def _numbers(run: FinishedRun) -> Iterator[tuple[str, float]]:
    """The headline numbers, by names of the characters that all trackers take."""
    for estimate in read_estimates(run):
        cell = estimate.cell
        name = re.sub(r"[^\w ./-]+", "_", estimate.name).strip(" _")
        if isinstance(cell.value, float):
            yield name, cell.value
        fields = {"low": cell.low, "high": cell.high, "n": cell.n}
        yield from ((f"{name}.{key}", value) for key, value in fields.items() if value is not None)
        if cell.n is not None:
            yield f"{name}.missing", sum(cell.missing.values())


def _settings(run: FinishedRun) -> dict[str, str | float | bool]:
    """The configuration: `models.candidate.model`, `options.grading`, `conditions`, ..."""
    spec = run.spec.model_dump(mode="json", exclude_unset=True)
    settings = {
        **spec,
        "options": {**spec.get("options", {}), **run.manifest.options},
        "candidate": run.spec.models[CANDIDATE].label,
        "conditions": run.manifest.conditions,
        "samples": run.manifest.samples,
        "fingerprints": run.manifest.models,
        "mmconv": run.manifest.mmconv,
    }
    return dict(_flatten(settings))


def _flatten(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        key = re.sub(r"[^\w.-]+", "_", f"{prefix}{name}")
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{key}.")
        elif value is not None:
            is_plain = isinstance(value, str | int | float | bool)
            yield key, value if is_plain else json.dumps(value)
