"""The samples of a page: each as it is shown, and the index that the list filters and sorts by.

A sample's texts are not in the index; they are in blocks (`mmconv.report.page.blocks`). A score
is a number, or the reason why it is missing, or null if the run has no such score.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple, TypeAlias

from mmconv.benchmarks.shared.endings import METRICS as ENDINGS
from mmconv.benchmarks.shared.options import Display
from mmconv.core.plans import read_trial
from mmconv.report.data_quality import Shortfall, tell_notable
from mmconv.report.page.content import About, Content, Section
from mmconv.report.page.dialogues import Reader, Record, aligned, dialogue
from mmconv.report.page.losses import Losses
from mmconv.report.page.sections import detail_sections
from mmconv.report.tables.cells import in_words

Group: TypeAlias = tuple[int, str, str, int | None]
"""Of which run, under which condition, which metric, of which turn a score is."""


class _Key(NamedTuple):
    """A score's group, its tags, and which it is of those of a sample in which both are equal."""

    group: Group
    tags: frozenset[tuple[str, str]]
    number: int


HIDDEN_TAGS = frozenset({"cluster", "side", "model", "reading", "order"})
"""Tags that distinguish scores of one sample, and not samples."""

TRIAL = "trial"
"""The facet by which one of several trials is chosen."""

OWN = "the run's own"
"""What stands for the label of a run among others."""

SNIPPET = 110
"""Characters of a sample's first question that the list shows."""


