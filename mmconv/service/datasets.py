"""Datasets of clients, on disk: received, checked in a separate process, listed, removed.

A dataset never changes. Its id is a hash of its owner, its benchmark and its file, so an equal file
is the same dataset. Processes may share the folder.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
import os
import secrets
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import orjson
from pydantic import BaseModel, ValidationError

from images import Facts, ImageStore
from images.uploads import remove_stale
from mmconv.core.config import RunSpec
from mmconv.core.keys import hash_bytes, hash_json
from mmconv.service.dataset_check import CPU_SECONDS, EMBEDDED, UPLOAD, Checked, Order
from mmconv.service.errors import Problem, without_commands
from mmconv.service.settings import OWN_DATA, DataSpec, Settings, Sizes

log = logging.getLogger(__name__)

ABOUT = "about.json"

PIECE_BYTES = 1_000_000
"""How much of an upload is in memory at most."""

FULL_SECONDS = 3600.0
"""`Retry-After` for a token whose storage is full. Only the operator can raise its limit."""

BUSY_SECONDS = 10.0
"""`Retry-After` for a token that uploads another dataset."""

AT_ONCE = 2
"""How many datasets are checked at a time."""

FIELDS = {"images": "images in a .zip", "skip-bad-records": None}
"""Option of the command line -> what it is in a dataset, whose records must all be good."""

Room: TypeAlias = Callable[[], int]
"""How many bytes the storage of a token has left."""


class OwnDataset(BaseModel):
    """A client's dataset; `options` locate its files, `bytes` is what all of them take up."""

    id: str
    owner: str
    title: str | None
    benchmark: str
    options: Mapping[str, Any]
    samples: int
    bytes: int
    sent: datetime

    @property
    def spec(self) -> DataSpec:
        """The dataset as runs name it."""
        return DataSpec(benchmark=self.benchmark, options=self.options)


class NewDataset(BaseModel):
    """What a client says of a dataset that it sends."""

    benchmark: str
    title: str | None = None
    generate_only: bool = False


