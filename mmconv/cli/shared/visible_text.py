"""What models and data say, for a terminal: its control characters are shown and not obeyed.

Sent as they are, they could clear the screen, set its title or hide what follows, and in a pipe
click would take some of them out. All else stays as it is, so a backslash is no proof of one.
"""

from __future__ import annotations

_BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""The characters that change the direction of others."""

_CONTROLS = {code for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"}
_SHOWN = {code: rf"\x{code:02x}" for code in _CONTROLS}
_SHOWN |= {ord(sign): rf"\u{ord(sign):04x}" for sign in _BIDI}


def visible(text: str) -> str:
    r"""The text with its control characters as `\x1b` and the like, but for tabs and line ends."""
    return text.translate(_SHOWN)
