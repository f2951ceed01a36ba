"""Why scores are missing, in words: what stands below tables and in hints.

The data (`scores.jsonl`, tables as CSV and JSON) keep the reasons as they are, which
`mmconv.core.types` gives; what is no reason of those, such as a benchmark's own, is told as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from mmconv.core.types import SAME_TEXT, UNASKED, UNPAIRED, UNPARSED

_RunAndWords: TypeAlias = tuple[str, str]

_WORDS: tuple[tuple[str, str], ...] = (
    (UNPARSED, "with an unreadable verdict"),
    ("failed: filter", "held back by a content filter"),
    (r"failed: (.+)", r"failed (\1)"),
    (f"skipped: {UNASKED}", UNASKED),
    (f"skipped: {SAME_TEXT}", "of the same text"),
    (r"skipped: turn_(\d+)", r"without an answer in turn \1"),
    (r"skipped: \w+/turn_(\d+)", r"without a verdict on turn \1"),
    (r"skipped: (.+)", r"without \1"),
    (r"no answer: (.+)", r"without an answer (\1)"),
    (r"no score (.+)", r"without a score \1"),
    (r"only on the (?:left|right)", "in one of the two only"),
)
"""What a reason is like, and how it is told after a count."""

_OF_A_RUN = re.compile(rf"(.+): ((?:{'|'.join(pattern for pattern, _ in _WORDS)}))")


def in_words(reason: str) -> _RunAndWords:
    """Whose reason it is, in a comparison of runs, else an empty text; and the reason in words."""
    bare = reason.removeprefix(UNPAIRED)
    told = _known_words(bare)
    if told is None and (of_a_run := _OF_A_RUN.fullmatch(bare)):
        return of_a_run[1], _known_words(of_a_run[2]) or of_a_run[2]
    return "", told or bare


def tell_reasons(missing: Mapping[str, int]) -> str:
    """How many are missing for which reason, the most frequent first; empty if none is.

    Reasons with the same words are added up.
    """
    return _listed(_worded(missing).most_common()) if missing else ""


def tell_largest(cells: Iterable[Mapping[str, int]], most: int) -> str:
    """The most frequent reasons of many cells, each with how many it takes from one cell at most.

    What several cells lack may be the same samples, so that their counts have no sum.
    """
    largest: Counter[_RunAndWords] = Counter()
    for cell in filter(None, cells):
        largest |= _worded(cell)
    listed = _listed(largest.most_common(most))
    others = len(largest) - most
    if others <= 0:
        return listed
    return f"{listed}; fewer for {others} other reason{'s' if others > 1 else ''}"


def _worded(missing: Mapping[str, int]) -> Counter[_RunAndWords]:
    counts: Counter[_RunAndWords] = Counter()
    for reason, count in missing.items():
        counts[in_words(reason)] += count
    return +counts


def _listed(counts: Sequence[tuple[_RunAndWords, int]]) -> str:
    """Counts with their words; those of one run stand together behind its label."""
    by_run: dict[str, list[str]] = {}
    for (run, words), count in counts:
        by_run.setdefault(run, []).append(f"{count} {words}")
    return "; ".join(
        f"in {run}: {', '.join(told)}" if run else ", ".join(told) for run, told in by_run.items()
    )


def _known_words(reason: str) -> str | None:
    """One of the reasons that `mmconv.core.types` gives, in words; None for any other."""
    for pattern, words in _WORDS:
        if match := re.fullmatch(pattern, reason):
            return match.expand(words)
    return None
