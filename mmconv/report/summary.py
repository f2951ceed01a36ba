"""What a run cost and with what it was made: counts, tokens, prices, versions, stand-ins."""

from __future__ import annotations

import platform
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from importlib import metadata
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

from mmconv import __version__
from mmconv.config import CANDIDATE, ModelSpec, RunSpec
from mmconv.protocols import Benchmark
from mmconv.run_folder.layout import RunSummary, SeatSummary, Shard
from mmconv.run_folder.saved_run import MERGE, read_by_sample
from mmconv.tally import OTHERS, SeatTally, Tally
from mmconv.trials import read_trial
from mmconv.values import BY_HOST, FINGERPRINT
from model_zoo.chat_templates import TRANSCRIPT

PACKAGES = ("torch", "transformers", "accelerate", "bitsandbytes", "vllm", "openai", "sacrebleu")
"""Packages whose version can change a reply or a score."""

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


def software() -> dict[str, Any]:
    """Versions of mmconv, Python and the packages that matter, where they are installed."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "mmconv": __version__,
        "python": platform.python_version(),
        "packages": versions,
    }


def summary(spec: RunSpec, tally: Tally, complete: bool, seconds: float) -> RunSummary:
    """What came of a run, with cost where a model's file gives prices."""
    return RunSummary(
        complete=complete,
        seconds=round(seconds, 3),
        plans=tally.finished,
        seats={name: _seat(spec.seats[name], counts) for name, counts in tally.seats.items()},
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
                f"{_listed(named)}: these numbers are of all of them together."
            )
        elif not any(_is_same(asked, *told) for asked in (model.model, model.label)):
            yield (
                f"OTHER MODEL: {seat} ({model.label}) was asked for as {model.model}, and its "
                f"server says that {_listed(named)} answered."
            )


def _is_same(asked: str, answered: str) -> bool:
    """Whether one name is the other, or an alias of it; what stands before a slash is no name."""
    told = (asked, answered.partition(BY_HOST)[0])
    names = {name.rstrip("/").rsplit("/", 1)[-1].lower().removesuffix("-latest") for name in told}
    return len(names) == 1 or any(names == {name, _SNAPSHOT.sub("", name)} for name in names)


def _listed(counts: Mapping[str, int]) -> str:
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


def _are_trials_alike(transcripts: Path) -> bool:
    """Whether the candidate answers every sample in all trials as in the first one."""
    by_key = groupby(read_by_sample(transcripts), lambda held: read_trial(held[0]).key)
    for _, trials in by_key:
        replies = (
            [
                (call["condition"], call["call"], call["text"])
                for call in calls
                if call["seat"] == CANDIDATE
            ]
            for _, calls in trials
        )
        first = next(replies)
        if any(each != first for each in replies):
            return False
    return True


def headline(
    spec: RunSpec, benchmark: Benchmark[Any], samples: int, answered_by: Answered
) -> dict[str, str]:
    """What stands at the head of a run's report, by name.

    Of the models that answered, those that go by another name than they were asked for.
    """
    models = {seat: model.label for seat, model in spec.seats.items()}
    for seat, counts in answered_by.items():
        if not counts.keys() <= {spec.seats[seat].model, spec.seats[seat].label}:
            models[seat] += f", answered by {_listed(counts)}"
    options = spec.model_dump(mode="json")["options"]
    return {
        **models,
        "samples": f"{samples} of {benchmark.name}",
        "trials": str(spec.trials),
        "conditions": ", ".join(benchmark.conditions),
        "options": ", ".join(f"{name} {value}" for name, value in options.items()),
        "seed": str(spec.seed),
        "written": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC by mmconv {__version__}",
    }


def cost(
    model: ModelSpec, input_tokens: float, output_tokens: float, unmetered: int = 0
) -> float | None:
    """Price in US dollars of so many tokens; None where the model's file gives no price.

    Nor is it known where calls were `unmetered`, unless they are free.
    """
    price = model.price
    if price is None or (unmetered and (price.input or price.output)):
        return None
    return (input_tokens * price.input + output_tokens * price.output) / 1e6


def tell_unmetered(unmetered: int, calls: int) -> str:
    """Why the price of so many calls is not known."""
    # of those that nobody needs, which are no calls of the run, there may be more
    return f"price not known: {unmetered:,} of {max(calls, unmetered):,} calls without tokens"


def tell_dollars(amount: float) -> str:
    """US dollars to the cent; less than ten cents to two digits, so that little is not nothing."""
    if amount >= 0.1 or not amount:
        return f"{amount:.2f}"
    return f"{Decimal(f'{amount:.2g}'):f}"


def session_cost(spec: RunSpec, tally: Tally) -> float | None:
    """Price in US dollars of the calls asked now; None where no model's file gives a price.

    Calls without tokens add nothing: `tell_session_cost` tells of them.
    """
    prices = [
        cost(spec.seats[name], seat.input_tokens, seat.output_tokens)
        for name, seat in tally.seats.items()
    ]
    known = [price for price in prices if price is not None]
    return sum(known) if known else None


def tell_session_cost(spec: RunSpec, tally: Tally) -> str:
    """What the calls asked now cost, as far as that is known; "" if no model's file has a price."""
    paid = [seat for name, seat in tally.seats.items() if cost(spec.seats[name], 1, 1)]
    if unmetered := sum(seat.unmetered for seat in paid):
        return tell_unmetered(unmetered, sum(seat.asked for seat in paid))
    if (dollars := session_cost(spec, tally)) is None:
        return ""
    told = f"${tell_dollars(dollars)}"
    if timed_out := sum(seat.timed_out for seat in paid):
        attempts = "1 attempt" if timed_out == 1 else f"{timed_out:,} attempts"
        return f"{told} without {attempts} that timed out"
    return told


def _seat(model: ModelSpec, counts: SeatTally) -> SeatSummary:
    return SeatSummary(
        model=model.label,
        asked=counts.asked,
        stored=counts.stored,
        failed=counts.failed,
        skipped=counts.skipped,
        needless=counts.needless,
        retried=counts.retried,
        truncated=counts.truncated,
        failures=dict(counts.failures),
        input_tokens=counts.input_tokens,
        output_tokens=counts.output_tokens,
        unmetered=counts.unmetered,
        timed_out=counts.timed_out,
        cost_usd=cost(model, counts.input_tokens, counts.output_tokens, counts.unmetered),
        total_input_tokens=counts.total_input_tokens,
        total_output_tokens=counts.total_output_tokens,
        total_unmetered=counts.total_unmetered,
        total_cost_usd=cost(
            model,
            counts.total_input_tokens,
            counts.total_output_tokens,
            counts.total_unmetered,
        ),
    )
