"""Notes that every reader of a run needs next to its numbers, and the summary of a run."""

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
from mmconv.core.judges import judge_roles, list_labels
from mmconv.core.plans import read_trial
from mmconv.core.run_stats import ModelStats, RunStats, Tokens
from mmconv.core.types import BY_HOST, FINGERPRINT
from mmconv.report.costs import cost
from mmconv.run_folder.layout import ModelSummary, RunSummary, Shard
from mmconv.run_folder.saved_run import MERGE, read_by_sample
from model_zoo.chat_templates import TRANSCRIPT

FAKES = ("fake", "simulated")

MOST_LISTED = 5

_SNAPSHOT = re.compile(
    r"-\d{3,}[\d-]*$|@.*$"
    r"|:(?:beta|exacto|extended|floor|free|latest|nitro|online|self-moderated|thinking)$"
)
"""The suffix of a model's name: a date or number, a revision, a variant of OpenRouter's.

Other suffixes after a colon are other models, as in Ollama.
"""

Answered: TypeAlias = Mapping[str, Mapping[str, int]]

ALIKE = (
    "All trials have the same answers, as at temperature 0: for the candidate they are evidence "
    "like a single trial."
)


def fake_model_notes(spec: RunSpec) -> tuple[str, ...]:
    """A note if replies in the run are made up."""
    roles = [
        f"{role} ({model.label})" for role, model in spec.models.items() if model.provider in FAKES
    ]
    if not roles:
        return ()
    return (
        f"FAKE MODELS: {list_labels(roles)}. Their replies are made up: these numbers test the "
        "setup and measure nothing.",
    )


FAMILIES = {
    "Anthropic": r"claude",
    "DeepSeek": r"deepseek|janus",
    "GLM": r"glm",
    "Google": r"gemini|gemma",
    "InternVL": r"intern(?:vl|lm)",
    "LLaVA": r"llava",
    "Meta": r"llama",
    "Mistral": r"mistral|ministral|mixtral|pixtral",
    "Microsoft": r"phi-",
    "OpenAI": r"gpt-|o[134](?:-|$)",
    "Qwen": r"qwen|qwq|qvq",
    "Yi": r"yi-",
}
"""Who makes models -> the begin of their names, in lower case."""


def same_family(spec: RunSpec) -> Iterator[str]:
    """A note if a judge and the candidate are of one family, by the models' names."""
    candidate = spec.models[CANDIDATE]
    for judge in map(spec.models.__getitem__, judge_roles(spec.models)):
        if (family := _family(candidate)) and family == _family(judge):
            yield (
                f"SAME FAMILY: the candidate ({candidate.label}) and the judge ({judge.label}) are "
                f"models of {family}. Judges may favour answers of their own kind."
            )


def _family(model: ModelSpec) -> str | None:
    name = model.model.rstrip("/").rsplit("/", 1)[-1].lower()
    return next((who for who, names in FAMILIES.items() if re.match(names, name)), None)


def plain_turns(spec: RunSpec, about: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """A note on every model without a chat template; `about` has metadata by role."""
    return tuple(
        f"NO CHAT TEMPLATE: {role} ({spec.models[role].label}) received its turns as a plain "
        "transcript (Question: ... Answer: ...)."
        for role, facts in about.items()
        if facts.get("chat_template") == TRANSCRIPT
    )


def other_models(spec: RunSpec, answered_by: Answered) -> Iterator[str]:
    """A note on every role that several models answered, or a model other than the requested one.

    Servers name the models; their builds (`FINGERPRINT`) are ignored here. A dated snapshot counts
    as the model that it is a snapshot of.
    """
    for role, counts in answered_by.items():
        model = spec.models[role]
        named: Counter[str] = Counter()
        for name, count in counts.items():
            named[name.partition(FINGERPRINT)[0]] += count
        if len(named) > 1:
            yield (
                f"SEVERAL MODELS: the server of {role} ({model.label}) reports replies by "
                f"{list_answered(named)}. These numbers mix them."
            )
        elif not any(_is_same(requested, *named) for requested in (model.model, model.label)):
            yield (
                f"OTHER MODEL: {role} ({model.label}) requested {model.model}, and the server "
                f"reports replies by {list_answered(named)}."
            )


def shard_notes(shard: Shard, samples: int, whole: int) -> tuple[str, ...]:
    """A note if the run is a shard of one with `whole` samples."""
    if shard.is_whole:
        return ()
    return (f"{str(shard).capitalize()} (--shard): {samples} of {whole} samples. {MERGE}",)


def trial_notes(spec: RunSpec, samples: int, transcripts: Path) -> tuple[str, ...]:
    """The number of samples if n counts several trials of each; and whether trials differ."""
    if spec.trials == 1:
        return ()
    note = f"{samples} samples in {spec.trials} trials each: n counts every trial."
    return (note, ALIKE) if _are_trials_alike(transcripts) else (note,)


def list_answered(counts: Mapping[str, int]) -> str:
    """The most frequent names with their numbers of replies, and how many more there are."""
    named = sorted(counts.items(), key=lambda item: -item[1])
    listed = [
        f"{name} ({count:,} {'reply' if count == 1 else 'replies'})"
        for name, count in named[:MOST_LISTED]
    ]
    if (more := len(named) - MOST_LISTED) > 0:
        listed.append(f"and {more} more")
    return ", ".join(listed)


def _is_same(requested: str, answered: str) -> bool:
    pair = (requested, answered.partition(BY_HOST)[0])
    names = {name.rstrip("/").rsplit("/", 1)[-1].lower().removesuffix("-latest") for name in pair}
    return len(names) == 1 or any(names == {name, _SNAPSHOT.sub("", name)} for name in names)


def _are_trials_alike(transcripts: Path) -> bool:
    repeated = False
    samples = groupby(read_by_sample(transcripts), lambda group: read_trial(group[0]).key)
    for _, trials in samples:
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
    """Versions of mmconv, Python and the installed ones of `PACKAGES`."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {"mmconv": __version__, "python": platform.python_version(), "packages": versions}


def summary(spec: RunSpec, stats: RunStats, complete: bool, seconds: float) -> RunSummary:
    """The summary of a run, with costs if the models' files have prices."""
    return RunSummary(
        complete=complete,
        seconds=round(seconds, 3),
        plans=stats.finished,
        models={name: _role(spec.models[name], counts) for name, counts in stats.models.items()},
    )


def headline(
    spec: RunSpec, benchmark: Benchmark[Any, Any], samples: int, answered_by: Answered
) -> dict[str, str]:
    """The head of a run's report, by name; it has models that answered under other names."""
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
    same_fields = {
        name: getattr(counts, name) for name in ModelSummary.model_fields if hasattr(counts, name)
    }
    return ModelSummary(
        model=model.label,
        cost_usd=cost(model, counts.session),
        total_cost_usd=cost(model, counts.total),
        **_tokens("", counts.session),
        **_tokens("total_", counts.total),
        **same_fields,
    )


def _tokens(prefix: str, tokens: Tokens) -> dict[str, Any]:
    return {
        f"{prefix}input_tokens": tokens.input,
        f"{prefix}output_tokens": tokens.output,
        f"{prefix}cached_tokens": tokens.cached,
        f"{prefix}unmetered": tokens.unmetered,
    }
