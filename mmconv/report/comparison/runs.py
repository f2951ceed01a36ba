"""Runs that are compared: which of several folders take part, their labels, and if they fit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from mmconv.benchmarks.base import ImageOptions
from mmconv.benchmarks.registry import TITLES
from mmconv.benchmarks.shared.options import Description, describe, file_options
from mmconv.core.config import CANDIDATE, ModelSpec
from mmconv.core.errors import ConfigError, DataError
from mmconv.report.data_quality import read_shortfall, tell_notable
from mmconv.run_folder.layout import SPEC
from mmconv.run_folder.saved_run import (
    FINISH,
    MERGE,
    FinishedRun,
    find_unfinished,
    read_finished,
    read_specified,
)

KINDS = ("data", "judge", "prompts", "code")
"""What must be alike in runs that are compared."""

SHOWN = 5
"""How many differing prompts are named, and runs that have the same setting."""

LONGEST = 80
"""How many signs of a setting are shown at most."""

_NAMES = frozenset({"provider", "model"})
"""What names a model, and so the run of a candidate."""

_ADDRESS = "base_url"
_SAMPLING = "sampling."
_IDENTITY = "options.identity"
_HEADERS = "headers"
_MOVED = (
    ". If that is the same server, which has moved: a model that sets "
    f"{_IDENTITY} is the same at any address"
)


def mismatches(first: FinishedRun, other: FinishedRun) -> Iterator[tuple[str, str]]:
    """What must be alike and is not: its kind and a sentence on it."""
    if data_hashes(first) != data_hashes(other):
        yield "data", _other_data(first, other)
    if first.shard != other.shard:
        parts = f"{first.label} is {first.shard}, {other.label} {other.shard}"
        yield "data", f"the samples differ: {parts} ({MERGE[:-1]})"
    if first.spec.trials != other.spec.trials:
        trials = f"{first.spec.trials} in {first.label}, {other.spec.trials} in {other.label}"
        yield "data", f"the trials of each sample differ: {trials}, and trial is paired with trial"
    for name, moved in _other_opponents(first, other).items():
        where = f"in {first.label} than in {other.label}"
        yield "data", f"the opponent {name} differs: {moved} of its dialogues are others {where}"
    yield from _other_judges(first, other)
    if judging := _differing(_judging(first), _judging(other)):
        whose = f"{first.label} and {other.label}"
        yield "judge", f"the judging is not the same in {whose}: {_told(judging)}"
    prompts = [_facts(run, "prompts") for run in (first, other)]
    if differing := [*_differing(*prompts)]:
        more = f" and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
        listed = ", ".join(differing[:SHOWN]) + more
        yield "prompts", f"prompts differ in {first.label} and {other.label}: {listed}"
    if [*_differing(*(_facts(run, "code") for run in (first, other)))]:
        whose = f"{first.label} and {other.label}"
        advice = "`mmconv score FOLDER` scores a run by today's"
        yield "code", f"the benchmark's own code is not the same in {whose} ({advice})"


def _other_judges(first: FinishedRun, other: FinishedRun) -> Iterator[tuple[str, str]]:
    for role in sorted({*first.spec.models, *other.spec.models} - {CANDIDATE}):
        by = [", ".join(run.manifest.models_of(role)) for run in (first, other)]
        if _role(first, role) != _role(other, role):
            models = [_model(run.spec.models.get(role)) for run in (first, other)]
            left, right = f"{models[0]} in {first.label}", f"{models[1]} in {other.label}"
            yield "judge", f"the {role} differs: {left}, {right}{_how(first, other, role)}"
        elif all(by) and by[0] != by[1]:
            who = f"{by[0]} in {first.label}, by {by[1]} in {other.label}"
            yield "judge", f"the {role} was answered, as its server says, by {who}"


def check_alike(
    first: FinishedRun, other: FinishedRun, despite: Collection[str]
) -> tuple[str, ...]:
    """Refuse what cannot be compared; returns warnings of what is compared all the same.

    Raises `ConfigError` for runs of different benchmarks, and for mismatches whose kind is not
    among `despite`.
    """
    if first.spec.benchmark != other.spec.benchmark:
        raise ConfigError(
            f"{first.folder} is a run of {first.spec.benchmark}, "
            f"{other.folder} of {other.spec.benchmark}: these cannot be compared"
        )
    return _refuse_or_warn(list(mismatches(first, other)), despite)


def check_clusters(
    clusters: tuple[Mapping[str, str], Mapping[str, str]],
    labels: tuple[str, str],
    despite: Collection[str],
) -> tuple[str, ...]:
    """The same for what each common sample belongs to, which in ConvBench is its image.

    Data files name images and do not hold them. Takes sample -> cluster of both runs.
    """
    first, other = clusters
    common = first.keys() & other.keys()
    moved = sum(first[sample] != other[sample] for sample in common)
    problem = (
        f"the data differ: {moved} of the {len(common)} samples that {labels[0]} and {labels[1]} "
        "share have another image, or are grouped otherwise"
    )
    return _refuse_or_warn([("data", problem)] if moved else [], despite)


def check_samples(
    clusters: tuple[Mapping[str, str], Mapping[str, str]],
    labels: tuple[str, str],
    despite: Collection[str],
) -> tuple[str, ...]:
    """The same where runs are to be over the same samples, since nothing of them is paired."""
    first, other = clusters
    problem = (
        f"the data differ: {labels[0]} has {len(first)} samples, {labels[1]} {len(other)}, and "
        f"{len(first.keys() & other.keys())} are in both"
    )
    return _refuse_or_warn([("data", problem)] if first.keys() != other.keys() else [], despite)


def data_hashes(run: FinishedRun) -> tuple[str, ...]:
    """Hashes of the run's data, whatever the files are called."""
    return tuple(sorted(_facts(run, "data").values()))


