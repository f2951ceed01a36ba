"""A database's address as it may be written down: without its password, and with it again.

A path of an SQLite file is an address too, and has none.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL

from mmconv.core.errors import StoreError
from mmconv.store.connections import read_address
from mmconv.store.schema import SECRETS


def require_folder(address: str, named: str, made: Path | None = None) -> None:
    """Raise `StoreError` for an SQLite file in a folder that is not there, and for no address.

    `named` is how the message names the store; the folder `made` will be there in time.
    """
    url = read_address(address)
    if url.get_backend_name() != "sqlite" or not url.database:
        return
    folder = Path(url.database).parent
    if not folder.is_dir() and (made is None or folder.absolute() != made.absolute()):
        raise StoreError(f"{named}: there is no folder {folder}; make it first")


def has_password(address: str) -> bool:
    """Whether the address holds what may not be written down; raises `StoreError` for none."""
    if "://" not in address:
        return False
    whole = read_address(address).render_as_string(hide_password=False)
    return without_password(address) != whole


def without_password(address: str) -> str:
    """The address as it may be written to a file or shown; raises `StoreError` for none."""
    if "://" not in address:
        return address
    url = read_address(address)
    bare = URL.create(
        url.drivername,
        username=url.username,
        host=url.host,
        port=url.port,
        database=url.database,
        query=url.query,
    )
    return bare.difference_update_query(SECRETS).render_as_string()


def with_password(address: str, known: str) -> str:
    """`known` if it names the same database as this address, else the address as it is.

    Then PostgreSQL's own ways may have the password: PGPASSWORD, or a password file.
    """
    return known if known and without_password(known) == without_password(address) else address
