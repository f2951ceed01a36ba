"""One pass over the samples of a page's runs: each as it is shown, and what all of them add up to.

Where the samples go to is the matter of who asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mmconv.benchmarks.shared.endings import METRICS as ENDINGS
from mmconv.core.trials import read_trial
from mmconv.report.page.common_sections import closing_sections, say_once
from mmconv.report.page.content import About, Content, Section, View
from mmconv.report.page.losses import Losses
from mmconv.report.page.samples.alignment import aligned
from mmconv.report.page.samples.dialogues import Reader, Record, dialogue
from mmconv.report.page.samples.index import Index
from mmconv.report.shortfalls import Shortfall, tell_notable

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
        view = self.content.view
        grids = (grid for section in view.sections for grid in section.maps)
        links = (line.link for grid in grids for line in grid.lines if line.link)
        linked = frozenset(link.partition("=")[0] for link in links)
        labels = [run.label for run in self.content.runs] if len(self.content.runs) > 1 else ()
        self.index = Index(marks=view.marks, lists=view.lists, linked=linked, labels=labels)

    def samples(self) -> Iterator[tuple[Record, list[str]]]:
        """Each sample as it is shown, and the hashes of its pictures in their order."""
        content = self.content
        for sample, calls, scores in aligned([run.folder for run in content.runs]):
            shown = shown_sample(sample, calls, content.view.words, content.about)
            pictures = shown["pictures"]
            shown["pictures"] = [sha256[: self.names] for sha256 in pictures]
            self.index.add(sample, scores, shown)
            self.keys.add(read_trial(sample).key)
            for run, held in zip(content.runs, calls, strict=True):
                self.losses.add(sample, held, content.prefix(run))
            yield shown, pictures

    def sections(self) -> list[Section]:
        """All sections of the page."""
        content = self.content
        own, closing = content.view.sections, closing_sections(content, self.losses)
        return say_once([*own, *closing], content.warnings)

    def shortfalls(self) -> list[str]:
        """What a reader must know of the runs before their numbers, if much is missing."""
        told: list[str] = []
        for run in self.content.runs:
            prefix = self.content.prefix(run)
            counted = self.losses.shortfalls.get(prefix, Shortfall())
            sentences = tell_notable(counted, run.tables)
            told += [prefix + " ".join(sentences)] if prefix and sentences else sentences
        return told

    def document(self, block: int) -> Record:
        """The index of the samples, which come in blocks of so many."""
        labels = [run.label for run in self.content.runs]
        settings = reading_settings(self.content.view, labels, self.content.conditions)
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
    told = [{"name": name, "text": text} for name, text in _about(about, sample).items()]
    return {"id": sample, "pictures": [*pictures], "about": told, "columns": columns}


def reading_settings(view: View, runs: Sequence[str], conditions: Sequence[str]) -> Record:
    """What the script needs to know to show conversations, beside the samples."""
    return {
        "runs": list(runs),
        "conditions": list(dict.fromkeys(conditions)),
        "levels": {str(turn): name for turn, name in view.levels.items()},
        "labels": dict(view.labels),
        "scale": view.scale,
        "given": view.given,
        "endings": list(ENDINGS),
    }


def _about(about: About, sample: str) -> Mapping[str, str]:
    """What is told of a sample; all its trials are told the same."""
    return about.get(read_trial(sample).key, {})


def _pictures(call: Record) -> list[str]:
    messages = call["messages"] or ()
    return [part["image"] for each in messages for part in each["parts"] if part.get("image")]
