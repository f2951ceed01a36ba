"""Addresses of databases without their passwords, and with them again."""

from __future__ import annotations

import pytest

from mmconv.store.address import with_password, without_password

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


@pytest.mark.parametrize(
    "known", ["", "postgresql+psycopg://ann:x@db/other", "postgresql+psycopg://bob:x@db/mm"]
)
def test_the_password_of_another_database_is_not_taken(known: str) -> None:
    assert (
        with_password("postgresql+psycopg://ann@db/mm", known) == "postgresql+psycopg://ann@db/mm"
    )
