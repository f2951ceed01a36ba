"""A run as a log of Inspect AI (`.eval`), written by Inspect's own classes, for its viewer.

`mmconv.report.exports.inspect_sample` makes the samples. Inspect writes a log from memory, which
holds each image once.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import fsum, isnan
from pathlib import Path

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalMetric,
    EvalResults,
    EvalSample,
    EvalScore,
    EvalSpec,
    EvalStats,
    write_eval_log,
)
from inspect_ai.model import ModelConfig, ModelUsage

from mmconv.core.atomic_writes import atomic_write
from mmconv.core.config import CANDIDATE, RunSpec
from mmconv.core.keys import hash_json
from mmconv.core.protocols import ImageSource
from mmconv.core.types import Image
from mmconv.report.exports.inspect_sample import DataUri
from mmconv.run_folder.layout import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """The metadata of a log: the run's name, specification and manifest, its end and duration."""

    run: str
    spec: RunSpec
    manifest: Manifest
    written: datetime
    seconds: float


def data_uris(images: ImageSource) -> DataUri:
    """A function that returns images as data URIs and reads each one once."""
    uris: dict[str, str] = {}

    def data_uri(image: Image) -> str:
        if image.sha256 not in uris:
            data = b64encode(images.read(image.sha256)).decode("ascii")
            uris[image.sha256] = f"data:{image.media_type};base64,{data}"
        return uris[image.sha256]

    return data_uri


def write_log(path: Path, heading: Heading, samples: Sequence[EvalSample]) -> None:
    """Write the log, whole or not at all."""
    started = heading.written - timedelta(seconds=heading.seconds)
    log = EvalLog(
        status="success",
        eval=_spec(heading, samples),
        results=_results(samples),
        stats=EvalStats(
            started_at=started.isoformat(),
            completed_at=heading.written.isoformat(),
            model_usage=_total(sample.model_usage for sample in samples),
            role_usage=_total(sample.role_usage for sample in samples),
        ),
        samples=list(samples),
    )
    with atomic_write(path) as part:
        write_eval_log(log, part, format="eval")


def _spec(heading: Heading, samples: Sequence[EvalSample]) -> EvalSpec:
    spec, manifest = heading.spec, heading.manifest
    ids = list(dict.fromkeys(str(sample.id) for sample in samples))
    return EvalSpec(
        run_id=heading.run,
        eval_id=hash_json(heading.run)[:22],
        task_id=hash_json(spec.benchmark)[:22],
        created=heading.written.isoformat(),
        task=f"mmconv/{spec.benchmark}",
        task_args=dict(spec.options),
        dataset=EvalDataset(name=spec.benchmark, samples=len(ids), sample_ids=ids),
        model=spec.models[CANDIDATE].label,
        model_roles={
            role: ModelConfig(model=model.label)
            for role, model in spec.models.items()
            if role != CANDIDATE
        },
        config=EvalConfig(epochs=spec.trials, limit=spec.limit),
        packages={"mmconv": manifest.mmconv},
        metadata={
            "conditions": list(manifest.conditions),
            "notes": list(manifest.notes),
            "provenance": dict(manifest.provenance),
            "fingerprints": dict(manifest.models),
        },
    )


def _results(samples: Sequence[EvalSample]) -> EvalResults:
    """The plain mean of every score under every condition."""
    values: dict[str, dict[str, list[float]]] = {}
    for sample in samples:
        for name, score in (sample.scores or {}).items():
            by_condition = values.setdefault(name, {})
            by_condition.setdefault(sample.metadata["condition"], []).append(score.as_float())
    return EvalResults(
        total_samples=len(samples),
        completed_samples=sum(sample.error is None for sample in samples),
        scores=[_score(name, conditions) for name, conditions in values.items()],
    )


def _score(name: str, conditions: Mapping[str, Sequence[float]]) -> EvalScore:
    # Inspect marks unscored samples with NaN
    scored = {
        condition: [value for value in values if not isnan(value)]
        for condition, values in conditions.items()
    }
    total = sum(map(len, conditions.values()))
    present = sum(map(len, scored.values()))
    return EvalScore(
        name=name,
        scorer=name,
        scored_samples=present,
        unscored_samples=total - present,
        metrics={
            condition: EvalMetric(name=condition, value=fsum(values) / len(values))
            for condition, values in scored.items()
            if values
        },
    )


def _total(usages: Iterable[Mapping[str, ModelUsage]]) -> dict[str, ModelUsage]:
    total: dict[str, ModelUsage] = {}
    for by_name in usages:
        for name, usage in by_name.items():
            total[name] = total.get(name, ModelUsage()) + usage
    return total
