"""Drafts that a person reviews: a JSON Lines file, one line per record, changed one at a time.

A benchmark says what fields a draft has, and what a reviewer sees of its record. Other programs may
write the file meanwhile: a save replaces one line of the file as it is at that moment.
"""

from __future__ import annotations

import fcntl
import hashlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from mmconv.core.atomic_writes import atomic_write
from mmconv.core.errors import ConfigError, DataError

STATUSES = ("draft", "verified", "rejected")
"""What a draft may be; only a person sets the last two."""

STATUS, REVIEWER, REVIEWED = "status", "reviewed_by", "reviewed_at"
"""The fields that a review writes: a status, a name, a time in UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftField:
    """A text of a draft; `choices` are suggestions, other texts are allowed."""

    name: str
    title: str
    choices: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a reviewer sees of the record next to the draft: images by hash, and texts by title."""

    images: Sequence[str] = ()
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A line of the file as it is, and its fields."""

    id: str
    line: bytes
    entry: Mapping[str, Any]

    @property
    def version(self) -> str:
        """A hash of the line."""
        return hashlib.sha256(self.line).hexdigest()[:16]

    @property
    def status(self) -> str:
        """One of `STATUSES`; a line without one is verified."""
        return str(self.entry.get(STATUS) or STATUSES[1])


class ChangedMeanwhile(ConfigError):
    """The draft in the file is not the one that the reviewer saw."""


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Lock the file for this process; a new file is not left empty.

    Raises `ConfigError` if another process holds it, `OSError` if it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(
                f"{path}: another `mmconv annotate` or `review` is writing this file; wait until "
                "it has ended, or name another"
            ) from error
        try:
            yield
        finally:
            if not path.stat().st_size:
                path.unlink()


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftFile:
    """Drafts of the records in `shown`, by id, which `identify` reads from a line's fields.

    The file is locked while it is replaced, so that a program that adds lines loses none.
    """

    path: Path
    identify: Callable[[dict[str, Any]], str | None]
    fields: Sequence[DraftField]
    shown: Mapping[str, Shown]

    def read(self) -> dict[str, Draft]:
        """The drafts of the shown records by id, in the file's order.

        Raises `DataError` for a line that is not a JSON object with an id.
        """
        drafts = (draft for draft in self._lines() if draft.id in self.shown)
        return {draft.id: draft for draft in drafts}

    def save(
        self, draft_id: str, version: str, texts: Mapping[str, str], status: str, reviewer: str
    ) -> Draft:
        """Write a draft's texts and status; an empty text removes the field.

        What stays a draft has no reviewer. Raises `ChangedMeanwhile` if the line is not the
        `version` that the reviewer saw, `ConfigError` for a field that cannot be edited and if
        another program holds the lock.
        """
        if unknown := texts.keys() - {each.name for each in self.fields}:
            raise ConfigError(f"a review cannot change {min(unknown)!r}")
        with held(self.path):
            drafts = [*self._lines()]
            old = next((draft for draft in drafts if draft.id == draft_id), None)
            if old is None or old.version != version:
                raise ChangedMeanwhile(
                    f"{self.path.name}: record {draft_id} was changed by another program; load it "
                    "again"
                )
            entry = {**old.entry, **texts, STATUS: status, REVIEWER: "", REVIEWED: ""}
            if status != STATUSES[0]:
                entry |= {REVIEWER: reviewer, REVIEWED: f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
            entry = {name: value for name, value in entry.items() if value != ""}
            new = Draft(id=draft_id, line=orjson.dumps(entry), entry=entry)
            with atomic_write(self.path, sync=True) as part:
                lines = ((new if draft is old else draft).line for draft in drafts)
                part.write_bytes(b"".join(line + b"\n" for line in lines))
        return new

    def _lines(self) -> Iterator[Draft]:
        content = self.path.read_bytes().removeprefix(BOM_UTF8)
        for number, line in enumerate(content.splitlines(), start=1):
            if not line.strip():
                continue
            try:
                entry = orjson.loads(line)
                draft_id = self.identify(entry)
            except (orjson.JSONDecodeError, AttributeError):
                draft_id = None
            if draft_id is None:
                where = f"{self.path} line {number}"
                raise DataError(where, ["not a JSON object with an id"], "Correct the line.")
            yield Draft(id=draft_id, line=line, entry=entry)
