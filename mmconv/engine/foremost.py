"""Which of several errors a run ends with."""

from __future__ import annotations

import traceback
from collections.abc import Iterable

from mmconv.core.errors import MmconvError

MOST_TOLD = 3
"""How many other errors are told in full."""


def foremost(errors: Iterable[Exception]) -> Exception:
    """The error to end with: a bug before bad input, else the first. Its notes tell of the others.

    Errors of one kind and text are one.
    """
    found = list({(type(error), str(error)): error for error in errors}.values())
    bugs = [error for error in found if not isinstance(error, MmconvError)]
    first = (bugs or found)[0]
    others = [error for error in found if error is not first]
    for other in others[:MOST_TOLD]:
        told = "".join(traceback.format_exception(other))
        first.add_note(f"At the same time another call ended by:\n{told}")
    if (more := len(others) - MOST_TOLD) > 0:
        first.add_note(f"So did {more} more, by other errors.")
    return first
