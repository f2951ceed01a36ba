"""Dialogues that exist already: those of an earlier run's folder, or of a file in the authors' way.

A run of one model is so the opponent of another, or what DupDetect is calibrated on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

from mmconv.benchmarks.botchat.dialogue_files import StoredDialogue, read_dialogues
from mmconv.benchmarks.botchat.options import SEED
from mmconv.benchmarks.registry import TITLES
from mmconv.core.errors import DataError
from mmconv.core.trials import read_trial
from mmconv.run_folder.layout import SPEC
from mmconv.run_folder.records import CallRecord, MessageRecord
from mmconv.run_folder.saved_run import RUN_AGAIN, read_calls, read_spec

_UTTERANCE = re.compile(r"(?:.+/)?utterance_(\d+)")


def stored_dialogues(path: Path) -> Iterator[StoredDialogue]:
    """Stream the dialogues of a file (`read_dialogues`) or of a run's folder.

    Raises `InputError` for a folder that is no finished run of BotChat, or one of both conditions,
    and for a file in it that is cut short, or was not written by this version of mmconv.
    """
    return _recorded(path) if path.is_dir() else read_dialogues(path)


def _recorded(folder: Path) -> Iterator[StoredDialogue]:
    models = _models(folder)
    first: str | None = None
    for (name, condition), calls in groupby(read_calls(folder), _plan):
        key, trial = read_trial(name)
        # further trials of a sample repeat it
        if trial > 1:
            continue
        for dialogue in _dialogues(f"{folder.name} {key}", key, models, calls):
            first = first or condition
            if condition != first:
                raise DataError(
                    str(folder),
                    [f"holds dialogues of the conditions {first} and {condition}"],
                    "Run one of them alone (--conditions) and name that run.",
                )
            yield dialogue
    if first is None:
        raise DataError(str(folder), ["holds no dialogues"], "Name the folder of a BotChat run.")


def _plan(call: CallRecord) -> tuple[str, str]:
    return call.sample, call.condition


def _dialogues(
    where: str, index: str, models: Mapping[str, str], calls: Iterable[CallRecord]
) -> Iterator[StoredDialogue]:
    """The dialogue of every seat that speaks, up to the first utterance that is not there."""
    spoken: dict[str, list[str]] = {}
    for call in calls:
        named = _UTTERANCE.fullmatch(call.call)
        if named is None or call.text is None:
            continue
        number = int(named[1])
        if number == SEED + 1:
            spoken[call.seat] = [_text(message) for message in (call.messages or ())[-SEED:]]
        if len(spoken.get(call.seat, ())) == number - 1:
            spoken[call.seat].append(call.text)
    for seat, utterances in spoken.items():
        if seat not in models:
            raise DataError(where, [f"{SPEC} names no seat {seat!r}, which speaks"], RUN_AGAIN)
        yield StoredDialogue(
            where=where, model=models[seat], index=index, utterances=tuple(utterances)
        )


def _text(message: MessageRecord) -> str:
    return "".join(part.text or "" for part in message.parts)


def _models(folder: Path) -> dict[str, str]:
    """The names of a run's models by seat."""
    spec = read_spec(folder)
    if spec.benchmark != "botchat" and spec.benchmark in TITLES:
        fault = f"this is a run of {spec.benchmark}"
        raise DataError(str(folder), [fault], "Name the folder of a BotChat run.")
    return {seat: model.label for seat, model in spec.seats.items()}
