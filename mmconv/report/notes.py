"""What every reader of a run's numbers is told beside them: who answered, how, and which part."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

from mmconv.core.config import CANDIDATE, RunSpec
from mmconv.core.run_stats import OTHERS
from mmconv.core.trials import read_trial
from mmconv.core.types import BY_HOST, FINGERPRINT
from mmconv.run_folder.layout import Shard
from mmconv.run_folder.saved_run import MERGE, read_by_sample
from model_zoo.chat_templates import TRANSCRIPT

STAND_INS = ("fake", "simulated")
"""Providers that make up what they reply."""

MOST_LISTED = 5
"""So many of the models that answered are told by name."""

_SNAPSHOT = re.compile(
    r"-\d{3,}[\d-]*$|@.*$"
    r"|:(?:beta|exacto|extended|floor|free|latest|nitro|online|self-moderated|thinking)$"
)
"""What a name has behind that of its model: a date or number, a revision, a variant.

Those are OpenRouter's; what else Ollama has behind a colon is another model.
"""

Answered: TypeAlias = Mapping[str, Mapping[str, int]]
"""Numbers of replies by seat and the model that answered."""

ALIKE = (
    "Every answer is the same in all trials, as where nothing is drawn (at temperature 0): of the "
    "candidate they tell no more than one trial."
)


def stand_ins(spec: RunSpec) -> tuple[str, ...]:
    """A note for every reader of the run's numbers, if `STAND_INS` answered in it."""
    seats = [
        f"{seat} ({model.label})"
        for seat, model in spec.seats.items()
        if model.provider in STAND_INS
    ]
    if not seats:
        return ()
    return (
        f"FAKE: stand-ins without a model sat as {' and '.join(seats)}. Their replies are made up: "
        "these numbers try the machinery out and measure nothing.",
    )


def plain_turns(spec: RunSpec, about: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """A note on every model that is asked without a chat template; `about` is by seat."""
    return tuple(
        f"PLAIN: {seat} ({spec.seats[seat].label}) was asked without a chat template, in a plain "
        "transcript of turns (Question: ... Answer: ...)."
        for seat, facts in about.items()
        if facts.get("chat_template") == TRANSCRIPT
    )


def other_models(spec: RunSpec, answered_by: Answered) -> Iterator[str]:
    """A note on every seat that several models answered, or another than the one asked for.

    That is by what their servers say, whose builds (`FINGERPRINT`) are not told apart here. A dated
    snapshot is the model that it is a snapshot of.
    """
    for seat, counts in answered_by.items():
        model = spec.seats[seat]
        named: Counter[str] = Counter()
        for name, count in counts.items():
            named[name.partition(FINGERPRINT)[0]] += count
        told = named.keys() - {OTHERS}
        if len(told) > 1:
            yield (
                f"SEVERAL MODELS: {seat} ({model.label}) was answered, as its server says, by "
                f"{list_answered(named)}: these numbers are of all of them together."
            )
        elif not any(_is_same(asked, *told) for asked in (model.model, model.label)):
            yield (
                f"OTHER MODEL: {seat} ({model.label}) was asked for as {model.model}, and its "
                f"server says that {list_answered(named)} answered."
            )


def tell_shard(shard: Shard, samples: int, whole: int) -> tuple[str, ...]:
    """That a run is a part of another, whose samples are the `whole`; nothing where it is all."""
    if shard.is_whole:
        return ()
    return (f"{str(shard).capitalize()} (--shard): {samples} of {whole} samples. {MERGE}",)


def tell_trials(spec: RunSpec, samples: int, transcripts: Path) -> tuple[str, ...]:
    """How many samples there are, where n counts each several times; and whether that was idle."""
    if (trials := spec.trials) == 1:
        return ()
    told = f"{samples} samples in {trials} trials each: n counts every trial."
    return (told, ALIKE) if _are_trials_alike(transcripts) else (told,)


def list_answered(counts: Mapping[str, int]) -> str:
    """The first names by their counts, with those; and the count of what has no name of its own."""
    named = [item for item in counts.items() if item[0] != OTHERS]
    ordered = sorted(named, key=lambda item: -item[1])
    told = [
        f"{name} ({count:,} {'reply' if count == 1 else 'replies'})"
        for name, count in ordered[:MOST_LISTED]
    ]
    if (more := len(ordered) - MOST_LISTED) > 0:
        told.append(f"and {more} more")
    if others := counts.get(OTHERS):
        told.append(f"and {others:,} more replies by names that were not counted")
    return ", ".join(told)


def _is_same(asked: str, answered: str) -> bool:
    """Whether one name is the other, or an alias of it; what stands before a slash is no name."""
    told = (asked, answered.partition(BY_HOST)[0])
    names = {name.rstrip("/").rsplit("/", 1)[-1].lower().removesuffix("-latest") for name in told}
    return len(names) == 1 or any(names == {name, _SNAPSHOT.sub("", name)} for name in names)


def _are_trials_alike(transcripts: Path) -> bool:
    """Whether the candidate answers every sample in all trials alike, as far as it answers."""
    repeated = False
    by_key = groupby(read_by_sample(transcripts), lambda held: read_trial(held[0]).key)
    for _, trials in by_key:
        texts: dict[tuple[str, str], str] = {}
        for call in (call for _, calls in trials for call in calls):
            if call["seat"] != CANDIDATE or call["text"] is None:
                continue
            place = call["condition"], call["call"]
            repeated |= place in texts
            if texts.setdefault(place, call["text"]) != call["text"]:
                return False
    return repeated
