"""Names of repeated samples: `14` is sample 14 in its first trial, `14#2` in its second.

A name that ends in # and a number is read as a trial's, whatever run it comes from. So a key that
ends like that itself has its trial behind it from the first one on: sample `issue#7` is named
`issue#7#1`. No two trials of a run share a name, and none can be taken for another sample's.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_NAMED = re.compile(r"(.*)#([1-9][0-9]{0,8})", re.DOTALL)


class Trial(NamedTuple):
    """A sample's key, as its benchmark has it, and the number of the trial, from 1."""

    key: str
    number: int


def name_trial(key: str, number: int = 1) -> str:
    """The name of a sample in one of its trials."""
    plain = number == 1 and not _NAMED.fullmatch(key)
    return key if plain else f"{key}#{number}"


def read_trial(name: str) -> Trial:
    """Whose name it is; the inverse of `name_trial`."""
    named = _NAMED.fullmatch(name) if "#" in name else None
    return Trial(named[1], int(named[2])) if named else Trial(name, 1)
