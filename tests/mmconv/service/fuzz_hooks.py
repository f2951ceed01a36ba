"""What Schemathesis is told beyond the document: names that this server knows.

Random names of models and datasets would lead to 404 and no further. Only valid names are
replaced, so that what was made to be refused still is.
"""

import os
from collections.abc import Mapping
from typing import Any

import schemathesis

KNOWN: Mapping[str, Any] = {
    "model": "echo",
    "judge": "judge",
    "data": "shapes",
    "models": {"candidate": "echo", "judge": "judge"},
}


RUN = os.environ.get("MMCONV_FUZZ_RUN", "")


@schemathesis.hook
def map_path_parameters(_context: schemathesis.HookContext, parameters: Any) -> Any:
    """Name the run that is there, in three of four paths that name one."""
    if (
        not isinstance(parameters, dict)
        or "run" not in parameters
        or len(repr(parameters)) % 4 == 0
    ):
        return parameters
    return parameters | {"run": RUN}


@schemathesis.hook
def map_query(_context: schemathesis.HookContext, query: Any) -> Any:
    """Remove no run: the others lead to it. What is no valid `purge` is sent."""
    if isinstance(query, dict) and query.get("purge") in (True, "true"):
        return query | {"purge": False}
    return query


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
