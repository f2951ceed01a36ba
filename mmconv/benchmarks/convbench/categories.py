"""ConvBench's task categories, as the paper's Appendix B prints them: `categories.txt`.

The spelling is the authors', slips included, because the names are matched against their data: of
"Weather Recogntion" and "Weather Recognition" both are categories. The paper counts 71 + 65 + 79 =
215 tasks. Its figure prints 71 + 64 + 79 names, "Physical Knowledge Reasoning" twice, so 213 are in
the file. Rows may have other categories: nothing is validated against this list.
"""

from __future__ import annotations

import re
from importlib import resources

_FILE = resources.files(__package__) / "categories.txt"

LISTS = {
    turn: tuple(names.splitlines())
    for turn, names in enumerate(_FILE.read_text(encoding="utf-8").split("\n\n"), start=1)
}
"""Turn -> its categories: perception, reasoning, creation."""

_ENDS = re.compile(r"^[\W_]+|[\W_]+$")


def folded(name: str) -> str:
    """A category without decoration and capitals, as names are compared."""
    return " ".join(_ENDS.sub("", name).replace("’", "'").casefold().split())


_SPELT = {turn: {folded(name): name for name in names} for turn, names in LISTS.items()}


def as_listed(turn: int, name: str) -> str | None:
    """How the list of a turn spells a category, None where it is not there."""
    return _SPELT[turn].get(folded(name))
