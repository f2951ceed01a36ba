"""Provider `simulated`: a candidate whose error rates are known, and the judge that marks it.

They are the measuring weights of ConvBench's ablations: a run of them goes through the ordinary
plans, prompts, parsers and tables, and `expected` says exactly what the tables should show. Neither
looks at a picture or knows which condition it is in: they read the resolved messages that any model
would be sent. `simulated/candidate` counts turns, so an instruction asked alone is perception to
it; `simulated/judge` reads the shipped prompts of `judges/prompts/convbench`.
"""

from __future__ import annotations

from mmconv.config import ModelSpec, validate
from mmconv.errors import ConfigError
from mmconv.keys import hash_json
from mmconv.protocols import Backend, ImageSource
from model_zoo.simulated.candidate import SimulatedCandidate
from model_zoo.simulated.expectation import Expected, expected
from model_zoo.simulated.judge import SimulatedJudge
from model_zoo.simulated.options import (
    Alike,
    CandidateOptions,
    JudgeOptions,
    Propagation,
    Ratings,
    Wins,
)

__all__ = [
    "Alike",
    "CandidateOptions",
    "Expected",
    "JudgeOptions",
    "Propagation",
    "Ratings",
    "Wins",
    "expected",
    "fingerprint",
    "open_backend",
]

_REVISION = 1  # Raised when the same messages would get another reply, so that keys change too.


def fingerprint(spec: ModelSpec) -> str:
    """Hash of everything that can change a reply; raises `ConfigError` as `open_backend` does."""
    return hash_json(["simulated", _REVISION, spec.model, _options(spec).model_dump(mode="json")])


async def open_backend(spec: ModelSpec, images: ImageSource) -> Backend:
    """The candidate or the judge; raises `ConfigError` for another model or wrong options."""
    options = _options(spec)
    concurrency = spec.max_concurrency or 64
    if isinstance(options, CandidateOptions):
        return SimulatedCandidate(options=options, max_concurrency=concurrency)
    return SimulatedJudge(options=options, max_concurrency=concurrency)


def _options(spec: ModelSpec) -> CandidateOptions | JudgeOptions:
    where = f"model {spec.label}: options"
    if spec.model == "candidate":
        return validate(CandidateOptions, spec.options, where)
    if spec.model == "judge":
        return validate(JudgeOptions, spec.options, where)
    raise ConfigError(f"simulated model {spec.model!r}: choose candidate or judge")
