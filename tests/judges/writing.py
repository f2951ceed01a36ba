"""Prompt files written from messages: the format's escapes, stated a second time for the tests."""

from __future__ import annotations

import re
from collections.abc import Iterable

from judges.template import Gap, Template

HEADING = re.compile(r"\\*#[ \t]*(system|user|assistant)[ \t\r]*", re.IGNORECASE)
WORD = r"[ \t]*[A-Za-z][A-Za-z0-9_]*[ \t]*"
SLOT = re.compile(rf"(\\*)(\{{\{{{WORD}(?:\|{WORD})?\}}\}})")


def write_prompt(messages: Iterable[Template]) -> str:
    """The text of a prompt file that is read as these messages."""
    return "".join(f"# {message.role}\n{_body(message)}\n" for message in messages)


def _body(message: Template) -> str:
    body = pending = ""
    for part in message.parts:
        if isinstance(part, Gap):
            backslashes = len(pending) - len(pending.rstrip("\\"))
            encoding = f"|{part.encoding}" if part.encoding else ""
            body += _escaped(pending) + "\\" * backslashes + f"{{{{{part.name}{encoding}}}}}"
            pending = ""
        else:
            pending += part.text
    lines = (body + _escaped(pending)).split("\n")
    return "\n".join("\\" + line if HEADING.fullmatch(line) else line for line in lines)


def _escaped(text: str) -> str:
    return SLOT.sub(r"\1\1\\\2", text)
