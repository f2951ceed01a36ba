"""The index of the sample browser: what it filters, sorts and lists by, for all samples at once.

A sample's texts are not in it; they stand in blocks (`mmconv.report.page.blocks`). A score is a
number, or the reason why there is none, or null where the run has no such score; `reasons` has the
words for each reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from mmconv.report.page.dialogues import Record
from mmconv.report.reasons import in_words

Key: TypeAlias = tuple[int, str, str, int | None]
"""Of which run, under which condition, which metric, of which turn a score is."""

HIDDEN_TAGS = frozenset({"cluster", "side", "model", "reading", "order"})
"""Tags that tell scores of one sample apart, and not samples."""

SNIPPET = 110
"""Characters of a sample's first question that the list shows."""


@dataclass(slots=True)
class Index:
    """Takes samples in, and is a document for the page at the end.

    `marks` maps a sample to what an analysis says of it, for instance which level an error comes
    from.
    """

    marks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    _keys: dict[Key, int] = field(default_factory=dict)
    _facets: dict[str, dict[tuple[int | None, str], int]] = field(default_factory=dict)
    _marks: dict[str, int] = field(default_factory=dict)
    _reasons: dict[str, str] = field(default_factory=dict)
    _samples: list[Record] = field(default_factory=list)

    def add(self, sample: str, scores: Sequence[Sequence[Record]], shown: Record) -> None:
        """Take in a sample: its scores in each run, and what the page shows of it."""
        values: dict[int, list[float]] = {}
        reasons: dict[int, str] = {}
        tags: dict[str, set[int]] = {}
        for run, held in enumerate(scores):
            for score in held:
                key = run, score["condition"], score["metric"], score["turn"]
                place = self._keys.setdefault(key, len(self._keys))
                if score["value"] is None:
                    reasons[place] = score["why"]
                    _, self._reasons[score["why"]] = in_words(score["why"])
                else:
                    values.setdefault(place, []).append(score["value"])
                self._note_tags(score, tags)
        entry: Record = {"i": sample, "t": _snippet(shown), "f": tags}
        entry["s"] = {at: round(sum(each) / len(each), 4) for at, each in values.items()}
        entry["s"] |= {at: why for at, why in reasons.items() if at not in values}
        if shown["pictures"]:
            entry["p"] = shown["pictures"][0]
        if sample in self.marks:
            names = self.marks[sample]
            entry["m"] = [self._marks.setdefault(name, len(self._marks)) for name in names]
        self._samples.append(entry)

    def document(self) -> Record:
        """The whole index, ready for JSON."""
        facets = {name: self._facet(name) for name in self._facets if self._tells_apart(name)}
        return {
            "columns": [list(key) for key in self._keys],
            "facets": [
                {"name": name, "turned": turned, "values": values}
                for name, (turned, values, _) in facets.items()
            ],
            "marks": list(self._marks),
            "reasons": self._reasons,
            "samples": [
                self._compact(entry, {name: ids for name, (_, _, ids) in facets.items()})
                for entry in self._samples
            ],
        }

    def _note_tags(self, score: Record, tags: dict[str, set[int]]) -> None:
        for tag in score["tags"]:
            name, value = tag["name"], tag["value"]
            if name in HIDDEN_TAGS:
                continue
            if value == "1" and " " in name:
                # a tag that only says yes is a value of the facet that its first word names
                name, _, value = name.partition(" ")
            ids = self._facets.setdefault(name, {})
            tags.setdefault(name, set()).add(ids.setdefault((score["turn"], value), len(ids)))

    def _tells_apart(self, name: str) -> bool:
        """Whether a facet divides the samples, and into fewer parts than there are samples."""
        held = Counter(id_ for entry in self._samples for id_ in entry["f"].get(name, ()))
        values = {value for _, value in self._facets[name]}
        divides = any(count < len(self._samples) for count in held.values())
        return divides and len(values) < max(len(self._samples), 3)

    def _facet(self, name: str) -> tuple[bool, list[list[Any]], list[int]]:
        """Whether its values belong to turns, the values, and the place of each id among them.

        They do where turns have values of their own, and not where they share them.
        """
        ids = self._facets[name]
        several = any(len(entry["f"].get(name, ())) > 1 for entry in self._samples)
        turned = several and len(ids) < 1.5 * len({value for _, value in ids})
        places: dict[tuple[int | None, str], int] = {}
        renumbered = [
            places.setdefault((turn if turned else None, value), len(places)) for turn, value in ids
        ]
        return turned, [list(value) for value in places], renumbered

    def _compact(self, entry: Record, facets: Mapping[str, Sequence[int]]) -> Record:
        scores: list[Any] = [None] * len(self._keys)
        for place, value in entry["s"].items():
            scores[place] = value
        held = [
            sorted({ids[id_] for id_ in entry["f"].get(name, ())}) for name, ids in facets.items()
        ]
        return entry | {"s": scores, "f": held}


def _snippet(shown: Record) -> str:
    """The first thing that a user says, in one line."""
    asked = (
        message["text"]
        for column in shown["columns"]
        for turn in column["turns"]
        for message in turn["asked"]
        if message["role"] != "system" and message["text"]
    )
    text = " ".join(next(asked, "").split())
    return text if len(text) <= SNIPPET else f"{text[: SNIPPET - 1]}…"
