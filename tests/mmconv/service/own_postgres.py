"""A PostgreSQL of a test's own, which may be stopped and started again (`.ci/postgres.sh`)."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import pytest

SCRIPT = Path(__file__).parents[3] / ".ci" / "postgres.sh"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPostgres:
    """A running server: the URL that SQLAlchemy takes, and the folder of its data."""

    url: str
    data: Path
    binaries: Path

    def stop(self) -> None:
        """Stop it, and end whoever is connected."""
        self._control("stop", "-m", "fast")

    def start(self) -> None:
        """Start it again, at its old port."""
        settings = ("listen_addresses=127.0.0.1", "unix_socket_directories=''", "fsync=off")
        options = [f"-p {urlsplit(self.url).port}", *(f"-c {each}" for each in settings)]
        self._control("start", "-l", str(self.data.parent / "log"), "-o", " ".join(options))

    def _control(self, *arguments: str) -> None:
        # PostgreSQL refuses to run as root.
        owner = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        command = [str(self.binaries / "pg_ctl"), "-D", str(self.data), "-w", "-s", *arguments]
        subprocess.run([*owner, *command], cwd="/", check=True, timeout=300)


@contextmanager
def own_postgres() -> Iterator[OwnPostgres]:
    """Start one; skips where none is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("no PostgreSQL is installed (apt-get install postgresql)")
    with TemporaryDirectory(prefix="mmconv-postgres-") as scratch:
        # The server's own user must get at its data.
        Path(scratch).chmod(0o755)
        folder = Path(scratch) / "own"
        begun = [str(SCRIPT), "start", str(folder)]
        url = subprocess.run(begun, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        try:
            yield OwnPostgres(url=url, data=folder / "data", binaries=found[-1].parent)
        finally:
            subprocess.run([str(SCRIPT), "stop", str(folder)], check=True)
