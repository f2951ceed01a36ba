"""The samples of a page: each as it is shown, and the index that the list filters and sorts by.

A sample's texts are not in the index; they are in blocks (`mmconv.report.page.build`). A score in
the index is a number, the reason why it is missing, or null if the run has no such score.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple, TypeAlias

from mmconv.benchmarks.base.endings import METRICS as ENDINGS
from mmconv.benchmarks.options import Display
from mmconv.core.plans import read_trial
from mmconv.core.score_rows import CLUSTER
from mmconv.report.data_quality import DataQuality, Record, find_notable
from mmconv.report.page.content import About, Content
from mmconv.report.page.dialogues import VerdictWords, aligned, dialogue
from mmconv.report.tables.cells import in_words

Group: TypeAlias = tuple[int, str, str, int | None]

HIDDEN_TAGS = frozenset({CLUSTER, "side", "model", "reading", "order"})
"""Tags that distinguish scores of one sample, and not samples."""

TRIAL = "trial"

OWN = "the run's own"
"""The place of a compared run's label among the values of a tag."""

SNIPPET = 110


class _Key(NamedTuple):
    """A score's group and tags, and its number among scores of a sample that share both."""

    group: Group
    tags: frozenset[tuple[str, str]]
    number: int


@dataclass(slots=True)
class Index:
    """Takes samples, and becomes the document that the page's script reads.

    - `marks`: sample -> what an analysis says of it, such as the level of its error;
    - `lists`: tags with several values -> their separator;
    - `linked`: tags to whose values, by turn, the page has links;
    - `labels` of compared runs: the scores of the candidates themselves share a column.
    """

    marks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lists: Mapping[str, str] = field(default_factory=dict)
    linked: frozenset[str] = frozenset()
    labels: Sequence[str] = ()
    _keys: dict[_Key, int] = field(default_factory=dict)
    _differing: dict[str, dict[str, None]] = field(default_factory=dict)
    _facets: dict[str, dict[tuple[int | None, str], int]] = field(default_factory=dict)
    _marks: dict[str, int] = field(default_factory=dict)
    _reasons: dict[str, str] = field(default_factory=dict)
    _samples: list[Record] = field(default_factory=list)

    def add(self, sample: str, scores: Sequence[Sequence[Record]], shown: Record) -> None:
        """Add a sample: its scores in each run, and its record on the page."""
        values: dict[int, float | str] = {}
        tags: dict[str, set[int]] = {}
        keys: dict[_Key, None] = {}
        for run, run_scores in enumerate(scores):
            for score in run_scores:
                key = _key(run, score, keys)
                keys[key] = None
                place = self._keys.setdefault(key, len(self._keys))
                if score["value"] is None:
                    values[place] = score["why"]
                    _, self._reasons[score["why"]] = in_words(score["why"])
                else:
                    values[place] = round(score["value"], 4)
                self._add_tags(score, tags)
        trials = self._facets.setdefault(TRIAL, {})
        name = f"{TRIAL} {read_trial(sample).number}"
        tags.setdefault(TRIAL, set()).add(trials.setdefault((None, name), len(trials)))
        self._note_differing(keys)
        entry: Record = {"i": sample, "t": _snippet(shown), "f": tags, "s": values}
        if shown["pictures"]:
            entry["p"] = shown["pictures"][0]
        if sample in self.marks:
            names = self.marks[sample]
            entry["m"] = [self._marks.setdefault(name, len(self._marks)) for name in names]
        self._samples.append(entry)

    def _add_tags(self, score: Record, tags: dict[str, set[int]]) -> None:
        for tag in score["tags"]:
            name, value = tag["name"], tag["value"]
            if name in HIDDEN_TAGS:
                continue
            if value == "1" and " " in name:
                # a yes-or-no tag is a value of the facet that its first word names
                name, _, value = name.partition(" ")
            ids = self._facets.setdefault(name, {})
            for part in value.split(self.lists[name]) if name in self.lists else (value,):
                place = ids.setdefault((score["turn"], part), len(ids))
                tags.setdefault(name, set()).add(place)

    def _note_differing(self, keys: Mapping[_Key, None]) -> None:
        groups: dict[Group, list[_Key]] = {}
        for key in keys:
            groups.setdefault(key.group, []).append(key)
        for (_, _, metric, _), alike in groups.items():
            shared = frozenset.intersection(*(key.tags for key in alike))
            names = {name: None for key in alike for name, _ in sorted(key.tags - shared)}
            self._differing.setdefault(metric, {}).update(names)

    def document(self) -> Record:
        """The whole index, ready for JSON."""
        facets = {name: self._facet(name) for name in self._facets if self._divides(name)}
        columns: dict[tuple[Any, ...], int] = {}
        places = [columns.setdefault(self._column(key), len(columns)) for key in self._keys]
        samples = []
        for entry in self._samples:
            row: list[Any] = [None] * len(columns)
            for place, value in entry["s"].items():
                row[places[place]] = value
            values = [
                sorted({ids[id_] for id_ in entry["f"].get(name, ())})
                for name, (_, _, ids) in facets.items()
            ]
            samples.append(entry | {"f": values, "s": row})
        return {
            "columns": [list(column) for column in columns],
            "facets": [
                {"name": name, "turned": by_turn, "values": values}
                for name, (by_turn, values, _) in facets.items()
            ],
            "marks": list(self._marks),
            "reasons": self._reasons,
            "samples": samples,
        }

    def _column(self, key: _Key) -> tuple[Any, ...]:
        run, _, metric, _ = key.group
        own = self.labels[run] if self.labels else None
        tags = {name: OWN if value == own else value for name, value in key.tags}
        parts = []
        for name in self._differing[metric]:
            if name in tags:
                is_flag = tags[name] == "1" and " " in name
                number = f"{name} {tags[name]}" if tags[name].isdecimal() else tags[name]
                parts.append(name if is_flag else number)
        return *key.group, ", ".join([*parts, *([str(key.number)] if key.number > 1 else [])])

    def _divides(self, name: str) -> bool:
        """Whether a facet divides the samples, into fewer parts than there are samples.

        A facet with links is always there.
        """
        if name in self.linked:
            return True
        sizes = Counter(id_ for entry in self._samples for id_ in entry["f"].get(name, ()))
        values = {value for _, value in self._facets[name]}
        divides = any(size < len(self._samples) for size in sizes.values())
        return divides and len(values) < max(len(self._samples), 3)

    def _facet(self, name: str) -> tuple[bool, list[list[Any]], list[int]]:
        """Whether its values belong to turns, the values, and the place of each id among them.

        They do if each turn has values of its own, or if there are links to each turn's.
        """
        ids = self._facets[name]
        turns = [turn for turn, _ in ids]
        entries = (entry["f"].get(name, ()) for entry in self._samples)
        several = any(len({turns[id_] for id_ in entry}) > 1 for entry in entries)
        own = len(ids) < 1.5 * len({value for _, value in ids})
        by_turn = several and (own or name in self.linked)
        places: dict[tuple[int | None, str], int] = {}
        renumbered = [
            places.setdefault((turn if by_turn else None, value), len(places))
            for turn, value in ids
        ]
        return by_turn, [list(value) for value in places], renumbered


