"""Replay: a model that has replied already, in a file or in another run.

`replay/FILE` reads a .jsonl file of `{"sample", "call", "text"}` with an optional `condition`;
`call` is the id of a call, such as `turn_1`. `replay/FOLDER` reads a run's folder. The replies of
a role other than `candidate` need ids of its calls, such as `direct/turn_2`. The name `reference`
replays the references of the benchmark's data. A call without a reply fails. Nothing is requested,
and nothing is cached: the file is read again by every command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import orjson

from mmconv.core.config import REFERENCE, ModelSpec
from mmconv.core.errors import ConfigError, DataError, Refused
from mmconv.core.keys import hash_file, hash_json
from mmconv.core.protocols import ImageSource
from mmconv.core.types import Message, Reply, Sampling

Address: TypeAlias = tuple[str, str | None, str]
"""Sample, condition (None: any) and call."""

TRANSCRIPTS = "transcripts.jsonl"


def fingerprint(spec: ModelSpec) -> str:
    """The hash of the file: other replies are another model."""
    return hash_json(["replay", 1, REFERENCE if spec.is_reference else hash_file(_find(spec))])


async def open_backend(spec: ModelSpec, images: ImageSource) -> Absent:
    """What is called for replies that the file or the data do not have."""
    return Absent("the data" if spec.is_reference else str(_find(spec)))


def read_replies(spec: ModelSpec) -> Mapping[Address, Reply]:
    """The replies of the file; raises `DataError` that names the line of a bad record."""
    path = _find(spec)
    return _read(path, path.stat().st_mtime_ns)


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


def _find(spec: ModelSpec) -> Path:
    path = Path(spec.model)
    path = path / TRANSCRIPTS if path.is_dir() else path
    if not path.is_file():
        raise ConfigError(
            f"model {spec.label}: {path} is not a file; name a .jsonl file of replies"
        )
    return path


@lru_cache(maxsize=4)
def _read(path: Path, _time: int) -> Mapping[Address, Reply]:
    replies: dict[Address, Reply] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            fields = orjson.loads(line)
            address = str(fields["sample"]), fields.get("condition"), str(fields["call"])
            text = fields["text"]
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            where = f"{path.name} line {number}"
            raise DataError(where, ["must have sample, call and text"], "") from error
        if text is not None:
            replies[address] = Reply(
                text=str(text),
                finish=fields.get("finish") or "stop",
                input_tokens=fields.get("input_tokens"),
                output_tokens=fields.get("output_tokens"),
            )
    return replies
