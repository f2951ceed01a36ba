"""What clients are not told: places of this machine, and what only a command line can follow.

What is left out is logged, and clients get general words.
"""

from __future__ import annotations

import logging
import re

log = logging.getLogger(__name__)

_PLACE = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://"  # a URL
    r"|(?<![\w/])(?:~|\.{1,2})?/[\w.~-]"  # a path
    r"|\b[A-Za-z]:\\"
    r"|environment variable"
)

COMMANDS = (
    (r" \(--(?:judge|set) [^)]*\)", ""),
    (r"--(generate-only|skip-bad-records|allow-drafts)\b", r"options.\1"),
    (r" \(--conditions\)", " (conditions)"),
    (r"[:;] (?:run it without|leave out) --prompts", "; this server has prompts of its own"),
    (r" or raise the limit\b", ""),
    (r"give another template in the model's options\.chat_template, or (?=go without)", ""),
    (r"; give another template in the model's options\.chat_template", ""),
    (r": leave `system` out of the model's file, and in a run", "; in a run"),
    (r" \(it starts with b.{0,40}?\)(?=;)", ""),
)
"""What the engine says to whoever types a command -> what is said to a client."""


def presentable(message: str, instead: str) -> str:
    """The message, if it names no path, no URL and no variable of this machine; else `instead`.

    What only a command line can follow is left out of it.
    """
    if _PLACE.search(message):
        log.warning("told a client only %r: %s", instead, message)
        return instead
    return without_commands(message)


def without_commands(message: str) -> str:
    """The engine's message without what only a command line, or a programmer, can use."""
    for told, instead in COMMANDS:
        message = re.sub(told, instead, message)
    return re.sub(r"\boptions\.[a-z-]+", lambda found: found[0].replace("-", "_"), message)


def without_runs(message: str) -> str:
    """A message of a model, for who does not run a benchmark, without what only a run can set."""
    return re.sub(r"; in a run of \w+ set \S+", "", message)