class Datasets:
    """The datasets in a folder; `facts` has image metadata by hash."""

    def __init__(self, settings: Settings, facts: dict[str, Facts]) -> None:
        self._folder = (settings.out / "datasets").absolute()
        self._sizes: Sizes = settings.sizes
        self._facts = facts
        self._libraries: dict[Path, ImageStore] = {}
        self._sending: set[str] = set()
        self._checks = asyncio.Semaphore(AT_ONCE)
        self._keeping = Lock()

    def find(self, name: str, owner: str | None) -> OwnDataset | None:
        """The dataset of this id, if it is this owner's, or anyone's."""
        if not name.startswith(OWN_DATA) or "/" in name:
            return None
        with suppress(OSError, ValidationError):
            dataset = OwnDataset.model_validate_json((self._folder / name / ABOUT).read_bytes())
            if owner in (None, dataset.owner):
                place = self._folder / name
                return dataset.model_copy(update={"options": _placed(dataset.options, place)})
        return None

    def of(self, owner: str | None) -> list[OwnDataset]:
        """The datasets of this owner, or all, the newest first."""
        names = (path.name for path in self._folder.glob(f"{OWN_DATA}*"))
        known = (self.find(name, owner) for name in names)
        return sorted(
            filter(None, known), key=lambda dataset: (dataset.sent, dataset.id), reverse=True
        )

    def used(self, owner: str) -> int:
        """The bytes of this owner's datasets."""
        return sum(dataset.bytes for dataset in self.of(owner))

    def library(self, spec: RunSpec) -> ImageStore | None:
        """The images of the dataset that a run names, if it is one of these."""
        data = spec.options.get("data")
        folder = Path(data).parent if isinstance(data, str) else None
        if folder is None or folder.parent != self._folder:
            return None
        if folder not in self._libraries:
            self._libraries[folder] = ImageStore(
                folder / EMBEDDED, limits=self._sizes.image_limits, facts=self._facts
            )
        return self._libraries[folder]

    def source(self, sha256: str, owner: str | None = None) -> ImageStore | None:
        """The images of a dataset of this owner, or of any, that was read and has this one."""
        for folder, library in [*self._libraries.items()]:
            if library.holds(sha256) and self.find(folder.name, owner):
                return library
        return None

    def remove(self, name: str) -> None:
        """Remove a dataset with its files. Raises `FileNotFoundError` if it is gone."""
        folder = self._folder / name
        # renamed in one step, so that no process sees a part of it
        gone = folder.with_name(f".{secrets.token_hex(8)}")
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
        self._libraries.pop(folder, None)

    async def add(
        self, owner: str, new: NewDataset, pieces: AsyncIterator[bytes], room: Room
    ) -> OwnDataset:
        """Store a dataset that takes up at most `room()` bytes.

        Raises `Problem` 400, 413 or 429.
        """
        if owner in self._sending:
            message = "another dataset of this token is being uploaded; wait for its end"
            raise Problem(429, message, code="busy", retry_after=BUSY_SECONDS)
        self._sending.add(owner)
        try:
            with self._drafted() as draft:
                left = await asyncio.to_thread(room)
                digest, size = await self._receive(pieces, draft / UPLOAD, left)
                name = _name(owner, new, digest)
                if known := self.find(name, owner):
                    return known
                if size > left:
                    raise _full(left)
                checked = await self._check(draft, new, left)
                return await asyncio.to_thread(self._keep, draft, name, owner, new, checked, room)
        finally:
            self._sending.discard(owner)

    def write(
        self,
        owner: str,
        new: NewDataset,
        records: Sequence[Mapping[str, Any]],
        images: Mapping[str, Callable[[], bytes]],
        room: Room,
    ) -> OwnDataset:
        """Store checked records and their images, which are read one by one, by name.

        Raises `Problem` 429 beyond `room()` bytes.
        """
        data = b"".join(orjson.dumps(record) + b"\n" for record in records)
        name = _name(owner, new, hash_bytes(data))
        if known := self.find(name, owner):
            return known
        with self._drafted() as draft:
            (draft / "data.jsonl").write_bytes(data)
            (draft / "images").mkdir()
            for file, read in images.items():
                (draft / "images" / file).write_bytes(read())
            options = {"data": "data.jsonl", "images": "images"}
            checked = Checked(options=options, samples=len(records))
            return self._keep(draft, name, owner, new, checked, room)

    def _keep(
        self, draft: Path, name: str, owner: str, new: NewDataset, checked: Checked, room: Room
    ) -> OwnDataset:
        """Put a draft into its place. Raises `Problem` 429."""
        size = sum(path.stat().st_size for path in draft.rglob("*") if path.is_file())
        dataset = OwnDataset(
            id=name,
            owner=owner,
            title=new.title,
            benchmark=new.benchmark,
            options=checked.options,
            samples=checked.samples,
            bytes=size,
            sent=datetime.now(UTC),
        )
        (draft / ABOUT).write_text(dataset.model_dump_json(), encoding="utf-8")
        place = self._folder / name
        try:
            # others of the owner may have been stored since the upload began
            with self._keeping:
                if (same := self.find(name, owner)) is not None:
                    return same
                if size > (left := room()):
                    raise _full(left)
                draft.rename(place)
        except OSError:
            # another process may have been faster with the same
            if (same := self.find(name, owner)) is None:
                raise
            return same
        return dataset.model_copy(update={"options": _placed(dataset.options, place)})

    @contextmanager
    def _drafted(self) -> Iterator[Path]:
        """A folder for a new dataset, removed afterwards unless it was renamed."""
        self._folder.mkdir(parents=True, exist_ok=True)
        remove_stale(self._folder.glob(".*"))
        draft = self._folder / f".{secrets.token_hex(8)}"
        draft.mkdir()
        try:
            yield draft
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    async def _receive(
        self, pieces: AsyncIterator[bytes], path: Path, room: int
    ) -> tuple[str, int]:
        """Write a body of at most `room` bytes to a file; returns its SHA-256 and size.

        More is hashed and not written, for an equal dataset may be here.
        """
        digest, size, held = hashlib.sha256(), 0, bytearray()
        with path.open("wb") as file:
            async for piece in pieces:
                size += len(piece)
                held += piece
                if len(held) >= PIECE_BYTES:
                    digest.update(held)
                    if size <= room:
                        await asyncio.to_thread(file.write, held)
                    held = bytearray()
            digest.update(held)
            if size <= room:
                file.write(held)
        return digest.hexdigest(), size

    async def _check(self, draft: Path, new: NewDataset, room: int) -> Checked:
        """Unpack and check the file in another process. Raises `Problem` 400 or 413."""
        sizes = self._sizes
        order = Order(
            folder=draft,
            benchmark=new.benchmark,
            generate_only=new.generate_only,
            most_bytes=min(sizes.dataset_bytes, room),
            text_bytes=sizes.body_bytes,
            records=sizes.dataset_records,
            images=sizes.image_limits,
        )
        # -P: nothing that was unpacked can be imported
        command = (sys.executable, "-P", "-m", "mmconv.service.dataset_check")
        pipe = asyncio.subprocess.PIPE
        async with self._checks:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=pipe
            )
            try:
                async with asyncio.timeout(2 * CPU_SECONDS):
                    result, errors = await process.communicate(order.model_dump_json().encode())
            except TimeoutError:
                result, errors = b"", b"it took too long"
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
        if process.returncode == errno.ENOSPC:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if process.returncode == 1:
            raise RuntimeError(f"the check of a dataset failed: {errors.decode(errors='replace')}")
        if not result:
            log.warning("the check of a dataset ended with %s: %s", process.returncode, errors)
            message = "the dataset takes too much memory or time to read; send smaller ones"
            raise Problem(413, message, code="request_too_large")
        checked = Checked.model_validate_json(result)
        if checked.problem is not None:
            status, code = (413, "request_too_large") if checked.is_large else (400, "invalid_data")
            raise Problem(status, without_commands(checked.problem, FIELDS), code=code)
        return checked


def _name(owner: str, new: NewDataset, digest: str) -> str:
    same = hash_json([owner, new.benchmark, new.generate_only, digest])
    return f"{OWN_DATA}{same[:12]}"


def _full(room: int) -> Problem:
    message = f"this token has room for {room:,} more bytes of images and datasets"
    return Problem(429, message, code="storage_full", retry_after=FULL_SECONDS)


def _placed(options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The options with paths below the folder."""
    return {
        name: [str(folder / file) for file in value]
        if isinstance(value, list)
        else str(folder / value)
        for name, value in options.items()
    }
