"""Tokens in a service's settings, and the header that shows one; the secret tells the name."""

import hashlib
from typing import Any


def token(name: str, *scopes: str, **limits: int) -> dict[str, Any]:
    """A token as settings list it."""
    digest = hashlib.sha256(f"secret-{name}".encode()).hexdigest()
    return {"name": name, "sha256": digest, "scopes": scopes, "limits": limits or None}


def bearer(name: str) -> dict[str, str]:
    """The header of a request by who has this token."""
    return {"Authorization": f"Bearer secret-{name}"}
