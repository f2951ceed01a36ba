"""Dialogues that exist already: those of an earlier run's folder, or of a file in the authors' way.

A run of one model is so the opponent of another, or what DupDetect is calibrated on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from mmconv.benchmarks.botchat.dialogue_files import StoredDialogue, read_dialogues
from mmconv.benchmarks.botchat.options import SEED
from mmconv.benchmarks.registry import TITLES
from mmconv.config import RunSpec, tell_problems
from mmconv.errors import DataError
from mmconv.trials import read_trial

SPEC = "spec.json"
TRANSCRIPTS = "transcripts.jsonl"

Document = TypeVar("Document", bound=BaseModel)

_UTTERANCE = re.compile(r"(?:.+/)?utterance_(\d+)")

_RUN_AGAIN = "Run its command again with the same --out: the answers are in the store."
_SCORE_AGAIN = "`mmconv score` of the run's folder writes it anew: the answers are in the store."


class _Start(BaseModel):
    """What is needed of `SPEC`."""

    spec: RunSpec


class _Part(BaseModel):
    text: str = ""


class _Message(BaseModel):
    parts: tuple[_Part, ...]


class _Call(BaseModel):
    """What is needed of a line of `TRANSCRIPTS`; `text` is None where there is no reply."""

    sample: str
    condition: str
    call: str
    seat: str
    text: str | None
    messages: tuple[_Message, ...] | None


def stored_dialogues(path: Path) -> Iterator[StoredDialogue]:
    """Stream the dialogues of a file (`read_dialogues`) or of a run's folder.

    Raises `DataError` for a folder that is no finished run of BotChat, or one of both conditions,
    and for a file in it that is cut short, or was not written by this version of mmconv.
    """
    return _recorded(path) if path.is_dir() else read_dialogues(path)


def dialogue_file(path: Path) -> Path:
    """The file that the dialogues are read from."""
    return path / TRANSCRIPTS if path.is_dir() else path


def _recorded(folder: Path) -> Iterator[StoredDialogue]:
    models = _models(folder / SPEC)
    first: str | None = None
    found = False
    for (name, condition), calls in groupby(_calls(folder / TRANSCRIPTS), _plan):
        first = first or condition
        if condition != first:
            raise DataError(
                str(folder),
                [f"holds dialogues of the conditions {first} and {condition}"],
                "Run one of them alone (--conditions) and name that run.",
            )
        key, trial = read_trial(name)
        # further trials of a sample repeat it
        if trial > 1:
            continue
        for dialogue in _dialogues(f"{folder.name} {key}", key, models, calls):
            found = True
            yield dialogue
    if not found:
        raise DataError(str(folder), ["holds no dialogues"], "Name the folder of a BotChat run.")


def _plan(call: _Call) -> tuple[str, str]:
    return call.sample, call.condition


def _dialogues(
    where: str, index: str, models: Mapping[str, str], calls: Iterable[_Call]
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
            raise DataError(where, [f"{SPEC} names no seat {seat!r}, which speaks"], _RUN_AGAIN)
        yield StoredDialogue(
            where=where, model=models[seat], index=index, utterances=tuple(utterances)
        )


def _text(message: _Message) -> str:
    return "".join(part.text for part in message.parts)


def _models(path: Path) -> dict[str, str]:
    """The names of a run's models by seat."""
    try:
        content = path.read_bytes()
    except OSError as error:
        fault = f"this is no folder of a run ({path.name} cannot be read)"
        raise DataError(str(path.parent), [fault]) from error
    spec = _read(content, _Start, str(path), _RUN_AGAIN).spec
    if spec.benchmark != "botchat" and spec.benchmark in TITLES:
        fault = f"this is a run of {spec.benchmark}"
        raise DataError(str(path.parent), [fault], "Name the folder of a BotChat run.")
    return {seat: model.label for seat, model in spec.seats.items()}


def _calls(path: Path) -> Iterator[_Call]:
    try:
        file = path.open("rb")
    except OSError as error:
        fault = f"the run is not finished ({path.name} cannot be read)"
        raise DataError(str(path.parent), [fault], _RUN_AGAIN) from error
    with file:
        for number, line in enumerate(file, start=1):
            yield _read(line, _Call, f"{path} line {number}", _SCORE_AGAIN)


def _read(content: bytes, kind: type[Document], where: str, advice: str) -> Document:
    try:
        return kind.model_validate(orjson.loads(content))
    except ValidationError as error:
        other = "Another version of mmconv wrote it, or it was changed."
        raise DataError(where, tell_problems(error, kind), f"{other} {advice}") from error
    except orjson.JSONDecodeError as error:
        fault = f"cut short, or not JSON: {error.msg} (character {error.pos + 1})"
        raise DataError(where, [fault], advice) from error
