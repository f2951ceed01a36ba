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
from mmconv.core.errors import ConfigError, DataError
from mmconv.core.run_stats import RunStats
from mmconv.report.data_quality import read_quality
from mmconv.run_folder.layout import MANIFEST, SCORES, TRANSCRIPTS, Manifest
from mmconv.run_folder.saved_run import read_manifest, read_start, read_summary

Document = TypeVar("Document")

SHOWN = 5
"""How many changes of one kind are named."""

_KEPT = (
    "Nothing was written. Restore what has changed, or run the command again with the same --out "
    "to request what is missing."
)
_SHOWN = f"Restore what has changed; the requests of the run are in {TRANSCRIPTS}."
_EXPORTED = "Restore what has changed, or run `mmconv score` on the folder and export the results."


def check_kept(folder: Path, today: Manifest, stats: RunStats, store: str) -> None:
    """Raise `DataError` if scoring a run would leave it with fewer results than it has.

    `today` is the manifest that would be written, `stats` counts what was found in the cache
    `store`. A run that was neither completed nor scored has nothing to lose. Calls that the run
    lost may be missing again. Replies of another model are not this run's.
    """
    finished = _is_finished(folder)
    if not finished and not (folder / TRANSCRIPTS).exists():
        return
    saved = _read(read_manifest, folder)
    more = stats.lost - _lost(folder)
    losses = []
    if finished and stats.unrequested and (more > 0 or saved is None or _changes(saved, today)):
        losses.append(_unanswered(finished, stats.unrequested, store))
    if not finished and more > 0:
        losses.append(f"{store} misses replies to {more} more calls than when the run was scored")
    if saved is not None and today.samples < saved.samples:
        losses.append(f"the run had {saved.samples} samples, and there are {today.samples} now")
    if losses or any(_other_models(saved, today)):
        raise DataError(str(folder), [*losses, *_causes(saved, today)], _KEPT)


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


def check_own(folder: Path, today: Manifest) -> None:
    """Raise `ConfigError` if the folder has results of other data, of a run started elsewhere.

    This is for runs with data below the working directory: elsewhere other data have the same
    names. A directory that is gone was moved, with its data and runs.
    """
    saved, start = _read(read_manifest, folder), _read(read_start, folder)
    if saved is None or start is None:
        return
    if not start.started_in.is_dir() or start.started_in.samefile(Path.cwd()):
        return
    if changes := [*_other_data(saved, today)]:
        raise ConfigError(
            f"{folder} has a run of other data, started in {start.started_in}: "
            f"{'; '.join(changes)}. Its results would be replaced; give another --out."
        )


def check_shown(folder: Path, today: Manifest, unasked: int, store: str) -> None:
    """Raise `DataError` if a run would be shown as it never was.

    `unasked` counts the calls to show that the cache has no reply to. An unfinished run may have
    some, and one that lost calls as many; they are refused if there are changes. Without any, only
    another model is refused.
    """
    saved = _read(read_manifest, folder)
    if not unasked:
        if others := [*_other_models(saved, today)]:
            raise DataError(str(folder), others, _SHOWN)
        return
    finished = _is_finished(folder) and unasked > _lost(folder)
    changes = _changes(saved, today)
    if finished or changes:
        causes = _causes(saved, today) if finished else changes
        raise DataError(str(folder), [_unanswered(finished, unasked, store), *causes], _SHOWN)


def check_exported(folder: Path, today: Manifest, unasked: int, store: str) -> None:
    """Raise `DataError` as `check_shown` does, and for any change.

    A log's records and scores are made again from today's data.
    """
    check_shown(folder, today, unasked, store)
    if changes := _changes(_read(read_manifest, folder), today):
        raise DataError(str(folder), changes, _EXPORTED)


def check_there(folder: Path, sample: str, today: Manifest) -> None:
    """Raise `DataError` for a sample that the run chose and its data no longer have."""
    if sample in today.gone:
        left_out = _left_out(_read(read_manifest, folder), today)
        raise DataError(str(folder), [*describe_gone([sample]), *left_out], _SHOWN)


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


def _unanswered(finished: bool, unasked: int, store: str) -> str:
    state = "finished" if finished else "stopped"
    return f"the run was {state}, and {store} has no reply to {unasked} of its calls now"


def _causes(saved: Manifest | None, today: Manifest) -> list[str]:
    """The changes, or the reason why none is known."""
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
    """The first names whose hashes differ; facts of another shape are ignored."""
    if not (isinstance(before, Mapping) and isinstance(now, Mapping)):
        return []
    return [name for name in {**before, **now} if before.get(name) != now.get(name)][:SHOWN]


def _is_finished(folder: Path) -> bool:
    """Whether the run's last session ended without being stopped, as far as that is known."""
    try:
        summary = read_summary(folder)
    except DataError:
        return True
    return summary is not None and summary.complete


def _lost(folder: Path) -> int:
    """How many calls had no reply; 0 if that cannot be read, so that any loss is reported."""
    quality = _read(read_quality, folder)
    return quality.failed + quality.skipped if quality else 0


def _read(reader: Callable[[Path], Document], folder: Path) -> Document | None:
    """A document of the folder; None if it cannot be read."""
    try:
        return reader(folder)
    except DataError:
        return None