@dataclass(slots=True)
class Index:
    """Takes samples in, and is a document for the page at the end.

    `marks` maps a sample to what an analysis says of it, for instance which level an error comes
    from; `lists` are tags of several values, with what stands between these; `linked` are tags to
    whose values, each under its turn, the page has links; `labels` are the runs' own, where several
    are compared: of each run the scores of what it is a run of are one column.
    """

    marks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lists: Mapping[str, str] = field(default_factory=dict)
    linked: frozenset[str] = frozenset()
    labels: Sequence[str] = ()
    _keys: dict[_Key, int] = field(default_factory=dict)
    _apart: dict[str, dict[str, None]] = field(default_factory=dict)
    _facets: dict[str, dict[tuple[int | None, str], int]] = field(default_factory=dict)
    _marks: dict[str, int] = field(default_factory=dict)
    _reasons: dict[str, str] = field(default_factory=dict)
    _samples: list[Record] = field(default_factory=list)

    def add(self, sample: str, scores: Sequence[Sequence[Record]], shown: Record) -> None:
        """Take in a sample: its scores in each run, and what the page shows of it."""
        held: dict[int, float | str] = {}
        tags: dict[str, set[int]] = {}
        keys: dict[_Key, None] = {}
        for run, of_run in enumerate(scores):
            for score in of_run:
                key = _key(run, score, keys)
                keys[key] = None
                place = self._keys.setdefault(key, len(self._keys))
                if score["value"] is None:
                    held[place] = score["why"]
                    _, self._reasons[score["why"]] = in_words(score["why"])
                else:
                    held[place] = round(score["value"], 4)
                self._note_tags(score, tags)
        trials = self._facets.setdefault(TRIAL, {})
        name = f"{TRIAL} {read_trial(sample).number}"
        tags.setdefault(TRIAL, set()).add(trials.setdefault((None, name), len(trials)))
        self._tell_apart(keys)
        entry: Record = {"i": sample, "t": _snippet(shown), "f": tags, "s": held}
        if shown["pictures"]:
            entry["p"] = shown["pictures"][0]
        if sample in self.marks:
            names = self.marks[sample]
            entry["m"] = [self._marks.setdefault(name, len(self._marks)) for name in names]
        self._samples.append(entry)

    def document(self) -> Record:
        """The whole index, ready for JSON."""
        facets = {name: self._facet(name) for name in self._facets if self._divides(name)}
        columns: dict[tuple[Any, ...], int] = {}
        places = [columns.setdefault(self._column(key), len(columns)) for key in self._keys]
        return {
            "columns": [list(column) for column in columns],
            "facets": [
                {"name": name, "turned": turned, "values": values}
                for name, (turned, values, _) in facets.items()
            ],
            "marks": list(self._marks),
            "reasons": self._reasons,
            "samples": [
                self._compact(entry, {name: ids for name, (_, _, ids) in facets.items()})
                | {"s": _row(entry["s"], places, len(columns))}
                for entry in self._samples
            ],
        }

    def _tell_apart(self, keys: Iterable[_Key]) -> None:
        """Note in which tags the scores of a sample differ that are of one group."""
        groups: dict[Group, list[_Key]] = {}
        for key in keys:
            groups.setdefault(key.group, []).append(key)
        for (_, _, metric, _), alike in groups.items():
            shared = frozenset.intersection(*(key.tags for key in alike))
            differing = {name: None for key in alike for name, _ in sorted(key.tags - shared)}
            self._apart.setdefault(metric, {}).update(differing)

    def _column(self, key: _Key) -> tuple[Any, ...]:
        """A score's group, and in words what distinguishes it within its group."""
        run, _, metric, _ = key.group
        own = self.labels[run] if self.labels else None
        tags = {name: OWN if value == own else value for name, value in key.tags}
        apart = [_tag_in_words(name, tags[name]) for name in self._apart[metric] if name in tags]
        return *key.group, ", ".join([*apart, *([str(key.number)] if key.number > 1 else [])])

    def _note_tags(self, score: Record, tags: dict[str, set[int]]) -> None:
        for tag in score["tags"]:
            name, value = tag["name"], tag["value"]
            if name in HIDDEN_TAGS:
                continue
            if value == "1" and " " in name:
                # a tag that only says yes is a value of the facet that its first word names
                name, _, value = name.partition(" ")
            ids = self._facets.setdefault(name, {})
            for each in value.split(self.lists[name]) if name in self.lists else (value,):
                place = ids.setdefault((score["turn"], each), len(ids))
                tags.setdefault(name, set()).add(place)

    def _divides(self, name: str) -> bool:
        """Whether a facet divides the samples, and into fewer parts than there are samples.

        One to which there are links has its place in any case.
        """
        if name in self.linked:
            return True
        held = Counter(id_ for entry in self._samples for id_ in entry["f"].get(name, ()))
        values = {value for _, value in self._facets[name]}
        divides = any(count < len(self._samples) for count in held.values())
        return divides and len(values) < max(len(self._samples), 3)

    def _facet(self, name: str) -> tuple[bool, list[list[Any]], list[int]]:
        """Whether its values belong to turns, the values, and the place of each id among them.

        They do where turns have values of their own, and not where they share them, unless there
        are links to each turn's.
        """
        ids = self._facets[name]
        turns = [turn for turn, _ in ids]
        held = (entry["f"].get(name, ()) for entry in self._samples)
        several = any(len({turns[id_] for id_ in each}) > 1 for each in held)
        own = len(ids) < 1.5 * len({value for _, value in ids})
        turned = several and (own or name in self.linked)
        places: dict[tuple[int | None, str], int] = {}
        renumbered = [
            places.setdefault((turn if turned else None, value), len(places)) for turn, value in ids
        ]
        return turned, [list(value) for value in places], renumbered

    def _compact(self, entry: Record, facets: Mapping[str, Sequence[int]]) -> Record:
        held = [
            sorted({ids[id_] for id_ in entry["f"].get(name, ())}) for name, ids in facets.items()
        ]
        return entry | {"f": held}


def _row(held: Mapping[int, Any], places: Sequence[int], width: int) -> list[Any]:
    """A sample's scores by their columns, from those by the places of their keys."""
    row: list[Any] = [None] * width
    for at, value in held.items():
        row[places[at]] = value
    return row


def _key(run: int, score: Record, known: Mapping[_Key, None]) -> _Key:
    """What distinguishes a score from the known ones of its sample."""
    group = run, score["condition"], score["metric"], score["turn"]
    tags = frozenset(
        (tag["name"], tag["value"]) for tag in score["tags"] if tag["name"] != "cluster"
    )
    keys = (_Key(group, tags, number) for number in count(1))
    return next(key for key in keys if key not in known)


