"""A database's address as it may be written down: without its password, and with it again.

A path of an SQLite file is an address too, and has none.
"""

from __future__ import annotations

from sqlalchemy import URL

from mmconv.store.schema import SECRETS, read_address


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
