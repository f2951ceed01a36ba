"""What Schemathesis is told beyond the document: names that this server knows.

Random names of models and data sets would lead to 404 and no further. Only valid names are
replaced, so that what was made to be refused still is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import schemathesis

KNOWN: Mapping[str, Any] = {
    "model": "echo",
    "judge": "judge",
    "data": "shapes",
    "seats": {"candidate": "echo", "judge": "judge"},
}


@schemathesis.hook
def map_body(_context: schemathesis.HookContext, body: Any) -> Any:
    """Name what is there, in three of four bodies."""
    if not isinstance(body, dict) or len(repr(body)) % 4 == 0:
        return body
    return {name: _known(name, value) for name, value in body.items()}


def _known(name: str, value: Any) -> Any:
    known = KNOWN.get(name)
    if isinstance(known, str) and isinstance(value, str) and value:
        return known
    if isinstance(known, dict) and isinstance(value, dict) and 1 <= len(value) <= 16:
        return known if all(isinstance(each, str) for each in value.values()) else value
    return value