def _key(run: int, score: Record, known: Mapping[_Key, None]) -> _Key:
    group = run, score["condition"], score["metric"], score["turn"]
    tags = frozenset((tag["name"], tag["value"]) for tag in score["tags"] if tag["name"] != CLUSTER)
    keys = (_Key(group, tags, number) for number in count(1))
    return next(key for key in keys if key not in known)


def _snippet(shown: Record) -> str:
    questions = (
        message["text"]
        for column in shown["columns"]
        for turn in column["turns"]
        for message in turn["asked"]
        if message["role"] != "system" and message["text"]
    )
    text = " ".join(next(questions, "").split())
    return text if len(text) <= SNIPPET else f"{text[: SNIPPET - 1]}…"


@dataclass(slots=True, kw_only=True)
class Gathering:
    """Reads a content's samples; the index and `quality` (by run prefix) are complete afterwards.

    `names` is the number of digits of its hash that name an image; `keys` are the samples' keys
    without trials.
    """

    content: Content
    names: int
    index: Index = field(init=False)
    quality: dict[str, DataQuality] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        content = self.content
        self.index = Index(
            marks=content.marks,
            lists=content.display.lists,
            linked=frozenset(tag for tag, _ in content.display.maps.values()),
            labels=[run.label for run in content.runs] if len(content.runs) > 1 else (),
        )
        self.quality = {content.prefix(run): DataQuality() for run in content.runs}

    def samples(self) -> Iterator[tuple[Record, list[str]]]:
        """Each sample as it is shown, and the hashes of its images in their order."""
        content = self.content
        for sample, calls, scores in aligned([run.folder for run in content.runs]):
            shown = shown_sample(sample, calls, content.display.verdict, content.about)
            hashes = shown["pictures"]
            shown["pictures"] = [sha256[: self.names] for sha256 in hashes]
            self.index.add(sample, scores, shown)
            self.keys.add(read_trial(sample).key)
            for quality, run_calls in zip(self.quality.values(), calls, strict=True):
                quality.add(run_calls)
            yield shown, hashes

    def quality_warnings(self) -> list[str]:
        """Warnings before the numbers of the runs, if much is missing."""
        warnings: list[str] = []
        for run, (prefix, quality) in zip(self.content.runs, self.quality.items(), strict=True):
            sentences = find_notable(quality, run.tables)
            warnings += [prefix + " ".join(sentences)] if prefix and sentences else sentences
        return warnings

    def document(self, block: int) -> Record:
        """The index of the samples, and how many of them a block has."""
        labels = [run.label for run in self.content.runs]
        settings = reading_settings(self.content.display, labels, self.content.conditions)
        return self.index.document() | settings | {"block": block}


def shown_sample(
    sample: str, runs: Sequence[Sequence[Record]], words: VerdictWords, about: About
) -> Record:
    """A sample as the page shows it, from the records of its calls in each run."""
    columns = []
    images: dict[str, None] = {}
    for run, calls in enumerate(runs):
        conditions: dict[str, list[Record]] = {}
        for call in calls:
            conditions.setdefault(call["condition"], []).append(call)
            parts = (part for message in call["messages"] or () for part in message["parts"])
            images |= {part["image"]: None for part in parts if part.get("image")}
        for condition, condition_calls in conditions.items():
            columns.append({"run": run, "condition": condition, **dialogue(condition_calls, words)})
    # data are about a sample, the same for all its trials
    texts = about.get(read_trial(sample).key, {})
    entries = [{"name": name, "text": text} for name, text in texts.items()]
    return {"id": sample, "pictures": [*images], "about": entries, "columns": columns}


def reading_settings(display: Display, runs: Sequence[str], conditions: Sequence[str]) -> Record:
    """What the script needs to show conversations, besides the samples."""
    return {
        "runs": list(runs),
        "conditions": list(dict.fromkeys(conditions)),
        "levels": {str(turn): name for turn, name in display.turns.items()},
        "labels": dict(display.labels),
        "scale": display.metric,
        "given": display.given,
        "endings": list(ENDINGS),
    }
