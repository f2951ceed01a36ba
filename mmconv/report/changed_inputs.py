"""Staleness: what has changed since a run was made or scored, and whether that costs it results.

Scoring writes a run's results again from the cache, and showing prints them. If data, prompts or
models have changed, the cache has no replies to today's calls, or those of another run. Nothing is
written here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from mmconv.benchmarks.data_files.records import name_few
from mmconv.core.errors import DataError
from mmconv.core.run_stats import RunStats
from mmconv.report.data_quality import read_quality
from mmconv.run_folder.layout import MANIFEST, SCORES, TRANSCRIPTS, Manifest
from mmconv.run_folder.saved_run import read_manifest, read_start, read_summary

Document = TypeVar("Document")

SHOWN = 5

_ADVICE = (
    "Nothing was written. Restore what has changed; the requests of the run are in "
    f"{TRANSCRIPTS}. Or run the command again with the same --out to request what is missing."
)
_EXPORTED = "Restore what has changed, or run `mmconv score` on the folder and export the results."


def check_unchanged(
    folder: Path, today: Manifest, stats: RunStats, store: str, *, scored: bool = False
) -> None:
    """Raise `DataError` if today's inputs give other or fewer results than the run has.

    `today` is the manifest that would be written, `stats` counts what was found in the cache
    `store`. A run that was neither completed nor scored has nothing to lose. Calls that the run
    lost may be missing again; samples too, unless the run is `scored` again.
    """
    finished = _is_finished(folder)
    if not finished and not (folder / TRANSCRIPTS).exists():
        return
    saved = _read(read_manifest, folder)
    losses = []
    if stats.unrequested and (
        saved is None
        or _changes(saved, today)
        # the calls of the run are only read if they matter
        or ((finished or scored) and stats.lost > _lost(folder))
    ):
        state = "finished" if finished else "stopped"
        calls = f"{store} has no reply to {stats.unrequested} of its calls now"
        losses.append(f"the run was {state}, and {calls}")
    if scored and saved is not None and today.samples < saved.samples:
        losses.append(f"the run had {saved.samples} samples, and there are {today.samples} now")
    if losses or any(_other_models(saved, today)):
        raise DataError(str(folder), [*losses, *_causes(saved, today)], _ADVICE)


def check_exported(folder: Path, today: Manifest, stats: RunStats, store: str) -> None:
    """As `check_unchanged`, and for any change: a log's records are made again from the data."""
    check_unchanged(folder, today, stats, store)
    if changes := _changes(_read(read_manifest, folder), today):
        raise DataError(str(folder), changes, _EXPORTED)


def describe_changes(folder: Path, today: Manifest) -> tuple[str, ...]:
    """Lines on results that running again replaces, and on libraries of other versions.

    Results are replaced if they are of other inputs. A hub name with another commit is listed too:
    cached replies are found by its name alone. Samples that are gone are named in any case.
    """
    saved = _read(read_manifest, folder)
    if saved is None or not (folder / SCORES).exists():
        lines = [f"{folder}: {line}" for line in describe_gone(today.gone)]
    else:
        changes = "; ".join(_changes(saved, today))
        lines = [f"{folder}: {changes}. The results there will be replaced."] if changes else []
    if saved is None:
        return tuple(lines)
    versions = [
        f"{name} {saved.packages[name]} ({version} now)"
        for name, version in today.packages.items()
        if saved.packages.get(name, version) != version
    ]
    if versions:
        lines.append(f"{folder}: earlier replies were made with {', '.join(versions)}.")
    for role, metadata in today.about_models.items():
        before, now = saved.about_models.get(role, {}).get("commit"), metadata.get("commit")
        if before and now and before != now:
            lines.append(
                f"{folder}: {role} was commit {before} and is {now} now; new replies would be of "
                "another model. Set options.revision to the first."
            )
    return tuple(lines)


def check_beside(folder: Path, today: Manifest) -> None:
    """Raise `DataError` if today's data are not those of the run's results."""
    saved = _read(read_manifest, folder)
    if saved and (changes := [*describe_gone(today.gone), *_other_data(saved, today)]):
        raise DataError(str(folder), changes)


def describe_gone(gone: Sequence[str]) -> Iterator[str]:
    """A line that names the samples that a run chose and its data no longer have, if any."""
    if gone:
        samples = "1 sample" if len(gone) == 1 else f"{len(gone)} samples"
        yield f"the data no longer have {samples} of the run: {name_few(gone)}"


def recorded_samples(folder: Path) -> tuple[str, ...] | None:
    """The keys that a run's last session chose; None if they cannot be read."""
    start = _read(read_start, folder)
    return None if start is None else start.samples


def _causes(saved: Manifest | None, today: Manifest) -> list[str]:
    if saved is None:
        return [f"changes are unknown: its {MANIFEST} cannot be read"]
    return _changes(saved, today) or [
        "its data files, prompts and models are unchanged: images may have changed, replies may "
        f"have been removed from the cache, or this version of mmconv ({today.mmconv}) may make "
        f"other requests than the run's ({saved.mmconv})"
    ]


def _changes(saved: Manifest | None, today: Manifest) -> list[str]:
    if saved is None:
        return []
    prompts = _differing(saved.provenance.get("prompts"), today.provenance.get("prompts"))
    options = [
        f"option {name} was {before} and is {today.options[name]} now"
        for name, before in saved.options.items()
        if before != today.options.get(name, before)
    ]
    return [
        *describe_gone(today.gone),
        *_other_data(saved, today),
        *(f"the prompt {name} has changed" for name in prompts),
        *options,
        *_other_models(saved, today),
        *_left_out(saved, today),
    ]


def _left_out(saved: Manifest | None, today: Manifest) -> Iterator[str]:
    """The first records that are bad now, and were not when the run was made."""
    before = () if saved is None else saved.provenance.get("left_out") or ()
    new = [record for record in today.provenance.get("left_out") or () if record not in before]
    for record in new[:SHOWN]:
        yield f"{record['where']} is left out now: {'; '.join(record['reasons'])}"


def _other_data(saved: Manifest, today: Manifest) -> Iterator[str]:
    for name in _differing(saved.provenance.get("data"), today.provenance.get("data")):
        yield f"{name} has changed since the run"
    for name in _differing(saved.provenance.get("opponents"), today.provenance.get("opponents")):
        yield f"the dialogues of {name} have changed since the run"


def _other_models(saved: Manifest | None, today: Manifest) -> Iterator[str]:
    """Roles whose model has changed; a damaged manifest may miss a role."""
    before = {} if saved is None else saved.models
    for role, model in today.models.items():
        if before.get(role, model) != model:
            yield f"the model of the role {role} has changed"


def _differing(before: Any, now: Any) -> list[str]:
    if not (isinstance(before, Mapping) and isinstance(now, Mapping)):
        return []
    return [name for name in {**before, **now} if before.get(name) != now.get(name)][:SHOWN]


def _is_finished(folder: Path) -> bool:
    try:
        summary = read_summary(folder)
    except DataError:
        return True
    return summary is not None and summary.complete


def _lost(folder: Path) -> int:
    quality = _read(read_quality, folder)
    return quality.failed + quality.skipped if quality else 0


def _read(reader: Callable[[Path], Document], folder: Path) -> Document | None:
    try:
        return reader(folder)
    except DataError:
        return None
