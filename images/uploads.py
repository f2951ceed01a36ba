"""Images that clients send, on disk under the SHA-256 of their bytes; duplicates are stored once.

Kept images belong to owners, and stay until the last owner discards them. Held images stay while a
request needs them. Memory holds only the facts of the images last used. All methods block; they may
be called from several threads, and processes may share a folder.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from images.decode import Facts, Limits, inspect
from images.store import ImageStore
from mmconv.core.keys import hash_bytes

FACTS_KEPT = 4096
"""Images whose facts are kept in memory, some 400 bytes each."""

STALE_SECONDS = 86_400
"""The age at which what a killed process left is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """An owner's image: its SHA-256, bytes of its file, and since when it is kept (UTC)."""

    sha256: str
    byte_count: int
    since: datetime


class Uploads:
    """An `ImageSource` of clients' images, in a folder that is created if it is missing.

    `limits` bound the images that are accepted.
    """

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._limits = limits
        self._kept = folder / "files"
        self._owners = folder / "owners"
        self._turnstile = folder / "lock"
        self._facts: OrderedDict[str, Facts] = OrderedDict()
        self._holders: Counter[str] = Counter()
        self._lock = Lock()
        held = folder / "held"
        held.mkdir(parents=True, exist_ok=True)
        remove_stale(held.iterdir())
        self._held = Path(tempfile.mkdtemp(dir=held))

    def keep(self, data: bytes, owner: str, where: str) -> Facts:
        """Check an image and keep it as `owner`'s; `where` names it in messages.

        Raises `ImageError`.
        """
        facts = self._examine(data, where)
        known = {facts.sha256: facts}
        claims = self._owners / owner
        claims.mkdir(parents=True, exist_ok=True)
        with self._entered(fcntl.LOCK_SH):
            ImageStore(self._kept, limits=self._limits, facts=known).add_bytes(data, where)
            (claims / _claim(facts.sha256, len(data))).touch()
        return facts

    def discard(self, sha256: str, owner: str | None = None) -> bool:
        """Discard `owner`'s image, or everyone's; whether there was one.

        Its file is removed with its last owner.
        """
        with self._entered(fcntl.LOCK_EX):
            claims = list(self._owners.glob(f"*/{sha256}-*"))
            discarded = [claim for claim in claims if owner in (None, claim.parent.name)]
            for claim in discarded:
                claim.unlink()
            if len(discarded) == len(claims):
                self._store().remove(sha256)
        return bool(discarded)

    def used(self, owner: str) -> int:
        """The bytes of the images that are `owner`'s."""
        return sum(claim.byte_count for claim in self.claims(owner))

    def claims(self, owner: str) -> list[Claim]:
        """The images that are `owner`'s, the newest first."""
        claims = []
        for path in (self._owners / owner).glob("*-*"):
            # It may have been discarded meanwhile.
            with suppress(FileNotFoundError):
                since = datetime.fromtimestamp(path.stat().st_mtime, UTC)
                sha256, _, byte_count = path.name.partition("-")
                claims.append(Claim(sha256=sha256, byte_count=int(byte_count), since=since))
        return sorted(claims, key=lambda claim: (claim.since, claim.sha256), reverse=True)

    def owns(self, owner: str | None, sha256: str) -> bool:
        """Whether the image is `owner`'s, or anyone's."""
        if owner is None:
            return self._store().holds(sha256)
        return any((self._owners / owner).glob(f"{sha256}-*"))

    def hold(self, data: bytes, where: str) -> Facts:
        """Check an image and hold it until it has been released as often; raises `ImageError`."""
        facts = self._examine(data, where)
        sha256 = facts.sha256
        with self._lock:
            if not self._holders[sha256]:
                # another process may have removed the folder of an idle one as stale
                self._held.mkdir(exist_ok=True)
                (self._held / sha256).write_bytes(data)
            self._holders[sha256] += 1
        return facts

    def release(self, sha256: str) -> None:
        """Release a held image."""
        with self._lock:
            self._holders[sha256] -= 1
            if not self._holders[sha256]:
                del self._holders[sha256]
                (self._held / sha256).unlink(missing_ok=True)

    def holds(self, sha256: str) -> bool:
        """Whether the image is here, kept or held."""
        return sha256 in self._holders or self._store().holds(sha256)

    def read(self, sha256: str) -> bytes:
        """The original bytes, verified by their hash; raises `ImageError`."""
        with suppress(OSError):
            data = (self._held / sha256).read_bytes() if sha256 in self._holders else b""
            if hash_bytes(data) == sha256:
                return data
        return self._store().read(sha256)

    def close(self) -> None:
        """Remove held images; kept ones stay."""
        shutil.rmtree(self._held, ignore_errors=True)

    def _store(self) -> ImageStore:
        """The kept images; a store remembers paths that it has seen, so each use has a new one."""
        return ImageStore(self._kept, limits=self._limits)

    @contextmanager
    def _entered(self, how: int) -> Iterator[None]:
        """Hold the folder's lock, shared to keep images (`LOCK_SH`) or alone to remove one."""
        with self._turnstile.open("a") as file:
            fcntl.flock(file, how)
            yield

    def _examine(self, data: bytes, where: str) -> Facts:
        sha256 = hash_bytes(data)
        with self._lock:
            facts = self._facts.get(sha256)
        if facts is None:
            facts = inspect(data, self._limits, where, sha256)
        with self._lock:
            self._facts[sha256] = facts
            self._facts.move_to_end(sha256)
            if len(self._facts) > FACTS_KEPT:
                self._facts.popitem(last=False)
        return facts


def _claim(sha256: str, byte_count: int) -> str:
    return f"{sha256}-{byte_count}"


def remove_stale(folders: Iterable[Path]) -> None:
    """Remove those of these folders that processes which were killed have left behind."""
    oldest = time.time() - STALE_SECONDS
    for folder in folders:
        # Another process may have removed it meanwhile.
        with suppress(FileNotFoundError):
            if folder.stat().st_mtime < oldest:
                shutil.rmtree(folder, ignore_errors=True)
