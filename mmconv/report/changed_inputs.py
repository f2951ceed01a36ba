"""What has changed since a run was made or scored, and whether that would cost it results.

Scoring writes a run's results again from the cache, and showing prints them. Where data, prompts or
models are others by now, the store holds no answers to what would be asked today, or those that
another run got. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mmconv.benchmarks.data_files.bad_records import name_few
from mmconv.core.errors import ConfigError, DataError
from mmconv.core.run_stats import RunStats
from mmconv.report.data_quality import read_shortfall
from mmconv.run_folder.layout import MANIFEST, SCORES, TRANSCRIPTS, Manifest, Start
from mmconv.run_folder.saved_run import read_manifest, read_start, read_summary

SHOWN = 5
"""How many changes of one kind are named."""

_ADVICE = (
    "Nothing was written. Put back what has changed, or run its command again with the same --out "
    "to ask what is missing."
)

_UNSHOWN = f"Put back what has changed; what was asked then stands in {TRANSCRIPTS}."

_UNEXPORTED = (
    "Put back what has changed, or let `mmconv score` of the folder make its results from what is "
    "there today, and export those."
)


def check_kept(folder: Path, today: Manifest, stats: RunStats, store: str) -> None:
    """Raise `DataError` where scoring a run would leave it with fewer results than it has.

    `today` is the manifest that would be written, `stats` what was found in the store, `store`
    what that is called. A run that neither came to its end nor was scored has nothing to lose. Of
    one that lost calls some may be unasked today: another run of the same models has got what they
    waited for. A run of other models has got answers that are not this one's.
    """
    finished = _is_finished(folder)
    if not finished and not (folder / TRANSCRIPTS).exists():
        return
    saved = _manifest(folder)
    losses = list(_losses(folder, saved, today, stats, store, finished=finished))
    if losses or any(_other_models(saved, today)):
        raise DataError(str(folder), [*losses, *_causes(saved, today)], _ADVICE)


def tell_changed(folder: Path, today: Manifest) -> tuple[str, ...]:
    """Lines on results that running a run again replaces, and on libraries of other versions.

    Results are replaced where they are of something else than there is today. A hub name whose
    commit is another one is listed too: its name is all that replies are kept under. Samples that
    are gone are named for a run without results as well.
    """
    saved = _manifest(folder)
    if saved is None or not (folder / SCORES).exists():
        lines = [f"{folder}: {line}" for line in tell_gone(today.gone)]
    else:
        known = "; ".join(_differences(saved, today))
        lines = [f"{folder}: {known}. The results there will be replaced."] if known else []
    if saved is None:
        return tuple(lines)
    other = [
        f"{name} {saved.packages[name]} ({version} now)"
        for name, version in today.packages.items()
        if saved.packages.get(name, version) != version
    ]
    if other:
        asked = f"what is answered was asked with {', '.join(other)}"
        lines.append(f"{folder}: {asked}; the rest may differ.")
    for role, about in today.about_models.items():
        was, now = saved.about_models.get(role, {}).get("commit"), about.get("commit")
        if was and now and was != now:
            lines.append(
                f"{folder}: {role} was commit {was} when it was asked, and is {now} now; the rest "
                "would be of another model. Set options.revision to the first."
            )
    return tuple(lines)


def check_own(folder: Path, today: Manifest) -> None:
    """Raise `ConfigError` where a folder has results of other data, of a run started elsewhere.

    For runs whose data lie below the working directory: elsewhere others have the same names. A
    directory that is gone was moved, with its data and runs.
    """
    saved = _manifest(folder)
    if saved is None or (start := _start(folder)) is None:
        return
    started_in = start.started_in
    if not started_in.is_dir() or started_in.samefile(Path.cwd()):
        return
    if known := tuple(_other_data(saved, today)):
        raise ConfigError(
            f"{folder} holds a run that was started in {started_in}, of other data: "
            f"{'; '.join(known)}. Its results would be replaced: give another --out."
        )


def check_shown(folder: Path, today: Manifest, unasked: int, store: str) -> None:
    """Raise `DataError` where a run would be shown as it never was.

    `unasked` counts the calls to be shown that the store has no answer to. A run that never came to
    its end may have some, and one that lost calls as many as it lost; they are refused if something
    is known to have changed. With none, only another model is: its answers are not the run's.
    """
    saved = _manifest(folder)
    if not unasked:
        if others := tuple(_other_models(saved, today)):
            raise DataError(str(folder), others, _UNSHOWN)
        return
    finished = _is_finished(folder) and unasked > _lost(folder)
    known = () if saved is None else tuple(_differences(saved, today))
    if finished or known:
        causes = _causes(saved, today) if finished else known
        raise DataError(str(folder), [_unanswered(finished, unasked, store), *causes], _UNSHOWN)


def check_exported(folder: Path, today: Manifest, unasked: int, store: str) -> None:
    """Raise `DataError` where a log would not be of the run that its folder holds.

    That is as `check_shown` does, and for any known change: records and scores are made again from
    today's data, and the log says that they are of the run as it was.
    """
    check_shown(folder, today, unasked, store)
    saved = _manifest(folder)
    if saved is not None and (known := tuple(_differences(saved, today))):
        raise DataError(str(folder), known, _UNEXPORTED)


def check_there(folder: Path, sample: str, today: Manifest) -> None:
    """Raise `DataError` where this is a sample's key that the run chose and its data lack today."""
    if sample in today.gone:
        saved = _manifest(folder)
        raise DataError(str(folder), [*tell_gone([sample]), *_left_out(saved, today)], _UNSHOWN)


