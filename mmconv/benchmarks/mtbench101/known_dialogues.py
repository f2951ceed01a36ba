"""Which dialogues and turns the authors' file has: their ids, and how long each is.

Published judgements are held against it, whose files name a dialogue and a turn by numbers only.
Nothing is read or scored here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate

TURNS = {
    "GR": "34333333333333333333333333333333333434333333343433333433333333233243333",
    "IC": (
        "32333333332323222222222343334433333223222232233333323433333322243323222324333343"
        "3423333233333433443343333333333333322333333333333333333333323232333333"
    ),
    "AR": (
        "44444434443453344433344434445444434444343454333444333544534444444444444334343443"
        "3433444444445344334434533433343333335434333343534444444444333333343333433"
    ),
    "FR": "22333333333333333333333333222323222223222222223223333332323333233333333323",
    "MR": (
        "22232222222222222222222222222222222222222222222222323222222232232222222223222222"
        "2222222222222222232222222232"
    ),
    "CC": (
        "22222222222222222222222223222222223323342422324322232222323222332324444242233222"
        "2222222222322222322222222222223224222223322322222263332242323422624"
    ),
    "TS": "3" * 83,
    "CR": (
        "32332233332332333333323233332232333333223333333333323333332333333333323332333333"
        "33333333333333333332333333333333333333323333333333323333"
    ),
    "SA": "2" * 73,
    "SI": (
        "22553555555555555555555555555555552555555545545555555555555555553554533555554555"
        "555553354255353443554337232332433244422333222332222332444555244444443"
    ),
    "CM": "44444444444444444444424444444444455444444444444444444444444444434444444444444444",
    "PI": (
        "455534444444446434456444564433457744334454444454563333345433344543333344434444445445434"
    ),
    "SC": "2" * 77,
}
"""Task -> a digit per dialogue of mtbench101.jsonl, in its order: its turns, history included."""

FIRST_IDS = dict(zip(TURNS, accumulate(map(len, TURNS.values()), initial=1), strict=False))
"""Task -> the id of its first dialogue; ids run on from 1 to 1388 through the tasks as above."""


def known_dialogues(task: str, ids: Iterable[str]) -> Mapping[str, int]:
    """Those of the ids that the authors' file has in the task, each with its number of turns.

    A file may count the dialogues of each task anew from 1: by either count, whichever knows more.
    """
    given = [*ids]
    counts = (_lengths(task, FIRST_IDS[task]), _lengths(task, 1))
    found = [{each: turns[each] for each in given if each in turns} for turns in counts]
    return max(found, key=len)


def _lengths(task: str, first: int) -> dict[str, int]:
    """Id -> number of turns, where the task's first dialogue has this id."""
    return {str(number): int(turns) for number, turns in enumerate(TURNS[task], start=first)}
