"""With what a run was made: models, versions, hashes, options, as lists of names and texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from mmconv.keys import hash_json
from mmconv.run_folder.layout import Manifest
from mmconv.run_folder.saved_run import FinishedRun

Entries: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What the page tells of one run; `specification` is JSON."""

    name: str
    lists: tuple[tuple[str, Entries], ...]
    specification: str


def provenance(run: FinishedRun) -> Provenance:
    """Everything that is known of how a run was made."""
    specification = orjson.dumps(run.spec.model_dump(mode="json"), option=orjson.OPT_INDENT_2)
    lists = (("Models", _models(run)), ("Run", _settings(run)), *_facts(run.manifest.facts))
    return Provenance(
        name=run.folder.name,
        lists=(*lists, ("Software", _software(run.manifest))),
        specification=specification.decode(),
    )


def _models(run: FinishedRun) -> Entries:
    fingerprints = run.manifest.models
    return tuple(
        (seat, f"{model.label}: {model.provider}/{model.model}, fingerprint {fingerprints[seat]}")
        for seat, model in run.spec.seats.items()
    )


def _settings(run: FinishedRun) -> Entries:
    options = run.spec.model_dump(mode="json")["options"]
    return (
        ("run", run.folder.name),
        ("conditions", ", ".join(run.manifest.conditions)),
        ("samples", str(run.manifest.samples)),
        ("trials", str(run.spec.trials)),
        ("seed", str(run.spec.seed)),
        *((name, _plain(value)) for name, value in options.items()),
    )


def _plain(value: Any) -> str:
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
