"""What every reader of a run must know next to its numbers, and a summary of the run."""

from __future__ import annotations

import platform
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib import metadata
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

from mmconv import __version__
from mmconv.benchmarks.base import Benchmark
from mmconv.core.config import CANDIDATE, ModelSpec, RunSpec
from mmconv.core.plans import read_trial
from mmconv.core.run_stats import OTHERS, ModelStats, RunStats
from mmconv.core.types import BY_HOST, FINGERPRINT
from mmconv.report.costs import cost
from mmconv.run_folder.layout import ModelSummary, RunSummary, Shard
from mmconv.run_folder.saved_run import MERGE, read_by_sample
from model_zoo.chat_templates import TRANSCRIPT

STAND_INS = ("fake", "simulated")
"""Providers that make up what they reply."""

MOST_LISTED = 5
"""So many of the models that answered are listed by name."""

_SNAPSHOT = re.compile(
    r"-\d{3,}[\d-]*$|@.*$"
    r"|:(?:beta|exacto|extended|floor|free|latest|nitro|online|self-moderated|thinking)$"
)
"""What a name has behind that of its model: a date or number, a revision, a variant.

Those are OpenRouter's; what else Ollama has behind a colon is another model.
"""

Answered: TypeAlias = Mapping[str, Mapping[str, int]]
"""Numbers of replies by role and the model that answered."""

ALIKE = (
    "Every answer is the same in all trials, as where nothing is drawn (at temperature 0): of the "
    "candidate they say no more than one trial."
)


def stand_ins(spec: RunSpec) -> tuple[str, ...]:
    """A note for every reader of the run's numbers, if `STAND_INS` answered in it."""
    roles = [
        f"{role} ({model.label})"
        for role, model in spec.models.items()
        if model.provider in STAND_INS
    ]
    if not roles:
        return ()
    return (
        f"FAKE: stand-ins without a model sat as {' and '.join(roles)}. Their replies are made up: "
        "these numbers try the machinery out and measure nothing.",
    )


def plain_turns(spec: RunSpec, about: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """A note on every model that is asked without a chat template; `about` is by role."""
    return tuple(
        f"PLAIN: {role} ({spec.models[role].label}) was asked without a chat template, in a plain "
        "transcript of turns (Question: ... Answer: ...)."
        for role, facts in about.items()
        if facts.get("chat_template") == TRANSCRIPT
    )


def other_models(spec: RunSpec, answered_by: Answered) -> Iterator[str]:
    """A note on every role that several models answered, or another than the one asked for.

    That is by what their servers say, whose builds (`FINGERPRINT`) are ignored here. A dated
    snapshot is the model that it is a snapshot of.
    """
    for role, counts in answered_by.items():
        model = spec.models[role]
        named: Counter[str] = Counter()
        for name, count in counts.items():
            named[name.partition(FINGERPRINT)[0]] += count
        names = named.keys() - {OTHERS}
        if len(names) > 1:
            yield (
                f"SEVERAL MODELS: {role} ({model.label}) was answered, as its server says, by "
                f"{list_answered(named)}: these numbers are of all of them together."
            )
        elif not any(_is_same(asked, *names) for asked in (model.model, model.label)):
            yield (
                f"OTHER MODEL: {role} ({model.label}) was asked for as {model.model}, and its "
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
    sentence = f"{samples} samples in {trials} trials each: n counts every trial."
    return (sentence, ALIKE) if _are_trials_alike(transcripts) else (sentence,)


def list_answered(counts: Mapping[str, int]) -> str:
    """The first names by their counts, with those; and the count of what has no name of its own."""
    named = [item for item in counts.items() if item[0] != OTHERS]
    ordered = sorted(named, key=lambda item: -item[1])
    listed = [
        f"{name} ({count:,} {'reply' if count == 1 else 'replies'})"
        for name, count in ordered[:MOST_LISTED]
    ]
    if (more := len(ordered) - MOST_LISTED) > 0:
        listed.append(f"and {more} more")
    if others := counts.get(OTHERS):
        listed.append(f"and {others:,} more replies by names that were not counted")
    return ", ".join(listed)


def _is_same(asked: str, answered: str) -> bool:
    """Whether one name is the other, or an alias of it; what is before a slash is ignored."""
    pair = (asked, answered.partition(BY_HOST)[0])
    names = {name.rstrip("/").rsplit("/", 1)[-1].lower().removesuffix("-latest") for name in pair}
    return len(names) == 1 or any(names == {name, _SNAPSHOT.sub("", name)} for name in names)


def _are_trials_alike(transcripts: Path) -> bool:
    """Whether the candidate answers every sample in all trials alike, as far as it answers."""
    repeated = False
    by_key = groupby(read_by_sample(transcripts), lambda held: read_trial(held[0]).key)
    for _, trials in by_key:
        texts: dict[tuple[str, str], str] = {}
        for call in (call for _, calls in trials for call in calls):
            if call["model"] != CANDIDATE or call["text"] is None:
                continue
            place = call["condition"], call["call"]
            repeated |= place in texts
            if texts.setdefault(place, call["text"]) != call["text"]:
                return False
    return repeated


PACKAGES = ("torch", "transformers", "accelerate", "bitsandbytes", "vllm", "openai", "sacrebleu")
"""Packages whose version can change a reply or a score."""


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


def summary(spec: RunSpec, stats: RunStats, complete: bool, seconds: float) -> RunSummary:
    """What came of a run, with cost where a model's file gives prices."""
    return RunSummary(
        complete=complete,
        seconds=round(seconds, 3),
        plans=stats.finished,
        models={name: _role(spec.models[name], counts) for name, counts in stats.models.items()},
    )


def headline(
    spec: RunSpec, benchmark: Benchmark[Any, Any], samples: int, answered_by: Answered
) -> dict[str, str]:
    """What stands at the head of a run's report, by name.

    Of the models that answered, those that go by another name than they were asked for.
    """
    models = {role: model.label for role, model in spec.models.items()}
    for role, counts in answered_by.items():
        if not counts.keys() <= {spec.models[role].model, spec.models[role].label}:
            models[role] += f", answered by {list_answered(counts)}"
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


def _role(model: ModelSpec, counts: ModelStats) -> ModelSummary:
    return ModelSummary(
        model=model.label,
        requested=counts.requested,
        cached=counts.cached,
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
