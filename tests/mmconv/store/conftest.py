"""A database of the test's own, in SQLite and in a real PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

from tests.real.servers import postgres_url

__all__ = ["postgres_url"]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.real)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database."""
    if request.param == "sqlite":
        return str(tmp_path / "store.sqlite")
    return str(request.getfixturevalue("postgres_url"))


def migrate(connection: Connection, version: str) -> None:
    """Bring a database to a version of the store, as an earlier mmconv left it."""
    config = Config()
    config.set_main_option("script_location", "mmconv.store:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, version)
