"""Labels by people: the answers that they rate, who rates which, and the file of their ratings.

The file is one that `mmconv agree` reads, with the name of the run's folder as a further field.
Raters see a dialogue without its run, its condition and the judge's verdict.
"""

from __future__ import annotations

import csv
import hashlib
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from mmconv.core.atomic_writes import atomic_write
from mmconv.core.errors import ConfigError
from mmconv.core.plans import read_trial
from mmconv.core.score_rows import CLUSTER
from mmconv.core.types import Score
from mmconv.report.page.dialogues import dialogue
from mmconv.report.tables.formats import quote_formula, unquote_formula
from mmconv.run_folder.layout import TRANSCRIPTS
from mmconv.run_folder.saved_run import read_by_sample

FIELDS = ("sample", "value", "rater", "metric", "condition", "turn", "cluster", "run")
"""The columns of a file of labels."""

MOST_CHOICES = 11
"""A longer scale has more values than there are keys."""

TIE = 0.5
"""The value of a tie in a comparison: that of one win in two orders."""

Turn: TypeAlias = int | None
"""A turn that is rated; 0 and None stand for the whole dialogue."""

Record: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A dialogue of a run, and the turns of it that people rate.

    Every rater rates a `shared` one; of the others each has one rater.
    """

    run: str
    sample: str
    condition: str
    cluster: str
    turns: tuple[Turn, ...]
    shared: bool

    def side(self, seed: int) -> str:
        """The side of the candidate, A or B, if it is compared with the reference."""
        name = f"{seed}/{self.run}/{self.condition}/{self.sample}"
        return "AB"[hashlib.sha256(name.encode()).digest()[0] % 2]


def choices(ends: tuple[float, float] | None, *, pairwise: bool) -> dict[str, tuple[str, float]]:
    """Key -> what it stands for, and the value; in a comparison the value for side A.

    Raises `ConfigError` for a scale that has no key for each of its values.
    """
    if pairwise:
        return {"a": ("A is better", 1.0), "t": ("tie", TIE), "b": ("B is better", 0.0)}
    low, high = ends or (0.0, float("inf"))
    if high - low >= MOST_CHOICES or not (low.is_integer() and high.is_integer()) or low < 0:
        raise ConfigError(
            f"people rate whole numbers by keys; {low:g} to {high:g} is not such a scale"
        )
    values = range(int(low), int(high) + 1)
    keys = {value: str(value) for value in values} | {10: "t" if 0 in values else "0"}
    return {keys[value]: (str(value), float(value)) for value in values}


def draw_items(
    runs: Mapping[str, Iterable[Score]], metric: str, *, samples: int, double: float, seed: int
) -> list[Item]:
    """The dialogues to rate, in the order in which they are shown.

    Samples that all runs have are drawn by cluster, first trials only; each comes with all runs,
    conditions and turns that have a score of this metric. `double` is the share in percent that
    every rater gets. More samples of the same seed are the same ones and others. Raises
    `ConfigError` if the runs have no sample in common.
    """
    turns: dict[tuple[str, str, str], dict[Turn, str]] = {}
    for run, scores in runs.items():
        for score in scores:
            if score.metric == metric and read_trial(score.sample).number == 1:
                key = run, score.sample, score.condition
                turns.setdefault(key, {})[score.turn] = score.tags.get(CLUSTER, score.sample)
    of_run = [{sample for run, sample, _ in turns if run == name} for name in runs]
    clusters: dict[str, set[str]] = {}
    for (_, sample, _), rated in turns.items():
        if all(sample in names for names in of_run):
            clusters.setdefault(next(iter(rated.values())), set()).add(sample)
    if not clusters:
        raise ConfigError(f"these runs have no sample with a score {metric!r} in common")
    order = sorted(clusters)
    random.Random(seed).shuffle(order)
    drawn = [sample for cluster in order for sample in sorted(clusters[cluster])][:samples]
    chosen = dict.fromkeys(drawn, False)
    chosen |= dict.fromkeys(drawn[: ceil(len(drawn) * double / 100)], True)
    items = [
        Item(
            run=run,
            sample=sample,
            condition=condition,
            cluster=next(iter(rated.values())),
            # the whole is rated after its turns
            turns=tuple(sorted(rated, key=lambda turn: turn or 1000)),
            shared=chosen[sample],
        )
        for (run, sample, condition), rated in turns.items()
        if sample in chosen
    ]
    random.Random(seed).shuffle(items)
    return items


class Shown(NamedTuple):
    """A dialogue as raters see it.

    `turns` have `n`, `asked` (texts and images), `answer`, and `given`, the answer that the model
    saw in its history, or None. `rated` are the numbers of the model's own turns that have an
    answer, `whole` says whether all of them have.
    """

    turns: list[Record]
    rated: frozenset[int]
    whole: bool


def read_dialogues(folder: Path, samples: set[str]) -> dict[tuple[str, str], Shown]:
    """The dialogues of a run by sample and condition."""
    shown: dict[tuple[str, str], Shown] = {}
    for sample, calls in read_by_sample(folder / TRANSCRIPTS):
        if sample in samples:
            conditions: dict[str, list[Record]] = {}
            for call in calls:
                conditions.setdefault(call["condition"], []).append(call)
            for condition, theirs in conditions.items():
                shown[sample, condition] = _shown(theirs)
    return shown


def _shown(calls: Sequence[Record]) -> Shown:
    parts = [part for call in calls for each in call["messages"] or () for part in each["parts"]]
    images = {part["image"][:16]: part["image"] for part in parts if part.get("image")}
    turns, rated, whole = [], set(), True
    for turn in dialogue(calls, lambda *_: "")["turns"]:
        asked = [
            {"text": each["text"], "images": [images[name] for name in each.get("pictures", ())]}
            for each in turn["asked"]
            if each["role"] != "system"
        ]
        own = next((each for each in turn["answers"] if not each.get("given")), None)
        given = next((each["text"] for each in turn["answers"] if each.get("given")), None)
        answer = given or "" if own is None else own["text"]
        turns.append({"n": turn["n"], "asked": asked, "answer": answer, "given": given})
        if own is not None:
            is_answered = not own.get("problem")
            whole = whole and is_answered
            rated |= {turn["n"]} if is_answered else set()
    return Shown(turns, frozenset(rated), whole)


def with_answers(item: Item, shown: Shown | None) -> Item:
    """The item with the turns that have an answer to rate; it may have none."""
    known = shown or Shown([], frozenset(), whole=False)
    turns = [turn for turn in item.turns if (turn in known.rated if turn else known.whole)]
    return replace(item, turns=tuple(turns))


class Unit(NamedTuple):
    """What one rating is of, and whose it is: it is in a file once."""

    rater: str
    run: str
    sample: str
    condition: str
    metric: str
    turn: Turn


class LabelFile:
    """A CSV file of labels: every change is on disk before the next one is taken.

    A row without a value is a question that its rater skipped. Other programs may write the file
    meanwhile: a change is one of the file as it is at that moment. Raises `ConfigError` for a file
    that is not one of labels.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows = _read(path)

    def __iter__(self) -> Iterator[Unit]:
        return iter(self._rows)

    def value(self, unit: Unit) -> float | str | None:
        """A number, an empty text for a question that was skipped, None without a rating."""
        text = self._rows.get(unit, (None,))[0]
        return float(text) if text else text

    def put(self, unit: Unit, value: float | str | None, cluster: str) -> None:
        """Write a rating, or remove it for None; raises `ConfigError` if the file is spoilt."""
        rows = _read(self.path)
        if value is None:
            rows.pop(unit, None)
        else:
            rows[unit] = value if isinstance(value, str) else f"{value:g}", cluster
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with (
            atomic_write(self.path, sync=True) as part,
            part.open("w", encoding="utf-8", newline="") as file,
        ):
            writer = csv.writer(file)
            writer.writerow(FIELDS)
            writer.writerows(map(_row, rows, rows.values()))
        self._rows = rows


