"""A database of the test's own, in SQLite and in a real PostgreSQL, and one without room."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, event

from mmconv.store import Store
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


def migrate(connection: Connection, version: str) -> None:
    """Bring a database to a version of the store, as an earlier mmconv left it."""
    config = Config()
    config.set_main_option("script_location", "mmconv.store:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, version)


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