def _tag_in_words(name: str, value: str) -> str:
    """Its value; with the name before a number, and the name alone where it only says yes."""
    if value == "1" and " " in name:
        return name
    return f"{name} {value}" if value.isdecimal() else value


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


SHORT_NAME = 16
"""Hexadecimal digits of its hash that name a picture within one page."""


@dataclass(slots=True, kw_only=True)
class Gathering:
    """Goes through a content's samples; the index and the sections are whole afterwards.

    `names` is how many digits of its hash name a picture; `keys` are the samples' own, without
    their trials.
    """

    content: Content
    names: int
    index: Index = field(init=False)
    losses: Losses = field(default_factory=Losses)
    keys: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        content = self.content
        self.index = Index(
            marks=content.marks,
            lists=content.display.lists,
            linked=frozenset(tag for tag, _ in content.display.maps.values()),
            labels=[run.label for run in content.runs] if len(content.runs) > 1 else (),
        )

    def samples(self) -> Iterator[tuple[Record, list[str]]]:
        """Each sample as it is shown, and the hashes of its pictures in their order."""
        content = self.content
        for sample, calls, scores in aligned([run.folder for run in content.runs]):
            shown = shown_sample(sample, calls, content.display.verdict, content.about)
            pictures = shown["pictures"]
            shown["pictures"] = [sha256[: self.names] for sha256 in pictures]
            self.index.add(sample, scores, shown)
            self.keys.add(read_trial(sample).key)
            for run, held in zip(content.runs, calls, strict=True):
                self.losses.add(sample, held, content.prefix(run))
            yield shown, pictures

    def sections(self) -> list[Section]:
        """The sections behind the overview."""
        return [*detail_sections(self.content, self.losses)]

    def shortfalls(self) -> list[str]:
        """What a reader must know of the runs before their numbers, if much is missing."""
        found: list[str] = []
        for run in self.content.runs:
            prefix = self.content.prefix(run)
            counted = self.losses.shortfalls.get(prefix, Shortfall())
            sentences = tell_notable(counted, run.tables)
            found += [prefix + " ".join(sentences)] if prefix and sentences else sentences
        return found

    def document(self, block: int) -> Record:
        """The index of the samples, which come in blocks of so many."""
        labels = [run.label for run in self.content.runs]
        settings = reading_settings(self.content.display, labels, self.content.conditions)
        return self.index.document() | settings | {"block": block}


def shown_sample(
    sample: str, runs: Sequence[Sequence[Record]], words: Reader, about: About
) -> Record:
    """A sample as the page shows it, from the records of its calls in each run."""
    columns = []
    pictures: dict[str, None] = {}
    for run, calls in enumerate(runs):
        conditions: dict[str, list[Record]] = {}
        for call in calls:
            conditions.setdefault(call["condition"], []).append(call)
            pictures |= dict.fromkeys(_pictures(call))
        for condition, held in conditions.items():
            columns.append({"run": run, "condition": condition, **dialogue(held, words)})
    entries = [{"name": name, "text": text} for name, text in _about(about, sample).items()]
    return {"id": sample, "pictures": [*pictures], "about": entries, "columns": columns}


def reading_settings(display: Display, runs: Sequence[str], conditions: Sequence[str]) -> Record:
    """What the script needs to know to show conversations, beside the samples."""
    return {
        "runs": list(runs),
        "conditions": list(dict.fromkeys(conditions)),
        "levels": {str(turn): name for turn, name in display.turns.items()},
        "labels": dict(display.labels),
        "scale": display.metric,
        "given": display.given,
        "endings": list(ENDINGS),
    }


def _about(about: About, sample: str) -> Mapping[str, str]:
    """What the data say about a sample, the same for all its trials."""
    return about.get(read_trial(sample).key, {})


def _pictures(call: Record) -> list[str]:
    messages = call["messages"] or ()
    return [part["image"] for each in messages for part in each["parts"] if part.get("image")]
