"""The PostgreSQL that `.ci/run` starts: it is there, and every test has a database of its own."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, text

pytestmark = pytest.mark.real


@pytest.mark.parametrize("attempt", [1, 2])
def test_each_test_has_an_empty_database(postgres_url: str, attempt: int) -> None:
    engine = create_engine(postgres_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE only_here (attempt integer)"))
        connection.execute(text("INSERT INTO only_here VALUES (:attempt)"), {"attempt": attempt})
        assert connection.execute(text("SELECT attempt FROM only_here")).scalar_one() == attempt
    engine.dispose()