def other_settings(*runs: FinishedRun) -> Iterator[str]:
    """Sentences on settings that are not the same in all runs and are not refused.

    Those of the candidates are the ones in force, wherever they were set; what merely names a
    candidate is left out.
    """
    candidates = _differing_models(runs, CANDIDATE)
    if not candidates and len({run.manifest.models[CANDIDATE] for run in runs}) > 1:
        yield f"{CANDIDATE}: the settings are the same, but the files or the backend are not."
    own = {
        name if name.startswith(_SAMPLING) else f"models.{CANDIDATE}.{name}": values
        for name, values in candidates.items()
        if name not in _NAMES
    }
    for name, values in (_differing(*map(_settings, runs)) | own).items():
        listed = (f"{_shown(name, value)} in {whose}" for value, whose in _by_value(values, runs))
        yield f"{name}: {'; '.join(listed)}."


def _refuse_or_warn(found: Sequence[tuple[str, str]], despite: Collection[str]) -> tuple[str, ...]:
    """A warning for each mismatch; raises `ConfigError` for kinds that are not among `despite`."""
    refused = {kind: sentence for kind, sentence in found if kind not in despite}
    if refused:
        options = " ".join(f"--allow-mismatch {kind}" for kind in refused)
        raise ConfigError(
            f"{'; '.join(sentence for kind, sentence in found if kind in refused)}. "
            "A difference between the runs would not be the candidates' alone; "
            f"{options} compares them all the same"
        )
    return tuple(f"WARNING: {sentence}." for _, sentence in found)


def _by_value(values: Sequence[Any], runs: Sequence[FinishedRun]) -> Iterator[tuple[Any, str]]:
    """Each value with the runs that have it, what most have last; many are not named."""
    labels: list[tuple[Any, list[str]]] = []
    for value, run in zip(values, runs, strict=True):
        same = next((held for each, held in labels if each == value), None)
        if same is None:
            labels.append((value, [run.label]))
        else:
            same.append(run.label)
    *fewer, (value, most) = sorted(labels, key=lambda each: len(each[1]))
    yield from ((value, _listed(held)) for value, held in fewer)
    yield value, f"the other {len(most)}" if len(most) > SHOWN else _listed(most)


def _facts(run: FinishedRun, name: str) -> dict[str, str]:
    facts = run.manifest.facts.get(name, {})
    named = facts if isinstance(facts, Mapping) else {name: facts}
    return {key: str(value) for key, value in named.items()}


def _other_data(first: FinishedRun, other: FinishedRun) -> str:
    """Which files differ: by their names, or by the paths of the data where these differ."""
    facts = [_facts(run, "data") for run in (first, other)]
    named = [str(run.spec.options.get("data", "")) for run in (first, other)]
    if facts[0].keys() != facts[1].keys():
        named = [
            ", ".join(sorted(name for name in one if one[name] not in two.values()))
            or "no such file"
            for one, two in (facts, facts[::-1])
        ]
    elif named[0] == named[1]:
        names = ", ".join(_differing(*facts))
        return f"the data differ: {names} has other contents in {first.label} than in {other.label}"
    return f"the data differ: {named[0]} in {first.label}, {named[1]} in {other.label}"


