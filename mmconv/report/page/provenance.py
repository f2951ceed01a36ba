"""With what a run was made: models, versions, hashes, options, as lists of names and texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from mmconv.core.keys import hash_json
from mmconv.report.notes import list_answered
from mmconv.run_folder.layout import Manifest
from mmconv.run_folder.saved_run import FinishedRun

Entries: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What the page says about one run; `specification` is JSON."""

    name: str
    lists: tuple[tuple[str, Entries], ...]
    specification: str


def provenance(run: FinishedRun) -> Provenance:
    """Everything that is known of how a run was made."""
    specification = orjson.dumps(run.spec.model_dump(mode="json"), option=orjson.OPT_INDENT_2)
    lists = (
        ("Models", tuple(_models(run))),
        ("Run", _settings(run)),
        ("Options", tuple(_options(run))),
        *_facts(run.manifest.facts),
        ("Software", _software(run.manifest)),
    )
    return Provenance(name=run.folder.name, lists=lists, specification=specification.decode())


def _models(run: FinishedRun) -> Iterator[tuple[str, str]]:
    """Each role's model, its provider's metadata, and who answered as its server says."""
    manifest = run.manifest
    for role, model in run.spec.models.items():
        name = f"{model.label}: {model.provider}/{model.model}"
        yield role, f"{name}, fingerprint {manifest.models[role]}"
        for name, value in manifest.about_models.get(role, {}).items():
            yield f"{role}: {name.replace('_', ' ')}", value
        if answered := manifest.answered_by.get(role):
            yield f"{role}: answered by", list_answered(answered)


def _settings(run: FinishedRun) -> Entries:
    return (
        ("run", run.folder.name),
        ("conditions", ", ".join(run.manifest.conditions)),
        ("samples", str(run.manifest.samples)),
        ("trials", str(run.spec.trials)),
        ("seed", str(run.spec.seed)),
    )


def _options(run: FinishedRun) -> Iterator[tuple[str, str]]:
    """The benchmark's options: those that were given, then those that had their defaults."""
    given = run.spec.model_dump(mode="json")["options"]
    for name, value in given.items():
        yield name, _plain(value)
    for name, value in run.manifest.options.items():
        if name not in given:
            yield name, f"{_plain(value)} (default)"


def _plain(value: Any) -> str:
    """A value as it is typed, lists without brackets."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "not set"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _facts(facts: Mapping[str, Any]) -> Iterator[tuple[str, Entries]]:
    """The benchmark's own facts: mappings (files and prompts with their hashes) become lists."""
    single = tuple((name, str(value)) for name, value in facts.items() if _is_short(value))
    if single:
        yield "Data", single
    for name, value in facts.items():
        if isinstance(value, Mapping) and value:
            yield f"Hashes: {name}", tuple((key, _hash(each)) for key, each in value.items())


def _hash(value: Any) -> str:
    """A hash as it is, and one hash of those that stand together under a name."""
    return hash_json(value) if isinstance(value, Mapping) else str(value)


def _is_short(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _software(manifest: Manifest) -> Entries:
    return (
        ("mmconv", manifest.mmconv),
        ("python", manifest.python),
        *manifest.packages.items(),
    )
