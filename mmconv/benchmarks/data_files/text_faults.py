"""Text files that are not what they should be: not in UTF-8, not separated as their name says.

What is wrong is told with its place and its remedy. Nothing is read as something else.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from pathlib import Path

from mmconv.core.errors import DataError

SAVE_AS_UTF8 = "Save the file as UTF-8"
"""The remedy for text in another encoding."""

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
"""What may stand between cells, and what it is called."""

UTF_16 = "UTF-16, not UTF-8"
"""What is told of a file in UTF-16, of which no line can be read."""

_BEYOND_ASCII = re.compile(rb"[\x80-\xff]+")
_GB2312 = re.compile(rb"(?:[\xa1-\xf7][\xa1-\xfe])+")
"""The common characters of GB18030, all in pairs of bytes; accented letters mostly stand alone."""


def not_utf8(line: bytes) -> str | None:
    """Where a line ceases to be UTF-8, and what its author may have meant; None if it is UTF-8."""
    if line.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return UTF_16
    line = line.removeprefix(BOM_UTF8)
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = line[error.start : error.start + 1]
        place = len(line[: error.start].decode("utf-8")) + 1
        letter = byte.decode("cp1252", "ignore")
        meant = f", which is {letter!r} in Windows-1252" if letter else ""
        if all(_GB2312.fullmatch(each) for each in _BEYOND_ASCII.findall(line)):
            meant = "; the line can be read as GB18030"
        return f"not UTF-8: character {place} of the line is the byte 0x{byte.hex()}{meant}"
    return None


def encoding_error(path: Path) -> DataError | None:
    """The error for the first line of a file that is not UTF-8; None if all lines are."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if fault := not_utf8(line):
                table = path.suffix.lower() == ".csv"
                called = " (a spreadsheet program calls that CSV UTF-8)" if table else ""
                advice = f"{SAVE_AS_UTF8}{called}."
                return DataError(f"{path.name} line {number}", [fault], advice)
    return None


def separator_error(path: Path, separator: str) -> DataError | None:
    """The error for a table whose first line has another separator more often, or None."""
    with path.open("rb") as file:
        header = file.readline()
    wanted = SEPARATORS[separator]
    for mark, name in SEPARATORS.items():
        if header.count(mark.encode()) > header.count(separator.encode()):
            fault = f"its cells are separated by {name}, not by {wanted}"
            return DataError(str(path), [fault], f"Save it with {wanted}, or as .xlsx.")
    return None