def _other_opponents(first: FinishedRun, other: FinishedRun) -> Counter[str]:
    """How many dialogues differ of opponents of both runs, in samples that both compare."""
    one, two = _opponents(first), _opponents(other)
    return Counter(key[0] for key, digest in one.items() if two.get(key, digest) != digest)


def _opponents(run: FinishedRun) -> dict[tuple[str, str], str]:
    """Hashes of stored dialogues by opponent and sample; earlier manifests have none."""
    facts = run.manifest.facts.get("opponents")
    named = facts.items() if isinstance(facts, Mapping) else ()
    return {
        (name, sample): str(digest)
        for name, digests in named
        if isinstance(digests, Mapping)
        for sample, digest in digests.items()
    }


def _role(run: FinishedRun, role: str) -> tuple[Any, ...]:
    """All about a role that can change its replies."""
    model = run.spec.models.get(role)
    return run.manifest.models.get(role), model and model.system, _sampling(run, role)


def _sampling(run: FinishedRun, role: str) -> dict[str, Any]:
    """What is in force in the benchmark's place: a run's goes before that of the model's file."""
    model = run.spec.models.get(role)
    given = model and model.sampling, run.spec.sampling.get(role)
    return {
        name: "left to the server" if value is None else value
        for sampling in filter(None, given)
        for name, value in sampling.model_dump().items()
    }


def _how(first: FinishedRun, other: FinishedRun, role: str) -> str:
    """Which settings of a model that both runs have differ."""
    if not (role in first.spec.models and role in other.spec.models):
        return ""
    differing = _differing_models((first, other), role)
    if not differing:
        return "; their settings are the same, but the files or the backend behind them are not"
    advice = _MOVED if differing.keys() == {_ADDRESS} else ""
    return f"; {_told(differing)}{advice}"


def _told(differing: Mapping[str, tuple[Any, ...]]) -> str:
    """Settings of two runs, each with both of its values."""
    return ", ".join(
        f"{name} is {_shown(name, one)} and {_shown(name, two)}"
        for name, (one, two) in differing.items()
    )


def _differing_models(runs: Sequence[FinishedRun], role: str) -> dict[str, tuple[Any, ...]]:
    """What a role's models are set to otherwise; one of the same identity may have moved."""
    settings = [_model_settings(run, role) for run in runs]
    differing = _differing(*settings)
    if settings[0].get(_IDENTITY) and _IDENTITY not in differing:
        differing.pop(_ADDRESS, None)
    return differing


def _model_settings(run: FinishedRun, role: str) -> dict[str, Any]:
    """All that a run sets for a role's model and that can change its replies."""
    model = run.spec.models[role]
    return {
        "provider": model.provider,
        "model": model.model,
        _ADDRESS: model.base_url,
        "system": model.system,
        **{f"options.{name}": given for name, given in model.options.items() if name != _HEADERS},
        **{f"{_SAMPLING}{role}.{name}": value for name, value in _sampling(run, role).items()},
    }


def _settings(run: FinishedRun) -> dict[str, Any]:
    """All that can change scores and may differ, by the name that a user knows."""
    known = _description(run)
    refused = _files(known) | (known.judging if known else frozenset())
    options = _in_force(run, known).items() if known else run.spec.options.items()
    return {
        **{f"option {name}": value for name, value in options if name not in refused},
        "conditions": ", ".join(run.manifest.conditions),
        "limit": run.spec.limit,
        "shuffle": run.spec.shuffle,
        "samples": run.spec.samples and ", ".join(run.spec.samples),
        "seed": run.spec.seed,
        "mmconv": run.manifest.mmconv,
    }


def _files(known: Description | None) -> frozenset[str]:
    """The options that name files: what the files hold is compared, not where they lie."""
    return file_options(known.options if known else ImageOptions)


def _judging(run: FinishedRun) -> dict[str, Any]:
    """What is in force of the options that change the judging."""
    if (known := _description(run)) is None:
        return {}
    in_force = _in_force(run, known)
    return {
        f"options.{name}": _kind(known, name).validate_python(in_force[name])
        for name in sorted(known.judging)
    }


def _in_force(run: FinishedRun, known: Description) -> dict[str, Any]:
    """Every option but names of files; without any in the manifest, defaults are today's."""
    options = run.manifest.options or run.spec.options
    defaults = {
        name: _kind(known, name).dump_python(field.get_default(call_default_factory=True))
        for name, field in known.options.model_fields.items()
        if name not in options and name not in _files(known)
    }
    return {**defaults, **options}


def _kind(known: Description, name: str) -> TypeAdapter[Any]:
    annotation: Any = known.options.model_fields[name].annotation
    return TypeAdapter(annotation)


