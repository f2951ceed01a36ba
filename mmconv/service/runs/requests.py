"""What a client asks when it starts a run, and the specification that this stands for.

A client names data sets and models that the operator configured, and sets options that are no
files. Whoever an option belongs to checks it, when the benchmark is built. Nothing here is built
or run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, StrictInt

from mmconv.benchmarks.registry import TITLES
from mmconv.benchmarks.shared.options import Description, describe, file_options, without_idle_judge
from mmconv.core.config import ModelSpec, RunSpec, SamplingSpec
from mmconv.core.keys import hash_json
from mmconv.engine.identity import OPERATIONAL
from mmconv.service.errors.problems import Problem, no_model
from mmconv.service.http.request_limits import check_temperature, check_tokens
from mmconv.service.models.api_keys import require_key
from mmconv.service.models.judges import prompt_folder
from mmconv.service.settings import DataSpec, Settings

MOST_TRIALS = 100
"""How often a client may have every sample repeated."""

MOST_SEATS = 16
"""How many models may take part in one run."""

MOST_SAMPLES = 10_000
"""How many samples a client may name."""


class RunRequest(BaseModel):
    """A run of a benchmark: which data, and which model on which seat.

    `data` and the models are names that the operator configured. `options` are the benchmark's
    own, but for those that name files; `sampling` overrides the benchmark's by seat; `trials`
    repeats every sample, `limit` takes the first samples only, with the seed `shuffle` so many at
    random, and `samples` those of these keys.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str
    seats: Mapping[str, str] = Field(min_length=1, max_length=MOST_SEATS)
    options: Mapping[str, Any] = Field(default_factory=dict)
    conditions: tuple[str, ...] | None = Field(default=None, max_length=32)
    sampling: Mapping[str, SamplingSpec] = Field(default_factory=dict)
    trials: StrictInt = Field(default=1, gt=0, le=MOST_TRIALS)
    limit: StrictInt | None = Field(default=None, gt=0, lt=2**31)
    shuffle: StrictInt | None = Field(default=None, ge=0, lt=2**32)
    samples: tuple[str, ...] | None = Field(default=None, min_length=1, max_length=MOST_SAMPLES)
    seed: StrictInt = Field(default=0, ge=0, lt=2**32)

    def canonical(self) -> str:
        """The request as JSON; what was not set is not in it."""
        return self.model_dump_json(exclude_unset=True)

    def unnamed(self) -> dict[str, Any]:
        """The fields that name nothing of the operator's: a run's specification has them too."""
        return {name: value for name, value in self if name not in ("data", "seats", "options")}


def resolve(settings: Settings, request: RunRequest) -> RunSpec:
    """The run that a request stands for, by today's settings.

    Raises `Problem` 400 and 404 naming the field.
    """
    data = settings.data.get(request.data)
    if data is None:
        known = ", ".join(sorted(settings.data)) or "none"
        raise Problem(
            404,
            f"no data set {request.data!r} here; there are: {known}",
            param="data",
            code="data_not_found",
        )
    if "candidate" not in request.seats:
        raise Problem(400, "seats: name the model to evaluate as candidate", param="seats")
    _check_seats(data.benchmark, request)
    _check_sampling(settings, request)
    _check_conditions(data.benchmark, request)
    _check_choice(request)
    spec = RunSpec(
        benchmark=data.benchmark,
        options={**_own_options(settings, data, request.options), **data.options},
        seats={
            seat: named_model(settings, name, f"seats.{seat}")
            for seat, name in request.seats.items()
        },
        prompts=prompt_folder(settings, data.benchmark),
        **request.unnamed(),
    )
    return without_idle_judge(spec)


def require_keys(request: RunRequest, spec: RunSpec) -> None:
    """Raise `Problem` 409 for a model whose key is not set here."""
    for seat, model in spec.seats.items():
        require_key(model, request.seats[seat], f"seats.{seat}")


