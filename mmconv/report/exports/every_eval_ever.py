"""A run as a record of Every Eval Ever (schema 0.3.0): the scores of its leaderboard.

Deltas and shares of an attribution are left out: the schema asks of every number whether a lower
one is better, and of these neither is. Samples are left out too: the schema has no missing score.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson

from mmconv.benchmarks.base.metrics import Delta, Ratio
from mmconv.benchmarks.registry import find_class, title_of
from mmconv.core.atomic_writes import atomic_write
from mmconv.core.config import CANDIDATE, ModelSpec
from mmconv.core.judges import judge_roles
from mmconv.core.keys import hash_json
from mmconv.report.exports.records import Estimate, file_name, finished_at, read_estimates
from mmconv.run_folder.saved_run import FinishedRun

SCHEMA = "0.3.0"
UNKNOWN = "unknown"
HERE = ("hf", "vllm", "ray", "pocket")
"""Providers that run a model on machines of the user."""


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
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as part:
        part.write_bytes(orjson.dumps(record, option=orjson.OPT_INDENT_2))
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
    judged = {"llm_scoring": _judge(run)} if _has_llm_judge(run) else {}
    return {
        "evaluation_description": estimate.title,
        "metric_id": f"mmconv.{run.spec.benchmark}.{estimate.name}",
        "metric_name": estimate.column,
        "lower_is_better": estimate.lower_is_better,
        "score_type": "continuous",
        "min_score": "-Infinity" if low is None else low * factor,
        "max_score": "Infinity" if high is None else high * factor,
        **judged,
    }


def _has_llm_judge(run: FinishedRun) -> bool:
    judge = run.spec.models.get("judge")
    try:
        offline = find_class(run.spec.benchmark).offline_judges
    except ImportError:
        offline = ()
    return judge is not None and judge.provider not in offline


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
