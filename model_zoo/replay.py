"""Replay: a model that has replied already, in a file or in another run.

`replay/FILE` reads a .jsonl file of `{"sample", "call", "text"}` with an optional `condition`;
`call` is the id of a call, such as `turn_1`. It also reads what other tools logged
(`model_zoo.replay_formats`): samples of lmms-eval (.jsonl), prediction files of VLMEvalKit (.xlsx,
.tsv), logs of Inspect (.eval). `replay/FOLDER` reads a run's folder, or all such files in a folder.
The replies of a role other than `candidate` need ids of its calls, such as `direct/turn_2`. The
name `reference` replays the references of the benchmark's data. A call without a reply fails.
Nothing is requested, and nothing is cached: the file is read again by every command.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from mmconv.core.config import REFERENCE, ModelSpec
from mmconv.core.errors import ConfigError, DataError, Refused
from mmconv.core.keys import hash_file, hash_json
from mmconv.core.protocols import ImageSource
from mmconv.core.types import Call, Message, Reply, Sampling
from model_zoo.replay_formats import Logged, read_inspect, read_lmms_eval, read_vlmevalkit

Address: TypeAlias = tuple[str, str | None, str]

TRANSCRIPTS = "transcripts.jsonl"

SUFFIXES = (".jsonl", ".xlsx", ".tsv", ".eval")


@dataclass(slots=True)
class Replies:
    """The replies of a file: those whose calls it names, and dialogues by sample."""

    by_call: dict[Address, Reply] = field(default_factory=dict)
    dialogues: dict[str, Logged] = field(default_factory=dict)

    def of(self, sample: str, condition: str, calls: Sequence[Call]) -> dict[str, Reply]:
        """The replies by call id; raises `DataError` for a dialogue that is not of these calls."""
        replies = {
            call.id: reply
            for call in (each for root in calls for each in root.attempts)
            for where in (condition, None)
            if (reply := self.by_call.get((sample, where, call.id))) is not None
        }
        dialogue = self.dialogues.get(sample)
        return replies if dialogue is None else replies | dialogue.match(condition, calls)


def fingerprint(spec: ModelSpec) -> str:
    """The hash of the files: other replies are another model."""
    hashes = [REFERENCE] if spec.is_reference else [hash_file(path) for path in _find(spec)]
    return hash_json(["replay", 1, *hashes])


async def open_backend(spec: ModelSpec, images: ImageSource) -> Absent:
    """What is called for replies that the file or the data do not have."""
    return Absent("the data" if spec.is_reference else spec.model)


def read_replies(spec: ModelSpec) -> Replies:
    """The replies of the files; raises `DataError` that names the line of a bad record."""
    paths = _find(spec)
    return _read(paths, tuple(path.stat().st_mtime_ns for path in paths))


class Absent:
    """The backend: every call that comes here has no reply in `source`."""

    max_concurrency = 64

    def __init__(self, source: str) -> None:
        self._source = source

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        """Raise `Refused`."""
        raise Refused("rejected", f"{self._source} has no reply for this call of {affinity}")

    async def aclose(self) -> None:
        """Nothing is open."""


def _find(spec: ModelSpec) -> tuple[Path, ...]:
    path = Path(spec.model)
    if not path.is_dir():
        paths = [path]
    elif (path / TRANSCRIPTS).exists():
        paths = [path / TRANSCRIPTS]
    else:
        paths = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
    if not paths or not all(path.is_file() for path in paths):
        raise ConfigError(
            f"model {spec.label}: {path} is not a file of replies; "
            f"name a file ({', '.join(SUFFIXES)}) or a folder that has one"
        )
    return tuple(paths)


@lru_cache(maxsize=4)
def _read(paths: tuple[Path, ...], _times: tuple[int, ...]) -> Replies:
    replies = Replies()
    for path in paths:
        for dialogue in _read_file(path, replies.by_call):
            if not dialogue.calls:
                first = replies.dialogues.setdefault(dialogue.sample, dialogue)
                if first is not dialogue:
                    problem = f"sample {dialogue.sample} is also in {first.where}"
                    raise DataError(dialogue.where, [problem], "Name one file for each run.")
            for call, reply in zip(dialogue.calls, dialogue.replies, strict=False):
                if reply is not None:
                    replies.by_call[dialogue.sample, dialogue.condition, call] = reply
    return replies


def _read_file(path: Path, by_call: dict[Address, Reply]) -> Iterator[Logged]:
    """The dialogues of a file; replies whose calls it names go into `by_call`."""
    if path.suffix == ".eval":
        yield from read_inspect(path)
    elif path.suffix in (".xlsx", ".tsv"):
        yield from read_vlmevalkit(path)
    else:
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            where = f"{path.name} line {number}"
            try:
                fields = orjson.loads(line)
                if "filtered_resps" in fields:
                    yield read_lmms_eval(fields, where)
                else:
                    _read_line(fields, by_call)
            except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
                raise DataError(where, ["must have sample, call and text"], "") from error


def _read_line(fields: Mapping[str, Any], by_call: dict[Address, Reply]) -> None:
    address = str(fields["sample"]), fields.get("condition"), str(fields["call"])
    text = fields["text"]
    if text is not None:
        by_call[address] = Reply(
            text=str(text),
            finish=fields.get("finish") or "stop",
            input_tokens=fields.get("input_tokens"),
            output_tokens=fields.get("output_tokens"),
        )
