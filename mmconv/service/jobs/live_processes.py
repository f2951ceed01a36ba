"""Which server processes are alive, for those that share a folder.

Each process holds a lock on a file of its own as long as it lives; the system lets go of it however
the process ends. So a process that comes after one that was killed need not wait until the dead
one's leases have run out. Processes that share no folder learn nothing from each other here.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
from pathlib import Path


class ProcessMark:
    """This process's mark in a folder, from now until it is closed or the process ends.

    `name` is unique, and may stand in a database.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = f"{socket.gethostname()[:64]}-{os.getpid()}-{secrets.token_hex(4)}"
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / self.name).open("wb")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def is_gone(self, name: str) -> bool:
        """Whether the process of this name marked itself in the folder, and ended unexpectedly."""
        if name == self.name:
            return False
        try:
            with (self._folder / name).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            # It lives, or it never marked itself here: then only its leases tell.
            return False
        return True

    def forget(self, name: str) -> None:
        """Remove the mark that a process left behind."""
        (self._folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Remove this process's own mark. Safe to call twice."""
        self.forget(self.name)
        self._file.close()
