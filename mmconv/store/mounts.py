"""Whether a file lies on a network file system, where SQLite's write-ahead log does not work.

The log's index is memory that all processes share, which those of other machines cannot. Linux
alone tells what is mounted where; elsewhere every file system counts as the machine's own.
"""

from __future__ import annotations

import re
from pathlib import Path

MOUNTS = Path("/proc/mounts")
"""The kernel's list: a device, a folder and a kind of file system in each line."""

NETWORK = frozenset(
    {"afs", "beegfs", "ceph", "cifs", "gpfs", "lustre", "nfs", "nfs4", "panfs", "smb3", "wekafs"}
    | {"fuse.ceph", "fuse.glusterfs", "fuse.juicefs", "fuse.sshfs"}
)
"""Kinds of file systems that processes of several machines may have mounted."""


def is_on_network(path: Path) -> bool:
    """Whether the file, or the folder that it is to be in, lies on one of the `NETWORK` kinds."""
    place = path.resolve()
    kind, depth = "", -1
    for folder, named in _mounted():
        # What is mounted later over the same folder hides what was there.
        if len(folder.parts) >= depth and place.is_relative_to(folder):
            kind, depth = named, len(folder.parts)
    return kind in NETWORK


def _mounted() -> list[tuple[Path, str]]:
    try:
        lines = MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
    fields = [line.split(" ") for line in lines]
    return [(Path(_plain(each[1])), each[2]) for each in fields if len(each) > 2]


def _plain(name: str) -> str:
    """A folder's name, in which the list writes blanks and the like as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), name)
