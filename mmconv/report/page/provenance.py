"""Provenance: the models, versions, hashes and options of a run, as lists of names and texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from mmconv.core.keys import hash_json
from mmconv.report.notes import list_answered
from mmconv.run_folder.saved_run import FinishedRun

Entries: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """The provenance of one run; `specification` is JSON."""

    name: str
    lists: tuple[tuple[str, Entries], ...]
    specification: str


def provenance(run: FinishedRun) -> Provenance:
    """Everything that is known about how a run was made."""
    manifest = run.manifest
    spec = run.spec.model_dump(mode="json")
    # options that were set go first
    options = {name: _plain(value) for name, value in spec["options"].items()}
    defaults = {name: f"{_plain(value)} (default)" for name, value in manifest.options.items()}
    settings = {
        "run": run.folder.name,
        "conditions": ", ".join(manifest.conditions),
        "samples": str(manifest.samples),
        "trials": str(run.spec.trials),
        "seed": str(run.spec.seed),
    }
    software = {"mmconv": manifest.mmconv, "python": manifest.python, **manifest.packages}
    lists = (
        ("Models", tuple(_models(run))),
        ("Run", tuple(settings.items())),
        ("Options", tuple((options | defaults | options).items())),
        *_facts(manifest.provenance),
        ("Software", tuple(software.items())),
    )
    specification = orjson.dumps(spec, option=orjson.OPT_INDENT_2).decode()
    return Provenance(name=run.folder.name, lists=lists, specification=specification)


def _models(run: FinishedRun) -> Iterator[tuple[str, str]]:
    """Each role's model, its provider's metadata, and the models that its server named."""
    manifest = run.manifest
    for role, model in run.spec.models.items():
        name = f"{model.label}: {model.provider}/{model.model}"
        yield role, f"{name}, fingerprint {manifest.models[role]}"
        for key, value in manifest.about_models.get(role, {}).items():
            yield f"{role}: {key.replace('_', ' ')}", value
        if answered := manifest.answered_by.get(role):
            yield f"{role}: answered by", list_answered(answered)


def _plain(value: Any) -> str:
    """A value as a user types it, lists without brackets."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "not set"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _facts(facts: Mapping[str, Any]) -> Iterator[tuple[str, Entries]]:
    """The benchmark's facts: single ones, and a list for each mapping, such as names to hashes."""
    single = tuple(
        (name, str(value))
        for name, value in facts.items()
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    )
    if single:
        yield "Data", single
    for name, value in facts.items():
        if isinstance(value, Mapping) and value:
            # one hash of those that are together under a name
            hashes = (
                hash_json(part) if isinstance(part, Mapping) else str(part)
                for part in value.values()
            )
            yield f"Hashes: {name}", tuple(zip(value, hashes, strict=True))