def check_beside(folder: Path, today: Manifest) -> None:
    """Raise `DataError` where today's data are not what a run's results can be shown beside."""
    saved = _manifest(folder)
    if saved is not None and (known := (*tell_gone(today.gone), *_other_data(saved, today))):
        raise DataError(str(folder), known)


def tell_gone(gone: Sequence[str]) -> Iterator[str]:
    """A line that names the samples which a run chose and its data lack today, if there are any."""
    if gone:
        samples = "1 sample" if len(gone) == 1 else f"{len(gone)} samples"
        yield f"the data no longer give {samples} of the run: {name_few(gone)}"


def recorded_samples(folder: Path) -> tuple[str, ...] | None:
    """Keys of the samples that a run's last session chose; None where they cannot be read."""
    start = _start(folder)
    return None if start is None else start.samples


def _unanswered(finished: bool, unasked: int, store: str) -> str:
    state = "finished" if finished else "stopped"
    return f"the run was {state}, and {store} has no answer to {unasked} of its calls today"


def _losses(
    folder: Path,
    saved: Manifest | None,
    today: Manifest,
    stats: RunStats,
    store: str,
    *,
    finished: bool,
) -> Iterator[str]:
    unasked = stats.unrequested
    more = stats.lost - _lost(folder)
    if finished and unasked and (more > 0 or saved is None or any(_differences(saved, today))):
        yield _unanswered(finished, unasked, store)
    if not finished and more > 0:
        yield f"{store} has no answer today to {more} calls more than when the run was scored"
    if saved is not None and today.samples < saved.samples:
        yield f"the run had {saved.samples} samples, and there are {today.samples} today"


def _causes(saved: Manifest | None, today: Manifest) -> Iterator[str]:
    if saved is None:
        yield f"what has changed is not known: its {MANIFEST} cannot be read"
        return
    known = list(_differences(saved, today))
    yield from known
    if not known:
        yield (
            "its data files, prompts and models are what they were: pictures may have changed, "
            f"answers may have been removed, or this mmconv ({today.mmconv}) may ask other things "
            f"than the one that made it ({saved.mmconv})"
        )


def _differences(saved: Manifest, today: Manifest) -> Iterator[str]:
    yield from tell_gone(today.gone)
    yield from _other_data(saved, today)
    for name in _differing(saved.facts.get("prompts"), today.facts.get("prompts")):
        yield f"the prompt {name} is not the one that the run was made with"
    for name in saved.options.keys() & today.options.keys():
        if (was := saved.options[name]) != (now := today.options[name]):
            yield f"the option {name} was {was} when the run was made, and is {now} today"
    yield from _other_models(saved, today)
    yield from _left_out(saved, today)


def _left_out(saved: Manifest | None, today: Manifest) -> Iterator[str]:
    """The first records that are bad today, and were not when the run was made."""
    before = () if saved is None else saved.facts.get("left_out") or ()
    new = [each for each in today.facts.get("left_out") or () if each not in before]
    for record in new[:SHOWN]:
        yield f"{record['where']} is left out today: {'; '.join(record['reasons'])}"


def _other_data(saved: Manifest, today: Manifest) -> Iterator[str]:
    for name in _differing(saved.facts.get("data"), today.facts.get("data")):
        yield f"{name} is not the file that the run was made from"
    for name in _differing(saved.facts.get("opponents"), today.facts.get("opponents")):
        yield f"the dialogues of {name} are not those that the run was made against"


def _other_models(saved: Manifest | None, today: Manifest) -> Iterator[str]:
    """Roles whose model is another one; a damaged manifest may lack a role."""
    before = {} if saved is None else saved.models
    for role, model in today.models.items():
        if before.get(role, model) != model:
            yield f"the model of the role {role} is not the one that the run was made with"


def _differing(before: Any, now: Any) -> list[str]:
    """The first names whose hashes differ; facts of another shape are ignored."""
    if not (isinstance(before, Mapping) and isinstance(now, Mapping)):
        return []
    return [name for name in {**before, **now} if before.get(name) != now.get(name)][:SHOWN]


def _is_finished(folder: Path) -> bool:
    """Whether a session of the run ended and does not say that it was stopped."""
    try:
        summary = read_summary(folder)
    except DataError:
        return True
    return summary is not None and summary.complete


def _lost(folder: Path) -> int:
    """How many calls had no reply; none where that cannot be read, so that any loss is reported."""
    try:
        shortfall = read_shortfall(folder)
    except DataError:
        return 0
    return shortfall.failed + shortfall.skipped


def _manifest(folder: Path) -> Manifest | None:
    try:
        return read_manifest(folder)
    except DataError:
        return None


def _start(folder: Path) -> Start | None:
    try:
        return read_start(folder)
    except DataError:
        return None