def _row(unit: Unit, rating: tuple[str, str]) -> list[Any]:
    value, cluster = rating
    turn = "" if unit.turn is None else unit.turn
    row = (unit.sample, value, unit.rater, unit.metric, unit.condition, turn, cluster, unit.run)
    return [*map(quote_formula, row)]


def _read(path: Path) -> dict[Unit, tuple[str, str]]:
    """The value and the cluster of each unit; none if the file does not exist."""
    rated: dict[Unit, tuple[str, str]] = {}
    if not path.exists():
        return rated
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
            if tuple(header) != FIELDS or any(len(row) != len(FIELDS) for row in rows):
                raise ValueError
            for row in rows:
                sample, value, rater, metric, condition, turn, cluster, run = map(
                    unquote_formula, row
                )
                number = int(turn) if turn else None
                float(value or 0)
                rated[Unit(rater, run, sample, condition, metric, number)] = value, cluster
    except ValueError as error:  # also one that is not UTF-8
        raise ConfigError(
            f"--out {path}: not a file that `mmconv label` wrote (columns {', '.join(FIELDS)}); "
            "name another file"
        ) from error
    return rated


@dataclass(slots=True)
class Assignments:
    """Which rater has which of the items, by number; all that they rated before, they have."""

    items: Sequence[Item]
    of_rater: dict[str, dict[int, None]] = field(default_factory=dict)

    def take_up(self, units: Iterable[Unit], metric: str) -> None:
        """Give everyone the items that they have ratings of, in their order."""
        numbers = {(i.run, i.sample, i.condition): n for n, i in enumerate(self.items)}
        for unit in units:
            number = numbers.get((unit.run, unit.sample, unit.condition))
            if number is not None and unit.metric == metric:
                self.of_rater.setdefault(unit.rater, {})[number] = None

    def next(self, rater: str) -> int | None:
        """The next item for a rater: a shared one, or one that no other rater has."""
        own = self.of_rater.setdefault(rater, {})
        taken = {number for theirs in self.of_rater.values() for number in theirs}
        for number, item in enumerate(self.items):
            if number not in own and (item.shared or number not in taken):
                own[number] = None
                return number
        return None
