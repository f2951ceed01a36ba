"""Content keys: the name under which a reply is cached, and hashes of other things.

Two calls with the same key are the same request, wherever they stand in whatever run; that is what
makes resuming, rescoring and sharing possible. Nothing here knows where replies are cached.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson

from mmconv.core.types import Image, Message, Part, Ref, Sampling, Text

KEY_VERSION = 1
"""Raised when the key's layout changes, so that old replies are never mistaken for new ones."""


def hash_bytes(data: bytes) -> str:
    """SHA-256 of `data` in hex."""
    return hashlib.sha256(data).hexdigest()


def hash_file(path: Path) -> str:
    """SHA-256 of a file's bytes in hex, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_files(paths: Iterable[Path]) -> dict[str, str]:
    """Hashes of files by their names, and by their whole paths where two have one name."""
    files = tuple(paths)
    named = Counter(path.name for path in files)
    return {path.name if named[path.name] == 1 else str(path): hash_file(path) for path in files}


def hash_json(value: Any) -> str:
    """SHA-256 in hex of `value` as JSON with sorted keys; anything but JSON raises `TypeError`."""
    return hash_bytes(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


def content_key(
    fingerprint: str,
    messages: Sequence[Message],
    sampling: Sampling,
    *,
    pinned: str | None = None,
) -> str:
    """The key of a request: model fingerprint, resolved messages, sampling.

    Images enter by the hash of their bytes. `pinned` is what a prompt keeps that may be shortened,
    None where it may not: its reply may be one to a shorter prompt. Raises `ValueError` if a `Ref`
    is left.
    """
    body: list[Any] = [
        KEY_VERSION,
        fingerprint,
        [_message(message) for message in messages],
        [
            sampling.temperature,
            sampling.top_p,
            sampling.max_tokens,
            sampling.seed,
            sampling.stop,
            sampling.trial,
            sampling.schema,
        ],
    ]
    if pinned is not None:
        body.append(pinned)
    if sampling.extra:
        # a mapping, so that it is not mistaken for `pinned`
        body.append(sampling.extra)
    return hash_bytes(orjson.dumps(body, option=orjson.OPT_SORT_KEYS))


def _message(message: Message) -> list[Any]:
    parts = [_part(part) for part in message.parts]
    return [message.role, parts] if message.name is None else [message.role, parts, message.name]


def _part(part: Part) -> list[str]:
    match part:
        case Text(text=text):
            return ["text", text]
        case Image(sha256=sha256):
            return ["image", sha256]
        case Ref(call=call):
            raise ValueError(f"a key needs resolved messages; {call!r} is still a Ref")
