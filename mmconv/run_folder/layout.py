"""The files of a run's folder, and the formats of the small ones.

The lines of `SCORES` and `TRANSCRIPTS` are defined in `mmconv.run_folder.transcripts`, tables in
`mmconv.report.tables`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from mmconv.core.config import RunSpec, Strict
from mmconv.core.errors import ConfigError
from mmconv.core.types import BY_HOST, FINGERPRINT

SPEC = "spec.json"
MANIFEST = "manifest.json"
SUMMARY = "summary.json"
PROGRESS = "progress.json"
"""How far a session is, written every few seconds; it is removed when the run is complete."""

SCORES = "scores.jsonl"
TRANSCRIPTS = "transcripts.jsonl"
LABELS = "labels.jsonl"
"""Scores by people of some of the answers, which correct the run's numbers; records as `SCORES`."""

JUDGED = "judges.jsonl"
"""The scores of each of several judges, whose means are in `SCORES`; records as there."""

TABLES = "tables"
WARNINGS = "warnings.json"
"""What the run reported before its numbers; runs from before 0.1.0 have no such file."""

REPORT = "report.md"
PAGE = "report.html"


class Shard(Strict):
    """One of `count` equal parts of a run's samples: those with number % count == index."""

    index: int = Field(default=0, ge=0)
    count: int = Field(default=1, gt=0)

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read `3/16`, counting from 1; raises `ConfigError` for anything else."""
        match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ConfigError(f"--shard {text!r}: expected i/n with i from 1 to n")
        return cls(index=int(match[1]) - 1, count=int(match[2]))

    @model_validator(mode="after")
    def _is_one_of_them(self) -> Shard:
        if self.index >= self.count:
            raise ValueError(f"index {self.index} is not below count {self.count}")
        return self

    def __str__(self) -> str:
        return "a whole run" if self.is_whole else f"shard {self.index + 1} of {self.count}"

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole run."""
        return self.count == 1


WHOLE = Shard()


class Specified(BaseModel):
    """The content of every `SPEC`, even of the copy for clients of the service."""

    model_config = ConfigDict(frozen=True)

    spec: RunSpec
    shard: Shard = WHOLE


class Start(Specified):
    """`SPEC`: the specification, the store, the working directory and the shard.

    `samples` are the keys that the whole run chose, in their order; None in older folders.
    """

    model_config = ConfigDict(extra="forbid")

    store: str
    started_in: Path
    shard: Shard
    samples: tuple[str, ...] | None = None


class Manifest(Strict):
    """`MANIFEST`: the provenance of a run.

    - `models`: fingerprints by role; `about_models`: more metadata from providers (chat template);
    - `answered_by`: replies by role and by the model that the server names;
    - `options`: those of a shipped benchmark with defaults, without names of files;
    - `conditions`, `notes`, `provenance` (`facts` in older runs): from the benchmark;
    - `gone`: keys of samples that the run chose and that its data no longer have;
    - `packages`: versions.
    """

    run: str
    benchmark: str
    conditions: tuple[str, ...]
    samples: int
    gone: tuple[str, ...] = ()
    seed: int
    models: Mapping[str, str]
    about_models: Mapping[str, Mapping[str, str]] = Field(default_factory=dict)
    answered_by: Mapping[str, Mapping[str, int]] = Field(default_factory=dict)
    options: Mapping[str, Any] = Field(default_factory=dict)
    provenance: Mapping[str, Any] = Field(validation_alias=AliasChoices("provenance", "facts"))
    notes: tuple[str, ...]
    mmconv: str
    python: str
    packages: Mapping[str, str]

    def models_of(self, role: str) -> tuple[str, ...]:
        """The models that servers name for a role, without hosts and builds."""
        names = self.answered_by.get(role, {})
        bare = {name.partition(FINGERPRINT)[0].partition(BY_HOST)[0] for name in names}
        return tuple(sorted(bare))


class ModelSummary(Strict):
    """The calls, tokens and costs (US dollars) of a model role.

    Costs are None without a price, or with `unmetered` calls, which have no token counts. They
    never include `timed_out` attempts.
    """

    model: str
    requested: int = Field(validation_alias=AliasChoices("requested", "asked"))
    cached: int = Field(validation_alias=AliasChoices("cached", "stored"))
    failed: int
    skipped: int
    needless: int
    retried: int
    truncated: int
    failures: Mapping[str, int]
    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    unmetered: int = 0
    timed_out: int = 0
    cost_usd: float | None
    total_input_tokens: int
    total_output_tokens: int
    total_cached_tokens: int = 0
    total_unmetered: int = 0
    total_cost_usd: float | None


class RunSummary(Strict):
    """`SUMMARY`: the end of a run's last session, and the counts by role.

    Seconds and counts are of that session; only the totals include replies cached before.
    """

    complete: bool
    seconds: float
    plans: int
    models: Mapping[str, ModelSummary] = Field(validation_alias=AliasChoices("models", "seats"))
