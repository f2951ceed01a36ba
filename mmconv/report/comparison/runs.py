"""Runs to compare: which of several folders take part, their labels, and their comparability."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mmconv.benchmarks.base import ImageOptions
from mmconv.benchmarks.options import Description, describe, file_options
from mmconv.benchmarks.registry import TITLES
from mmconv.core.config import CANDIDATE
from mmconv.core.errors import ConfigError, DataError
from mmconv.core.judges import list_labels
from mmconv.report.data_quality import read_notable
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

SHOWN = 5

LONGEST = 80

_NAMES = frozenset({"provider", "model"})
"""Settings that name a model, and so the run of a candidate."""

_ADDRESS = "base_url"
_SAMPLING = "sampling."
_IDENTITY = "options.identity"
_MOVED = (
    f". If the same server has moved: a model with {_IDENTITY} is the same model at any address"
)

Mismatch = tuple[str, str]


def check_alike(
    first: FinishedRun, other: FinishedRun, despite: Collection[str]
) -> tuple[str, ...]:
    """Refuse runs that differ, by `ConfigError`; returns warnings of kinds in `despite`."""
    if first.spec.benchmark != other.spec.benchmark:
        raise ConfigError(
            f"{first.folder} is a run of {first.spec.benchmark}, "
            f"{other.folder} of {other.spec.benchmark}: these cannot be compared"
        )
    return _refuse_or_warn([*mismatches(first, other)], despite)


def check_samples(
    clusters: tuple[Mapping[str, str], Mapping[str, str]],
    labels: tuple[str, str],
    despite: Collection[str],
    *,
    same: bool = False,
) -> tuple[str, ...]:
    """As `check_alike`, for the cluster of each common sample, which in ConvBench is its image.

    Data files name images and do not contain them. `clusters` are sample -> cluster of both runs.
    With `same`, the samples themselves must be the same.
    """
    first, other = clusters
    common = first.keys() & other.keys()
    left, right = labels
    problems: list[Mismatch] = []
    if moved := sum(first[sample] != other[sample] for sample in common):
        text = (
            f"the data differ: {moved} of the {len(common)} samples that {left} and {right} share "
            "have another image or group"
        )
        problems.append(("data", text))
    if same and first.keys() != other.keys():
        text = (
            f"the data differ: {left} has {len(first)} samples, {right} {len(other)}, and "
            f"{len(common)} are in both"
        )
        problems.append(("data", text))
    return _refuse_or_warn(problems, despite)


def _refuse_or_warn(problems: Sequence[Mismatch], despite: Collection[str]) -> tuple[str, ...]:
    refused = [(kind, sentence) for kind, sentence in problems if kind not in despite]
    if refused:
        options = " ".join(dict.fromkeys(f"--allow-mismatch {kind}" for kind, _ in refused))
        raise ConfigError(
            f"{'; '.join(sentence for _, sentence in refused)}. Differences between the runs would "
            f"not be the candidates' alone; {options} compares them anyway"
        )
    return tuple(f"WARNING: {sentence}." for _, sentence in problems)


def mismatches(first: FinishedRun, other: FinishedRun) -> Iterator[Mismatch]:
    """Everything that compared runs must share and these do not."""
    runs = first, other
    both = f"{first.label} and {other.label}"
    yield from (("data", problem) for problem in _data_mismatches(first, other))
    yield from (("judge", problem) for problem in _judge_mismatches(first, other))
    if judging := _differing(*map(_judging, runs)):
        yield "judge", f"judging options differ between {both}: {_list_settings(judging)}"
    if prompts := [*_differing(*(_facts(run, "prompts") for run in runs))]:
        more = f" and {len(prompts) - SHOWN} more" if len(prompts) > SHOWN else ""
        yield "prompts", f"prompts differ between {both}: {', '.join(prompts[:SHOWN])}{more}"
    if _differing(*(_facts(run, "code") for run in runs)):
        advice = "`mmconv score FOLDER` scores a run with today's code"
        yield "code", f"the code of the benchmark differs between {both} ({advice})"


def _data_mismatches(first: FinishedRun, other: FinishedRun) -> Iterator[str]:
    if data_hashes(first) != data_hashes(other):
        yield _other_data(first, other)
    if first.shard != other.shard:
        shards = f"{first.shard} in {first.label}, {other.shard} in {other.label}"
        yield f"the samples differ: {shards} ({MERGE[:-1]})"
    if first.spec.trials != other.spec.trials:
        trials = f"{first.spec.trials} in {first.label}, {other.spec.trials} in {other.label}"
        yield f"the trials of each sample differ: {trials}, and trials are paired"
    left, right = _opponents(first), _opponents(other)
    moved = Counter(key[0] for key, digest in left.items() if right.get(key, digest) != digest)
    for name, count in moved.items():
        both = f"{first.label} and {other.label}"
        yield f"the opponent {name} differs between {both}: {count} of its dialogues"


def _judge_mismatches(first: FinishedRun, other: FinishedRun) -> Iterator[str]:
    for role in sorted({*first.spec.models, *other.spec.models} - {CANDIDATE}):
        models = [
            run.spec.models[role].label if role in run.spec.models else "none"
            for run in (first, other)
        ]
        answered = [", ".join(run.manifest.models_of(role)) for run in (first, other)]
        if _role(first, role) != _role(other, role):
            left, right = f"{models[0]} in {first.label}", f"{models[1]} in {other.label}"
            yield f"the {role} differs: {left}, {right}{_differing_role((first, other), role)}"
        elif all(answered) and answered[0] != answered[1]:
            left, right = f"{answered[0]} in {first.label}", f"{answered[1]} in {other.label}"
            yield f"the server of the {role} reports other models: {left}, {right}"


def data_hashes(run: FinishedRun) -> tuple[str, ...]:
    """Hashes of the run's data, whatever the files are called."""
    return tuple(sorted(_facts(run, "data").values()))