def name_run(request: RunRequest, spec: RunSpec) -> str:
    """The run's id: what it is of, and a hash of all that it depends on. Safe in a URL."""
    digest = hash_json([request.data, decisive(spec)])[:12]
    candidate = re.sub(r"[^A-Za-z0-9._-]+", "-", request.seats["candidate"])[:40]
    return f"{request.data}-{candidate}-{digest}"


def decisive(spec: RunSpec) -> dict[str, Any]:
    """What of a specification can change results: runs that agree in it share a folder."""
    return spec.model_dump(mode="json", exclude={"seats": {"__all__": set(OPERATIONAL)}})


def named_model(settings: Settings, name: str, param: str) -> ModelSpec:
    """The model, under its public name where its file gives none: tables and failures tell it.

    Raises `Problem` 404; `param` is the field of the request that named it.
    """
    if name not in settings.models:
        raise no_model(name, param)
    model = settings.models[name]
    return model if model.name else model.model_copy(update={"name": name})


def _check_seats(benchmark: str, request: RunRequest) -> None:
    known = description(benchmark)
    if known is None:
        return
    for seat in request.seats:
        if not known.has_seat(seat):
            there = ", ".join(known.seats)
            raise Problem(
                400, f"{benchmark} has no seat {seat!r}; there are: {there}", param=f"seats.{seat}"
            )


def _check_sampling(settings: Settings, request: RunRequest) -> None:
    for seat, sampling in request.sampling.items():
        if seat not in request.seats:
            raise Problem(400, f"no model sits on the seat {seat!r}", param=f"sampling.{seat}")
        if "max_tokens" in sampling.model_fields_set:
            check_tokens(sampling.max_tokens, settings.sizes, f"sampling.{seat}.max_tokens")
        check_temperature(sampling.temperature or 0, f"sampling.{seat}.temperature")


def _check_conditions(benchmark: str, request: RunRequest) -> None:
    known = description(benchmark)
    if request.conditions == ():
        raise Problem(400, "conditions: name at least 1, or leave it out", param="conditions")
    for place, name in enumerate(request.conditions or ()):
        if known is not None and name not in known.conditions:
            there = ", ".join(known.conditions)
            raise Problem(
                400,
                f"{benchmark} has no condition {name!r}; there are: {there}",
                param=f"conditions[{place}]",
            )


def _check_choice(request: RunRequest) -> None:
    for field, names in (("conditions", request.conditions), ("samples", request.samples)):
        for place, name in enumerate(names or ()):
            if name in (names or ())[:place]:
                raise Problem(400, f"{field}: {name!r} is named twice", param=f"{field}[{place}]")
    if request.samples is not None and (request.limit, request.shuffle) != (None, None):
        told = "samples: they are named, so leave out limit and shuffle"
        raise Problem(400, told, param="samples")
    if request.shuffle is not None and request.limit is None:
        told = "shuffle: as many samples are drawn as limit says: set limit too"
        raise Problem(400, told, param="shuffle")


def _own_options(settings: Settings, data: DataSpec, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The client's options; raises `Problem` for those that are the operator's to set."""
    allowed = open_options(data.benchmark) - data.options.keys()
    for name, value in given.items():
        param = f"options.{name}"
        if name not in allowed:
            raise Problem(
                400,
                f"{param} cannot be set here; what can: {', '.join(sorted(allowed)) or 'nothing'}",
                param=param,
                code="unknown_parameter",
            )
        if name.endswith("max_tokens"):
            check_tokens(value, settings.sizes, param)
    return given


def open_options(benchmark: str) -> frozenset[str]:
    """The options of a benchmark of ours that name no files; none of one from elsewhere."""
    known = description(benchmark)
    if known is None:
        return frozenset()
    return frozenset(known.options.model_fields) - file_options(known.options)


def description(benchmark: str) -> Description | None:
    """What a benchmark of ours can be told; None for one from elsewhere."""
    return describe(benchmark) if benchmark in TITLES else None
