"""Addresses of databases that cannot be opened: told in a sentence, and without a password."""

from typing import Any

import psycopg
import pytest

from mmconv.core.errors import StoreError
from mmconv.store import Store
from mmconv.store.connections import read_address

SECRET = "s3cret"


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("foo://x", "foo is not supported: use an SQLite file or a PostgreSQL database"),
        (
            f"mysql://ann:{SECRET}@db/mm",
            "mysql is not supported: use an SQLite file or a PostgreSQL database",
        ),
        (
            f"postgresql://ann:{SECRET}@db:port/mm",
            r"'postgresql://\*\*\*@db:port/mm' is not a database's address: write postgresql://",
        ),
        ("://", "is not a database's address"),
        (
            f"postgresql+psycopg2://ann:{SECRET}@db/mm",
            r"postgresql\+psycopg2://ann:\*\*\*@db/mm needs psycopg2, .* 'mmconv\[postgres\]'",
        ),
        (f"postgresql://ann:{SECRET}@127.0.0.1:1/mm", "cannot open .*: connection failed"),
        (
            f"postgres://127.0.0.1:1/mm?user=ann&password={SECRET}",
            r"cannot open the store postgresql\+psycopg://127.0.0.1:1/mm\?user=ann: connection",
        ),
        ("sqlite:///x.db?timeout=long", "cannot open the store .*: could not convert"),
        ("sqlite://host/x.db", "cannot open the store .*: Invalid SQLite URL"),
    ],
)
def test_an_address_that_cannot_be_opened_is_refused(address: str, message: str) -> None:
    with pytest.raises(StoreError, match=message) as refused:
        Store(address)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_postgresql_is_spoken_to_through_the_driver_that_is_installed_with_it(scheme: str) -> None:
    url = read_address(f"{scheme}://ann@db/mm")
    assert url.render_as_string() == "postgresql+psycopg://ann@db/mm"


def test_a_path_is_a_path_whatever_signs_it_holds() -> None:
    assert read_address("runs/a?b#c.sqlite").database == "runs/a?b#c.sqlite"


def test_a_server_that_is_silent_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def note(*_: object, **named: Any) -> None:
        given.update(named)
        raise psycopg.OperationalError("no server")

    monkeypatch.setattr(psycopg, "connect", note)
    with pytest.raises(StoreError, match="no server"):
        Store("postgresql://ann@db/mm?connect_timeout=60")
    assert given["connect_timeout"] == "60"
    assert given["tcp_user_timeout"] == 10_000
    assert given["keepalives_idle"] == 10
