"""Claims: the calls that processes which share a store are requesting at this moment.

A process claims a call before it requests it, so that no other process pays for it too. A claim has
a lease, which its process renews. If the process dies, the lease expires, or a process on the same
machine notices.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, bindparam, delete, select, update

from mmconv.store.rows import dialect_insert
from mmconv.store.schema import claims, now_of

LEASE_SECONDS = 60.0
"""How long a claim is valid without being renewed."""


# built once, as `_taking` is: building a statement takes as long as running it
_RELEASING = delete(claims).where(
    claims.c.key.in_(bindparam("keys", expanding=True)), claims.c.owner == bindparam("by")
)


class Claims:
    """The claims of one store object; the methods run in a transaction of the caller."""

    def __init__(self) -> None:
        self._place = _find_place()
        self._owner = f"{self._place}/{os.getpid()}/{secrets.token_hex(4)}"

    def take(self, connection: Connection, keys: Iterable[str]) -> set[str]:
        """Claim the keys without a valid claim of another process; returns the claimed ones."""
        expires = now_of(connection).timestamp() + LEASE_SECONDS
        # sorted, so that two processes never wait for each other's rows
        rows = [{"key": key, "owner": self._owner, "expires": expires} for key in sorted({*keys})]
        return set(connection.scalars(_taking(connection.dialect.name), rows))

    def release(self, connection: Connection, keys: Collection[str]) -> None:
        """Give back this process's claims to these keys."""
        connection.execute(_RELEASING, {"keys": [*keys], "by": self._owner})

    def release_all(self, connection: Connection) -> None:
        """Give all claims of this process back."""
        connection.execute(delete(claims).where(claims.c.owner == self._owner))

    def renew(self, connection: Connection) -> None:
        """Renew the leases of this process."""
        expires = now_of(connection).timestamp() + LEASE_SECONDS
        connection.execute(
            update(claims).where(claims.c.owner == self._owner).values(expires=expires)
        )

    def find_others(self, connection: Connection, keys: Sequence[str]) -> set[str]:
        """The keys with valid claims of other processes."""
        now = now_of(connection).timestamp()
        valid = select(claims.c.key, claims.c.owner).where(
            claims.c.key.in_(keys), claims.c.owner != self._owner, claims.c.expires >= now
        )
        owners = {row.key: row.owner for row in connection.execute(valid)}
        gone = {owner for owner in {*owners.values()} if self._is_gone(owner)}
        if gone:
            connection.execute(delete(claims).where(claims.c.owner.in_(gone)))
        return {key for key, owner in owners.items() if owner not in gone}

    def _is_gone(self, owner: str) -> bool:
        """Whether the owner is a process of this machine that has ended."""
        place, process, _ = owner.split("/")
        if place != self._place:
            return False
        try:
            os.kill(int(process), 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass
        return False


@cache
def _taking(dialect_name: str) -> Any:
    """Inserts claims, in place of own and expired ones, and returns the keys."""
    insert = dialect_insert(dialect_name, claims)
    new = insert.excluded
    return insert.on_conflict_do_update(
        index_elements=[claims.c.key],
        set_={"owner": new.owner, "expires": new.expires},
        where=(claims.c.expires < new.expires - LEASE_SECONDS) | (claims.c.owner == new.owner),
    ).returning(claims.c.key)


def _find_place() -> str:
    """The machine, and the process namespace of its container."""
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return f"{socket.gethostname()[:64]} {namespace}".replace("/", "-")