def other_settings(*runs: FinishedRun) -> Iterator[str]:
    """Sentences on settings that are not the same in all runs and are not refused.

    Those of the candidates are the ones in force, wherever they were set, without what merely names
    a candidate.
    """
    candidates = _differing_models(runs, CANDIDATE)
    if not candidates and len({run.manifest.models[CANDIDATE] for run in runs}) > 1:
        yield f"{CANDIDATE}: the settings are the same, but the files or the backend differ."
    own = {
        name if name.startswith(_SAMPLING) else f"models.{CANDIDATE}.{name}": values
        for name, values in candidates.items()
        if name not in _NAMES
    }
    for name, values in (_differing(*map(_settings, runs)) | own).items():
        groups: dict[str, tuple[str, list[str]]] = {}
        for value, run in zip(values, runs, strict=True):
            groups.setdefault(repr(value), (_shown(name, value), []))[1].append(run.label)
        *fewer, (most, labels) = sorted(groups.values(), key=lambda group: len(group[1]))
        listed = [f"{value} in {list_labels(some)}" for value, some in fewer]
        whose = f"the other {len(labels)}" if len(labels) > SHOWN else list_labels(labels)
        yield f"{name}: {'; '.join([*listed, f'{most} in {whose}'])}."


def _facts(run: FinishedRun, name: str) -> dict[str, str]:
    facts = run.manifest.provenance.get(name, {})
    named = facts if isinstance(facts, Mapping) else {name: facts}
    return {key: str(value) for key, value in named.items()}


