"""A database of the test's own, in SQLite and in a real PostgreSQL, and one without room."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event

from mmconv.store import Store
from mmconv.store.connections import connect, read_address
from mmconv.store.queue import Queue
from tests.real.servers import postgres_url

__all__ = ["postgres_url"]

PAGES = 60
"""Of 4096 bytes: what a small disk has room for."""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.real)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database."""
    if request.param == "sqlite":
        return str(tmp_path / "store.sqlite")
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A store of the test's own, in SQLite."""
    opened = Store(str(tmp_path / "store.sqlite"))
    yield opened
    await opened.aclose()


@pytest.fixture
async def queue(url: str) -> AsyncIterator[Queue]:
    opened = Queue(url)
    yield opened
    await opened.aclose()


def key(number: int) -> str:
    """The key of a reply."""
    return f"{number:064x}"


def create_older_store(url: str) -> None:
    """A database as version 0003 left it, with one reply and one job."""
    connect(url).dispose()
    engine = create_engine(read_address(url))
    with engine.begin() as connection:
        for statement in (
            "ALTER TABLE replies DROP COLUMN answered_by",
            "ALTER TABLE replies DROP COLUMN cached_tokens",
            "ALTER TABLE replies DROP COLUMN batched",
            "ALTER TABLE replies DROP COLUMN checksum",
            "DROP TABLE batched_requests",
            "DROP TABLE claims",
            "DROP INDEX ix_jobs_listed",
            "UPDATE alembic_version SET version_num = '0003'",
            "INSERT INTO replies (key, fingerprint, text, finish, seconds, dropped, created) "
            f"VALUES ('{key(1)}', 'model', 'yes', 'stop', 0, 0, '2026-01-01 00:00:00')",
            "INSERT INTO jobs (id, kind, owner, spec, state, stopping, starts, progress, lost, "
            "created, queued, updated) VALUES ('run', 'run', 'ann', "
            """'{"data":"x","seats":{"candidate":"m"}}', 'failed', false, 1, """
            """'{"asked":3,"stored":4}', 0, """
            "'2026-01-01 00:00:00', '2026-01-01 00:00:00', '2026-01-01 00:00:00')",
        ):
            connection.exec_driver_sql(statement)
    engine.dispose()


@contextmanager
def small_disk() -> Iterator[None]:
    """SQLite finds its disk full once a database that is opened meanwhile has `PAGES`."""

    def bound(connection: Any, _record: object) -> None:
        connection.execute(f"PRAGMA max_page_count={PAGES}")

    event.listen(Engine, "connect", bound)
    try:
        yield
    finally:
        event.remove(Engine, "connect", bound)
