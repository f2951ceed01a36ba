"""Headline numbers of a run for experiment trackers and Every Eval Ever.

Trackers (trackio, Weights & Biases offline, MLflow) are on this machine. Each gets the numbers, the
configuration, and the run's files as an artifact. A number has its interval and counts next to it:
`direct/S2`, `direct/S2.low`, `.high`, `.n`, `.missing`. A missing number has its counts only.

A record of Every Eval Ever (schema 0.3.0) leaves out deltas and shares of an attribution: the
schema asks of every number whether a lower one is better, and of these neither is. Samples are left
out too: the schema has no missing score.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson

from mmconv.benchmarks.base.compare import find_boards
from mmconv.benchmarks.base.metrics import Delta, Metric, Ratio
from mmconv.benchmarks.registry import find_class, title_of
from mmconv.core.atomic_writes import write_file
from mmconv.core.config import CANDIDATE, ModelSpec
from mmconv.core.judges import judge_roles
from mmconv.core.keys import hash_json
from mmconv.core.types import Cell
from mmconv.report.exports.names import file_name, finished_at, unique_name
from mmconv.run_folder.layout import MANIFEST, PAGE, REPORT, SPEC, SUMMARY, TABLES
from mmconv.run_folder.saved_run import FinishedRun

LONGEST_PARAMETER = 6_000
"""How many characters a parameter of MLflow can have."""

_FILES = (TABLES, PAGE, "report.samples", REPORT, MANIFEST, SPEC, SUMMARY)

SCHEMA = "0.3.0"
UNKNOWN = "unknown"
HERE = ("hf", "vllm", "ray", "pocket")
"""Providers that run a model on machines of the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A headline number, a column of the benchmark's leaderboard: `direct_deltas/S2_hat - S2`.

    `title` is its table's title. `metric` is None if the benchmark's code does not define it.
    """

    name: str
    column: str
    title: str
    cell: Cell
    lower_is_better: bool
    metric: Metric | None


def read_estimates(run: FinishedRun) -> Iterator[Estimate]:
    """The headline numbers of a run, also those that are missing."""
    tables = {table.name: table for table in run.tables}
    least = run.manifest.provenance.get("least", ())
    metrics: dict[tuple[str, str], Metric] = {}
    with suppress(ImportError):  # custom code that is not installed here
        benchmark = find_class(run.spec.benchmark)(run.spec)
        metrics = {(metric.name, metric.group.label): metric for metric in benchmark.metrics()}
    names: set[str] = set()
    for board in find_boards(run.spec, [tables], least):
        for part in board.parts:
            for column, place in part.columns.items():
                cell = place.find(tables, run.candidate)
                if cell is None:
                    continue
                path = "/".join(filter(None, [board.name, part.name, column]))
                names.add(name := unique_name(path, names))
                yield Estimate(
                    name=name,
                    column=column,
                    title=part.title,
                    cell=cell,
                    lower_is_better=column in board.least,
                    metric=metrics.get(place.quantity) if place.quantity else None,
                )


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


def write_every_eval_ever(run: FinishedRun, out: Path) -> list[Path]:
    """Write `data/mmconv-BENCHMARK/DEVELOPER/MODEL/UUID.json`; a second export replaces it."""
    collection = file_name(f"mmconv-{run.spec.benchmark}")
    model = _model(run.spec.models[CANDIDATE], run.manifest.models[CANDIDATE])
    time = str(finished_at(run).timestamp())
    record = {
        "schema_version": SCHEMA,
        "evaluation_id": f"{collection}/{model['id']}/{run.folder.name}",
        "evaluation_timestamp": time,
        "retrieved_timestamp": time,
        "source_metadata": {
            "source_name": "mmconv",
            "source_type": "evaluation_run",
            "source_organization_name": UNKNOWN,
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "mmconv", "version": run.manifest.mmconv},
        "model_info": model,
        "evaluation_results": [*_results(run, time)],
    }
    name = UUID(hash_json([collection, run.folder.name])[:32], version=4)
    developer, _, bare = str(model["id"]).partition("/")
    path = out / "data" / collection / file_name(developer) / file_name(bare) / f"{name}.json"
    write_file(path, orjson.dumps(record, option=orjson.OPT_INDENT_2))
    return [path]


def _results(run: FinishedRun, time: str) -> Iterator[dict[str, Any]]:
    benchmark = run.spec.benchmark
    title = title_of(benchmark)
    data = {
        "dataset_name": title,
        "source_type": "other",
        "additional_details": _strings(run.manifest.provenance.get("data", {})),
    }
    for estimate in read_estimates(run):
        if isinstance(estimate.metric, Delta | Ratio) or not isinstance(estimate.cell.value, float):
            continue
        cell = estimate.cell
        interval = {"lower": cell.low, "upper": cell.high, "confidence_level": 0.95}
        uncertainty = {"num_samples": cell.n} if cell.n is not None else {}
        yield {
            "evaluation_result_id": estimate.name,
            "evaluation_name": f"mmconv.{benchmark}.{estimate.name}",
            "source_data": data,
            "evaluation_timestamp": time,
            "metric_config": _metric(run, estimate),
            "score_details": {
                "score": cell.value,
                "details": _strings({"missing": cell.missing} if cell.missing else {}),
                "uncertainty": uncertainty
                | ({} if cell.low is None else {"confidence_interval": interval}),
            },
            "generation_config": {
                "additional_details": _strings(
                    {
                        "conditions": run.manifest.conditions,
                        "trials": run.spec.trials,
                        "sampling": run.spec.model_dump(mode="json")["sampling"],
                        "options": run.manifest.options,
                    }
                )
            },
        }


def _metric(run: FinishedRun, estimate: Estimate) -> dict[str, Any]:
    group = estimate.metric.group if estimate.metric else None
    low, high = (group.lowest, group.highest) if group else (None, None)
    factor = group.factor if group else 1
    judge = run.spec.models.get("judge")
    offline: Collection[str] = ()
    with suppress(ImportError):
        offline = find_class(run.spec.benchmark).offline_judges
    has_llm = judge is not None and judge.provider not in offline
    return {
        "evaluation_description": estimate.title,
        "metric_id": f"mmconv.{run.spec.benchmark}.{estimate.name}",
        "metric_name": estimate.column,
        "lower_is_better": estimate.lower_is_better,
        "score_type": "continuous",
        "min_score": "-Infinity" if low is None else low * factor,
        "max_score": "Infinity" if high is None else high * factor,
        **({"llm_scoring": _judge(run)} if has_llm else {}),
    }


def _judge(run: FinishedRun) -> dict[str, Any]:
    """The judges, and their prompts by the hashes of their files: a benchmark has several."""
    prompts = run.manifest.provenance.get("prompts", {})
    models = run.spec.models
    judges = [_model(models[role], run.manifest.models[role]) for role in judge_roles(models)]
    return {
        "judges": [{"model_info": judge} for judge in judges],
        "input_prompt": f"prompt files of mmconv, by SHA-256: {json.dumps(prompts)}",
    }


def _model(spec: ModelSpec, fingerprint: str) -> dict[str, Any]:
    developer, slash, _ = spec.model.rpartition("/")
    is_id = bool(slash) and "/" not in developer and not spec.model.startswith(("/", "."))
    return {
        "name": spec.label,
        "id": spec.model if is_id else f"{UNKNOWN}/{file_name(spec.label)}",
        "developer": developer if is_id else UNKNOWN,
        "inference_engine": {"name": spec.provider},
        "additional_details": {
            "deployment_type": "self_deployed" if spec.provider in HERE else UNKNOWN,
            "model_availability": UNKNOWN,
            "fingerprint": fingerprint,
        },
    }


def _strings(fields: Any) -> dict[str, str]:
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in dict(fields).items()
    }