def _other_data(first: FinishedRun, other: FinishedRun) -> str:
    left, right = (_facts(run, "data") for run in (first, other))
    paths = [str(run.spec.options.get("data", "")) for run in (first, other)]
    if left.keys() != right.keys():
        paths = [
            ", ".join(sorted(name for name in one if one[name] not in two.values()))
            or "no such file"
            for one, two in ((left, right), (right, left))
        ]
    elif paths[0] == paths[1]:
        names = ", ".join(_differing(left, right))
        return f"the data differ: the content of {names} in {first.label} and in {other.label}"
    return f"the data differ: {paths[0]} in {first.label}, {paths[1]} in {other.label}"


def _opponents(run: FinishedRun) -> dict[tuple[str, str], str]:
    facts = run.manifest.provenance.get("opponents")
    return {
        (name, sample): str(digest)
        for name, digests in (facts.items() if isinstance(facts, Mapping) else ())
        if isinstance(digests, Mapping)
        for sample, digest in digests.items()
    }


def _role(run: FinishedRun, role: str) -> tuple[Any, ...]:
    model = run.spec.models.get(role)
    return run.manifest.models.get(role), model and model.system, _sampling(run, role)


def _sampling(run: FinishedRun, role: str) -> dict[str, Any]:
    """The sampling that overrides the benchmark's: a run's goes before that of the model's file."""
    model = run.spec.models.get(role)
    return {
        name: "left to the server" if value is None else value
        for sampling in (model and model.sampling, run.spec.sampling.get(role))
        if sampling
        for name, value in sampling.model_dump().items()
    }


def _differing_role(runs: Sequence[FinishedRun], role: str) -> str:
    if not all(role in run.spec.models for run in runs):
        return ""
    differing = _differing_models(runs, role)
    if not differing:
        return "; their settings are the same, but the files or the backend differ"
    advice = _MOVED if differing.keys() == {_ADDRESS} else ""
    return f"; {_list_settings(differing)}{advice}"


def _list_settings(differing: Mapping[str, tuple[Any, ...]]) -> str:
    return ", ".join(
        f"{name} is {_shown(name, left)} and {_shown(name, right)}"
        for name, (left, right) in differing.items()
    )


def _differing_models(runs: Sequence[FinishedRun], role: str) -> dict[str, tuple[Any, ...]]:
    """The differing settings of a role's models; one of the same identity may have moved."""
    settings = [_model_settings(run, role) for run in runs]
    differing = _differing(*settings)
    if settings[0].get(_IDENTITY) and _IDENTITY not in differing:
        differing.pop(_ADDRESS, None)
    return differing


def _model_settings(run: FinishedRun, role: str) -> dict[str, Any]:
    model = run.spec.models[role]
    options = {name: value for name, value in model.options.items() if name != "headers"}
    return {
        "provider": model.provider,
        "model": model.model,
        _ADDRESS: model.base_url,
        "system": model.system,
        **{f"options.{name}": value for name, value in options.items()},
        **{f"{_SAMPLING}{role}.{name}": value for name, value in _sampling(run, role).items()},
    }


def _settings(run: FinishedRun) -> dict[str, Any]:
    known = _description(run)
    refused = file_options(known.options if known else ImageOptions)
    refused |= known.judging if known else frozenset()
    options = _in_force(run, known) if known else run.spec.options
    return {
        **{f"option {name}": value for name, value in options.items() if name not in refused},
        "conditions": ", ".join(run.manifest.conditions),
        "limit": run.spec.limit,
        "shuffle": run.spec.shuffle,
        "samples": run.spec.samples and ", ".join(run.spec.samples),
        "seed": run.spec.seed,
        "mmconv": run.manifest.mmconv,
    }


def _judging(run: FinishedRun) -> dict[str, Any]:
    known = _description(run)
    options = _in_force(run, known) if known else {}
    return {f"options.{name}": options[name] for name in sorted(known.judging if known else ())}


def _in_force(run: FinishedRun, known: Description) -> dict[str, Any]:
    """Every option except file names; options that the manifest lacks have today's defaults."""
    defaults = known.options.model_construct().model_dump(
        mode="json", exclude={*file_options(known.options)}
    )
    return {**defaults, **(run.manifest.options or run.spec.options)}


