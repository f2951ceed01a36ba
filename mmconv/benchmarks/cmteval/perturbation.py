"""CMT-Eval's text perturbation: wrong characters and pinyin in what users say (Appendix C.3).

A share of a dialogue's queries gets one wrong character each, the same wrong one wherever the
dialogue repeats it. A Chinese character before a punctuation mark becomes its pinyin with a
probability. Both rates depend on the persona. Everything is drawn by a seed and the dialogue's
identifier. The authors' released queries are perturbed already; nothing is undone here.
"""

from __future__ import annotations

import pickle
import random
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeAlias

from mmconv.benchmarks.cmteval.data import (
    PERSONA,
    QUERY,
    Subset,
    add_subset,
    read_dialogue,
    split_long_text,
    subset_of,
    turns_of,
)
from mmconv.benchmarks.data_files.records import Record, read_records, refusal
from mmconv.core.errors import ConfigError, DataError

SOUND = "同音"
SHAPE = "形近"

_FILE = "Give the authors' char_confuse.data, or a file of its layout."
_ADVICE = (
    "Give a file in CMT-Eval's layout, or name the fields that hold the users' texts (--field)."
)


class Confusable(NamedTuple):
    """What one character may be mistaken for: `sounds` in the file's order, `shapes` sorted."""

    sounds: tuple[str, ...]
    shapes: tuple[str, ...]


def read_confusables(path: Path) -> dict[str, Confusable]:
    """The confusable characters in a file like the authors' char_confuse.data.

    That is a pickle of plain containers: character -> {"同音": [...], "形近": {...}, ...}. It is
    read without loading any class or function, so that no code can come with it. Raises `DataError`
    for a missing file or another layout.
    """
    try:
        with path.open("rb") as file:
            entries = _PlainUnpickler(file).load()
    except OSError as error:
        raise DataError(str(path), [error.strerror or str(error)], "Check the path.") from error
    except Exception as error:  # a damaged pickle may raise anything
        problem = f"not a pickle of plain lists and dictionaries: {error}"
        raise DataError(str(path), [problem], _FILE) from error
    try:
        return {name: _confusable(name, fields) for name, fields in entries.items()}
    except (AttributeError, KeyError, TypeError) as error:
        raise DataError(
            str(path), [f"not a dictionary of characters, each with {SOUND} and {SHAPE}"], _FILE
        ) from error


class _PlainUnpickler(pickle.Unpickler):
    """Reads numbers, texts and containers only."""

    def find_class(self, module_name: str, global_name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module_name}.{global_name}, which is never loaded")


def _confusable(name: str, fields: Mapping[str, Collection[str]]) -> Confusable:
    """What a character may be mistaken for; texts of several characters are left out."""
    sounds, shapes = (
        [sign for sign in fields[kind] if len(sign) == 1 and sign != name]
        for kind in (SOUND, SHAPE)
    )
    # a set has no order, and a draw by a seed must not depend on one
    return Confusable(tuple(sounds), tuple(sorted(shapes)))


class Rates(NamedTuple):
    """The share of queries with a wrong character, and the probability of pinyin before a mark."""

    characters: float
    pinyin: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One reading of the method, where paper and script differ.

    `personas` have other rates than `rates`. Wrong characters are the first `sounds` homophones
    (None: all) and, with `shapes`, look-alikes. `marks` None takes every punctuation mark.
    """

    rates: Rates
    personas: Mapping[str, Rates]
    sounds: int | None
    shapes: bool
    marks: frozenset[str] | None


VARIANTS: Mapping[str, Variant] = {
    "paper": Variant(
        rates=Rates(characters=1 / 7, pinyin=1 / 7),
        personas={"齐业": Rates(characters=1 / 4, pinyin=1 / 6)},
        sounds=None,
        shapes=True,
        marks=None,
    ),
    "code": Variant(
        rates=Rates(characters=1 / 6, pinyin=1 / 7),
        personas={"齐业": Rates(characters=1 / 4, pinyin=1 / 7)},
        sounds=3,
        shapes=False,
        marks=frozenset("，。！？；："),
    ),
}
"""Appendix C.3 of the paper, and the authors' text_variations.py."""


Text: TypeAlias = tuple[dict[str, Any], str]
"""A text in a record: its object, and its name there."""


