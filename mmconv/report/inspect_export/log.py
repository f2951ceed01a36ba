"""A run as a log of Inspect AI (`.eval`), written by Inspect's own classes, for its viewer.

What one sample looks like is in `mmconv.report.inspect_export.sample`. Inspect writes a log
from memory: pictures are held once each.
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
from mmconv.report.inspect_export.sample import Pictures
from mmconv.run_folder.layout import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """What a log says of its run: name, specification, manifest, its end, and its length."""

    run: str
    spec: RunSpec
    manifest: Manifest
    written: datetime
    seconds: float


def data_uris(images: ImageSource) -> Pictures:
    """A function that gives images as data URIs, each read once."""
    known: dict[str, str] = {}

    def data_uri(image: Image) -> str:
        if image.sha256 not in known:
            data = b64encode(images.read(image.sha256)).decode("ascii")
            known[image.sha256] = f"data:{image.media_type};base64,{data}"
        return known[image.sha256]

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
    names = list(dict.fromkeys(str(sample.id) for sample in samples))
    return EvalSpec(
        run_id=heading.run,
        eval_id=hash_json(heading.run)[:22],
        task_id=hash_json(spec.benchmark)[:22],
        created=heading.written.isoformat(),
        task=f"mmconv/{spec.benchmark}",
        task_args=dict(spec.options),
        dataset=EvalDataset(name=spec.benchmark, samples=len(names), sample_ids=names),
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
    """The plain mean of every score under every condition; no mean goes over conditions."""
    found: dict[str, dict[str, list[float]]] = {}
    for sample in samples:
        for name, score in (sample.scores or {}).items():
            values = found.setdefault(name, {}).setdefault(sample.metadata["condition"], [])
            values.append(score.as_float())
    return EvalResults(
        total_samples=len(samples),
        completed_samples=sum(sample.error is None for sample in samples),
        scores=[_score(name, conditions) for name, conditions in found.items()],
    )


def _score(name: str, conditions: Mapping[str, Sequence[float]]) -> EvalScore:
    # Inspect keeps what is unscored as NaN
    scored = {
        condition: [value for value in values if not isnan(value)]
        for condition, values in conditions.items()
    }
    total = sum(map(len, conditions.values()))
    there = sum(map(len, scored.values()))
    return EvalScore(
        name=name,
        scorer=name,
        scored_samples=there,
        unscored_samples=total - there,
        metrics={
            condition: EvalMetric(name=condition, value=fsum(values) / len(values))
            for condition, values in scored.items()
            if values
        },
    )


def _total(spent: Iterable[Mapping[str, ModelUsage]]) -> dict[str, ModelUsage]:
    total: dict[str, ModelUsage] = {}
    for usages in spent:
        for name, usage in usages.items():
            total[name] = total.get(name, ModelUsage()) + usage
    return total