def _description(run: FinishedRun) -> Description | None:
    """The description of a shipped benchmark; a custom one may be missing here."""
    return describe(run.spec.benchmark) if run.spec.benchmark in TITLES else None


def _differing(*settings: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    names = dict.fromkeys(name for mapping in settings for name in mapping)
    values = {name: tuple(mapping.get(name) for mapping in settings) for name in names}
    return {name: row for name, row in values.items() if any(value != row[0] for value in row)}


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "the benchmark's own" if name.startswith(_SAMPLING) else "not set"
    text = " ".join(str(value).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def finished_among(
    folders: Sequence[Path], *, needed: Path | None = None
) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """The folders without unfinished runs and shards, and a line on each of those.

    Shards stay if there is nothing else, or if the one that is `needed` is a shard; mismatches are
    reported later. Raises `DataError` for an unfinished run if it is `needed` or fewer than two
    finished ones are left, `InputError` for a folder that cannot be read.
    """
    unfinished = {folder: reason for folder in folders if (reason := find_unfinished(folder))}
    kept = [folder for folder in folders if folder not in unfinished]
    if unfinished and (len(kept) < 2 or needed in unfinished):
        folder = needed if needed in unfinished else next(iter(unfinished))
        raise DataError(str(folder), [f"the run is not finished: {unfinished[folder]}"], FINISH)
    shards = {
        folder: shard
        for folder in kept
        if (folder / SPEC).exists() and not (shard := read_specified(folder).shard).is_whole
    }
    whole = [folder for folder in kept if folder not in shards]
    if not whole or needed in shards:
        whole, shards = kept, {}
    lines = [
        f"{folder} is left out: the run is not finished, {reason}. {FINISH}"
        for folder, reason in unfinished.items()
    ]
    lines += [
        f"{folder} is left out: it is {shard} of a run. {MERGE}" for folder, shard in shards.items()
    ]
    return tuple(whole), tuple(lines)


def open_runs(folders: Sequence[Path]) -> tuple[FinishedRun, ...]:
    """The runs of at least two folders, each with its own label.

    Runs of one model are named by their data, their seeds, their hashes, or else by their folders.
    Raises `ConfigError` for a folder that is named twice, `InputError` for one without a finished
    run.
    """
    places = Counter(folder.resolve() for folder in folders)
    if repeated := [str(folder) for folder, count in places.items() if count > 1]:
        raise ConfigError(f"named twice: {', '.join(repeated)}")
    if len(places) < 2:
        raise ConfigError("name the folders of at least two runs")
    runs = [read_finished(folder) for folder in folders]
    alike = Counter((run.label, data_hashes(run)) for run in runs)

    def by_data(run: FinishedRun) -> str:
        name = Path(str(run.spec.options.get("data", ""))).name
        return name if alike[run.candidate, data_hashes(run)] == 1 else ""

    def by_seed(run: FinishedRun) -> str:
        seeds = [other.spec.seed for other in runs if other.label == run.label]
        return f"seed {run.spec.seed}" if seeds.count(run.spec.seed) == 1 else ""

    def by_hash(run: FinishedRun) -> str:
        label = re.sub(r"[^A-Za-z0-9._-]+", "-", run.candidate)
        return run.folder.resolve().name.removeprefix(f"{run.spec.benchmark}-{label}-")

    for mark in (by_data, by_seed, by_hash, lambda run: str(run.folder)):
        counts = Counter(run.label for run in runs)
        runs = [
            replace(run, label=f"{run.candidate} ({name})")
            if counts[run.label] > 1 and (name := mark(run))
            else run
            for run in runs
        ]
    return tuple(runs)


def quality_warnings(run: FinishedRun) -> Iterator[str]:
    """Warnings on a run of which much is missing, as the run itself reported them."""
    for sentence in read_notable(run):
        yield f"WARNING: {run.label}: {sentence}"