class Query(NamedTuple):
    """A query before and after, and how many characters and syllables were put into it."""

    before: str
    text: str
    characters: int
    pinyin: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Perturbation:
    """How queries are perturbed: by which variant, with which characters, drawn by which seed."""

    variant: Variant
    confusables: Mapping[str, Confusable]
    seed: int = 0

    def perturb_file(
        self, path: Path, names: Collection[str] = ()
    ) -> tuple[list[dict[str, Any]], list[Query]]:
        """The records of a file with perturbed queries, all else as it was, and all its queries.

        It is a dialogue file of CMT-Eval, or any file in which users' texts have one of the `names`
        anywhere in a record, and the persona is where CMT-Eval's files have it. A record of any
        file with too few texts for a share of them gets a wrong character with that probability.
        Of Long-Text's opening only the question is changed, since the user did not type the text.
        Raises `DataError` with all problems of the file in one message.
        """
        subset = None if names else subset_of(path)
        records, queries, bad = [], list[Query](), dict[str, tuple[str, ...]]()
        for record in read_records(path):
            try:
                texts, changed = self._perturb_record(record, subset, names)
            except DataError as error:
                bad[record.where] = error.problems
                continue
            for (holder, name), query in zip(texts, changed, strict=True):
                holder[name] = query.text
            records.append(record.fields)
            queries += changed
        if bad:
            raise refusal(path, bad, 0, _ADVICE)
        if names and not queries:
            raise DataError(str(path), [f"no record has a text named {' or '.join(names)}"])
        return records, queries

    def _perturb_record(
        self, record: Record, subset: Subset | None, names: Collection[str]
    ) -> tuple[list[Text], list[Query]]:
        """The users' texts of a record, and what comes into the place of each."""
        if subset is None:
            texts = list(_texts(record.fields, names))
            before, persona = [holder[name] for holder, name in texts], record.fields.get(PERSONA)
            return texts, self.perturb(record.where, str(persona), before, at_least=0)
        dialogue = read_dialogue(add_subset(record, subset))
        before, key = [turn.query for turn in dialogue.turns], dialogue.id.partition("/")[2]
        after = self.perturb(key, dialogue.persona, before, subset == "long-text")
        return [(turn, QUERY) for turn in turns_of(record)], after

    def perturb(
        self,
        dialogue_id: str,
        persona: str,
        queries: list[str],
        opens_with_text: bool = False,
        at_least: int = 1,
    ) -> list[Query]:
        """The queries of one dialogue, perturbed; the same arguments give the same result.

        `at_least` this many get a wrong character: one in the authors' script. With 0 the
        fraction of a query that the share leaves counts as a probability.
        """
        rates = self.variant.personas.get(persona, self.variant.rates)
        draw = random.Random(f"{self.seed}/{dialogue_id}")
        share = int(len(queries) * rates.characters)
        if not at_least:
            share += draw.random() < (len(queries) * rates.characters) % 1
        chosen = set(draw.sample(range(len(queries)), max(at_least, share)))
        mistakes: dict[str, str] = {}
        written = []
        for number, query in enumerate(queries):
            parts = split_long_text(query) if opens_with_text and number == 0 else None
            start = 0 if parts is None else len(parts[0]) + 1
            text = query[start:]
            places = [n for n, sign in enumerate(text) if number in chosen and self._choices(sign)]
            if places:
                place = draw.choice(places)
                sign = text[place]
                if sign not in mistakes:
                    mistakes[sign] = draw.choice(self._choices(sign))
                text = text[:place] + mistakes[sign] + text[place + 1 :]
            signs = [
                pinyin(sign)
                if self._is_before_mark(sign, following) and draw.random() < rates.pinyin
                else sign
                for sign, following in zip(text, text[1:] + " ", strict=False)
            ]
            syllables = sum(after != before for before, after in zip(text, signs, strict=True))
            written.append(Query(query, query[:start] + "".join(signs), len(places[:1]), syllables))
        return written

    def _choices(self, sign: str) -> tuple[str, ...]:
        confusable = self.confusables.get(sign)
        if confusable is None:
            return ()
        shapes = confusable.shapes if self.variant.shapes else ()
        return (*confusable.sounds[: self.variant.sounds], *shapes)

    def _is_before_mark(self, sign: str, following: str) -> bool:
        marks = self.variant.marks
        is_mark = unicodedata.category(following)[0] == "P" if marks is None else following in marks
        return is_mark and "\u4e00" <= sign <= "\u9fff"


def pinyin(character: str) -> str:
    """A Chinese character's pinyin without tones; raises `ConfigError` without pypinyin."""
    try:
        from pypinyin import lazy_pinyin
    except ModuleNotFoundError as error:
        raise ConfigError(
            "pinyin needs the package pypinyin: pip install 'mmconv[perturb]'"
        ) from error
    return lazy_pinyin(character)[0]


def _texts(value: Any, names: Collection[str]) -> Iterator[Text]:
    if isinstance(value, list):
        for item in value:
            yield from _texts(item, names)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name in names and isinstance(item, str):
                yield value, name
            else:
                yield from _texts(item, names)
