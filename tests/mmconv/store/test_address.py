"""Addresses of databases without their passwords, and with them again."""

from pathlib import Path

import pytest

from mmconv.core.errors import StoreError
from mmconv.store.connections import has_password, require_folder, with_password, without_password

SECRET = "s3cr%40t"


@pytest.mark.parametrize(
    ("address", "bare"),
    [
        ("runs/store.sqlite", "runs/store.sqlite"),
        ("sqlite:////data/store.sqlite", "sqlite:////data/store.sqlite"),
        ("postgresql+psycopg://ann@db/mm", "postgresql+psycopg://ann@db/mm"),
        (f"postgresql+psycopg://ann:{SECRET}@db:5/mm", "postgresql+psycopg://ann@db:5/mm"),
        (
            f"postgresql+psycopg://db/mm?user=ann&password={SECRET}&sslmode=require",
            "postgresql+psycopg://db/mm?sslmode=require&user=ann",
        ),
        (f"postgresql+psycopg://db/mm?sslpassword={SECRET}", "postgresql+psycopg://db/mm"),
    ],
)
def test_an_address_is_written_without_its_password(address: str, bare: str) -> None:
    assert without_password(address) == bare
    assert with_password(bare, address) == address
    assert without_password(bare) == bare
    assert has_password(address) == (address != bare)
    assert not has_password(bare)


def test_an_address_that_is_only_written_otherwise_has_no_password() -> None:
    assert not has_password("postgres://ann@db/mm?b=1&a=2")


@pytest.mark.parametrize("address", ["gone/s.sqlite", "sqlite:///gone/s.sqlite"])
def test_a_folder_must_be_there_unless_it_will_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match=r"^this: folder gone does not exist; create it first$"):
        require_folder(address, "this", tmp_path / "other")
    require_folder(address, "this", tmp_path / "gone")
    (tmp_path / "gone").mkdir()
    require_folder(address, "this")


@pytest.mark.parametrize("address", ["", "s.sqlite", "sqlite://", "postgresql://ann@db/gone/s"])
def test_what_lies_here_or_in_no_folder_needs_none(address: str) -> None:
    require_folder(address, "this")


@pytest.mark.parametrize(
    "known", ["", "postgresql+psycopg://ann:x@db/other", "postgresql+psycopg://bob:x@db/mm"]
)
def test_the_password_of_another_database_is_not_taken(known: str) -> None:
    assert (
        with_password("postgresql+psycopg://ann@db/mm", known) == "postgresql+psycopg://ann@db/mm"
    )
