"""Dialogues that exist already: those of an earlier run's folder, or of a file in the authors' way.

A run of one model is so the opponent of another, or what DupDetect is calibrated on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson

from mmconv.benchmarks.botchat.dialogue_files import StoredDialogue, read_dialogues
from mmconv.benchmarks.botchat.options import SEED
from mmconv.benchmarks.records import Record, read_records
from mmconv.errors import DataError
from mmconv.trials import read_trial

TRANSCRIPTS = "transcripts.jsonl"

_UTTERANCE = re.compile(r"(?:.+/)?utterance_(\d+)")


def stored_dialogues(path: Path) -> Iterator[StoredDialogue]:
    """Stream the dialogues of a file (`read_dialogues`) or of a run's folder.

    Raises `DataError` for a folder that is no finished run of BotChat, or one of both conditions.
    """
    return _recorded(path) if path.is_dir() else read_dialogues(path)


def dialogue_file(path: Path) -> Path:
    """The file that the dialogues are read from."""
    return path / TRANSCRIPTS if path.is_dir() else path


def _recorded(folder: Path) -> Iterator[StoredDialogue]:
    models = _models(folder)
    first: str | None = None
    for (name, condition), calls in groupby(read_records(folder / TRANSCRIPTS), _plan):
        first = first or condition
        if condition != first:
            raise DataError(
                str(folder),
                [f"holds dialogues of the conditions {first} and {condition}"],
                "Run one of them alone (--conditions) and name that run.",
            )
        key, trial = read_trial(name)
        # further trials of a sample repeat it
        if trial == 1:
            yield from _dialogues(f"{folder.name} {key}", key, models, calls)


def _plan(record: Record) -> tuple[str, str]:
    return record.fields["sample"], record.fields["condition"]


def _dialogues(
    where: str, index: str, models: Mapping[str, str], calls: Iterable[Record]
) -> Iterator[StoredDialogue]:
    """The dialogue of every seat that speaks, up to the first utterance that is not there."""
    spoken: dict[str, list[str]] = {}
    for call in calls:
        named = _UTTERANCE.fullmatch(call.fields["call"])
        if named is None or call.fields["state"] != "reply":
            continue
        number, seat = int(named[1]), call.fields["seat"]
        if number == SEED + 1:
            spoken[seat] = [_text(message) for message in call.fields["messages"][-SEED:]]
        if len(spoken.get(seat, ())) == number - 1:
            spoken[seat].append(call.fields["text"])
    for seat, utterances in spoken.items():
        yield StoredDialogue(
            where=where, model=models[seat], index=index, utterances=tuple(utterances)
        )


def _text(message: Mapping[str, Any]) -> str:
    return "".join(part["text"] for part in message["parts"])


def _models(folder: Path) -> dict[str, str]:
    """The names of a run's models by seat."""
    try:
        summary = orjson.loads((folder / "summary.json").read_bytes())
    except OSError as error:
        raise DataError(
            str(folder), ["this is no folder of a run (summary.json cannot be read)"]
        ) from error
    return {seat: counts["model"] for seat, counts in summary["seats"].items()}
