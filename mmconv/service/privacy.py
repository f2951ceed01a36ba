"""The filter of what clients are told: nothing that tells of this machine.

What is left out is logged, and clients get general words.
"""

from __future__ import annotations

import logging
import re

from mmconv.service.wording import without_commands

log = logging.getLogger(__name__)

_PLACE = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://"  # a URL
    r"|(?<![\w/])(?:~|\.{1,2})?/[\w.~-]"  # a path
    r"|\b[A-Za-z]:\\"
    r"|environment variable"
)


def presentable(message: str, instead: str) -> str:
    """The message, if it names no path, no URL and no variable of this machine; else `instead`.

    What only a command line can follow is left out of it.
    """
    if _PLACE.search(message):
        log.warning("told a client only %r: %s", instead, message)
        return instead
    return without_commands(message)