def _description(run: FinishedRun) -> Description | None:
    """That of a shipped benchmark; one of a user's own may be here no more."""
    return describe(run.spec.benchmark) if run.spec.benchmark in TITLES else None


def _differing(*settings: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Name -> the values, None where there is none, of what is not the same in all of them."""
    names = dict.fromkeys(name for each in settings for name in each)
    values = {name: tuple(each.get(name) for each in settings) for name in names}
    return {name: each for name, each in values.items() if any(one != each[0] for one in each)}


def _model(spec: ModelSpec | None) -> str:
    return "nobody" if spec is None else spec.label


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "the benchmark's own" if name.startswith(_SAMPLING) else "not set"
    text = " ".join(str(value).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def _listed(labels: Sequence[str]) -> str:
    *most, last = labels
    return f"{', '.join(most)} and {last}" if most else last


def finished_among(
    folders: Sequence[Path], *, needed: Path | None = None
) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """The folders without those of unfinished runs and of shards, and a line on each of those.

    Shards stay where there is nothing else, or where the one that is `needed` is a shard: which do
    not fit together is said later. Raises `DataError` for an unfinished run where fewer
    than two finished ones are left or it is `needed`, `InputError` for a folder that cannot be
    read.
    """
    unfinished = {folder: why for folder in folders if (why := find_unfinished(folder)) is not None}
    kept = [folder for folder in folders if folder not in unfinished]
    if unfinished and (len(kept) < 2 or needed in unfinished):
        folder = needed if needed in unfinished else next(iter(unfinished))
        raise DataError(str(folder), [f"the run is not finished: {unfinished[folder]}"], FINISH)
    parts = {folder: part for folder in kept if (part := _shard(folder)) is not None}
    whole = [folder for folder in kept if folder not in parts]
    if not whole or needed in parts:
        whole, parts = kept, {}
    reasons = {
        folder: f"the run is not finished, {why}. {FINISH}" for folder, why in unfinished.items()
    }
    reasons |= {folder: f"it is {part} of a run. {MERGE}" for folder, part in parts.items()}
    return tuple(whole), tuple(f"{folder} is left out: {why}" for folder, why in reasons.items())


def open_runs(folders: Sequence[Path]) -> tuple[FinishedRun, ...]:
    """The runs of at least two folders, each with a label of its own.

    Raises `ConfigError` for a folder that is named twice, `InputError` for one that holds no
    finished run.
    """
    places = [folder.resolve() for folder in folders]
    if twice := [str(folder) for folder, n in Counter(places).items() if n > 1]:
        raise ConfigError(f"named twice: {', '.join(twice)}")
    if len(places) < 2:
        raise ConfigError("this takes the folders of at least two runs")
    return _labelled([read_finished(folder) for folder in folders])


def tell_shortfall(run: FinishedRun) -> Iterator[str]:
    """How much of a run is missing, if much is, as the run itself reported it."""
    for sentence in tell_notable(read_shortfall(run.folder), run.tables):
        yield f"WARNING: {run.label}: {sentence}"


def _shard(folder: Path) -> str | None:
    """Which part of a run lies in a folder; None for a whole run, and where none lies."""
    if not (folder / SPEC).exists():
        return None
    shard = read_specified(folder).shard
    return None if shard.is_whole else str(shard)


def _labelled(runs: Sequence[FinishedRun]) -> tuple[FinishedRun, ...]:
    """Runs of one model are named by their data, by their hashes, or else by their folders."""
    counts = Counter(run.label for run in runs)
    alike = Counter((run.label, data_hashes(run)) for run in runs)
    runs = [
        _with_data(run) if alike[run.label, data_hashes(run)] == 1 < counts[run.label] else run
        for run in runs
    ]
    for relabel in (_with_hash, _with_folder):
        counts = Counter(run.label for run in runs)
        runs = [relabel(run) if counts[run.label] > 1 else run for run in runs]
    return tuple(runs)


def _with_data(run: FinishedRun) -> FinishedRun:
    name = Path(str(run.spec.options.get("data", ""))).name
    return replace(run, label=f"{run.candidate} ({name})") if name else run


def _with_hash(run: FinishedRun) -> FinishedRun:
    name = run.folder.resolve().name
    label = re.sub(r"[^A-Za-z0-9._-]+", "-", run.candidate)
    mark = name.removeprefix(f"{run.spec.benchmark}-{label}-")
    return replace(run, label=f"{run.candidate} ({mark})")


def _with_folder(run: FinishedRun) -> FinishedRun:
    return replace(run, label=f"{run.candidate} ({run.folder})")
