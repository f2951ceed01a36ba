"""The request that starts a run, the specification it stands for, and errors in it.

A client names datasets and models that the operator configured, and sets options that name no
files. The benchmark checks its options when it is built. Its messages are written for the command
line and rarely name a field. If a message names none, the fault is in the data, which the operator
owns.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path, PurePath
from typing import Any

from pydantic import BaseModel, Field, StrictInt, ValidationError, model_validator

from mmconv.benchmarks.base import Benchmark
from mmconv.benchmarks.options import (
    Description,
    as_new,
    describe,
    file_options,
    without_idle_judge,
)
from mmconv.benchmarks.registry import CLASSES, TITLES, find_class
from mmconv.core.config import ModelSpec, RunSpec, SamplingSpec, Strict, accept_seats
from mmconv.core.documents import describe_problems
from mmconv.core.errors import ConfigError, DataError, InputError
from mmconv.core.judges import JUDGE
from mmconv.core.keys import hash_json
from mmconv.engine.identity import OPERATIONAL
from mmconv.engine.setup import check_key, check_keys, find_benchmark
from mmconv.service.errors import (
    Problem,
    plainly,
    presentable,
    validation_problem,
    without_commands,
)
from mmconv.service.requests import check_bounds
from mmconv.service.settings import DataSpec, Settings

log = logging.getLogger(__name__)


class RunRequest(Strict):
    """A run of a benchmark: the dataset, and a model for each role.

    `data` is the id of a dataset that the token sent, or, as the models are, a name that the
    operator configured. `options` are the benchmark's own, except those that name files. `sampling`
    overrides the benchmark's by role. `trials` runs each sample N times. `limit` takes the first N
    samples only, or N at random with the seed `shuffle`; `samples` takes the samples of these keys.
    The run's state is posted to the URL `webhook` when it has ended, signed as Standard Webhooks
    are; a run that was posted before keeps its webhook.
    """

    data: str
    models: Mapping[str, str] = Field(min_length=1, max_length=16)
    options: Mapping[str, Any] = Field(default_factory=dict)
    conditions: tuple[str, ...] | None = Field(default=None, max_length=32)
    sampling: Mapping[str, SamplingSpec] = Field(default_factory=dict)
    trials: StrictInt = Field(default=1, gt=0, le=100)
    limit: StrictInt | None = Field(default=None, gt=0, lt=2**31)
    shuffle: StrictInt | None = Field(default=None, ge=0, lt=2**32)
    samples: tuple[str, ...] | None = Field(default=None, min_length=1, max_length=10_000)
    seed: StrictInt = Field(default=0, ge=0, lt=2**32)
    webhook: str | None = Field(default=None, max_length=2000)

    @model_validator(mode="before")
    @classmethod
    def _accept_seats(cls, value: Any) -> Any:
        return accept_seats(value)

    def unnamed(self) -> dict[str, Any]:
        """The fields that name nothing of the operator's. `RunSpec` has them too."""
        named = ("data", "models", "options", "webhook")
        return {name: value for name, value in self if name not in named}


def resolve(settings: Settings, request: RunRequest, data: DataSpec | None) -> RunSpec:
    """The run that a request stands for, by today's settings; `data` is its dataset, if any.

    Raises `Problem` 400 and 404 naming the field.
    """
    if data is None:
        known = ", ".join(sorted(settings.data)) or "none"
        message = f"no dataset {request.data!r} here; there are: {known}, and your own"
        raise Problem(404, message, param="data", code="data_not_found")
    if "candidate" not in request.models:
        raise Problem(400, "models: name the model to evaluate as candidate", param="models")
    _check_names(data.benchmark, request)
    check_bounds(
        {f"sampling.{role}": sampling for role, sampling in request.sampling.items()},
        settings.sizes,
    )
    check_options(settings, data, request.options)
    models = {
        role: named_model(settings, name, f"models.{role}") for role, name in request.models.items()
    }
    options = {**request.options, **data.options}
    try:
        spec = RunSpec(
            benchmark=data.benchmark,
            options=options,
            models=models,
            prompts=_prompt_folder(settings, data.benchmark, options, models),
            **request.unnamed(),
        )
    except ValidationError as error:
        # A rule between fields, which begins with the name of one.
        message = plainly(error.errors()[0])
        raise Problem(400, message, param=message.split()[0]) from error
    return without_idle_judge(spec)


def name_run(request: RunRequest, spec: RunSpec) -> str:
    """The run's id: dataset, candidate, and a hash of all that it depends on. Safe in a URL."""
    digest = hash_json([request.data, decisive(spec)])[:12]
    candidate = re.sub(r"[^A-Za-z0-9._-]+", "-", request.models["candidate"])[:40]
    return f"{request.data}-{candidate}-{digest}"


def decisive(spec: RunSpec) -> dict[str, Any]:
    """What in a specification can change results. Runs with the same value share a folder."""
    return spec.model_dump(mode="json", exclude={"models": {"__all__": set(OPERATIONAL)}})


def named_model(settings: Settings, name: str, param: str) -> ModelSpec:
    """The model, under its public name unless its file names it: tables and failures show it.

    Raises `Problem` 404; `param` is the field of the request that named it.
    """
    if name not in settings.models:
        message = f"no model {name!r} here; GET /v1/models lists them"
        raise Problem(404, message, param=param, code="model_not_found")
    model = settings.models[name]
    return model if model.name else model.model_copy(update={"name": name})


class _AnyOptions(BaseModel):
    """The options of a benchmark that is not one of ours."""


CUSTOM = Description(options=_AnyOptions, conditions={}, unnamed="", roles={})
"""The description of a benchmark that is not one of ours: nothing is known of it."""


def description(benchmark: str) -> Description:
    """The options, conditions and roles of a benchmark."""
    return describe(benchmark) if benchmark in TITLES else CUSTOM


@cache
def open_options(benchmark: str) -> frozenset[str]:
    """The options of one of our benchmarks that name no files; none of another benchmark."""
    known = description(benchmark).options
    return frozenset(known.model_fields) - file_options(known)


def _check_names(benchmark: str, request: RunRequest) -> None:
    """Refuse unknown roles and conditions."""
    if request.conditions == ():
        raise Problem(400, "conditions: name at least 1, or leave it out", param="conditions")
    known = description(benchmark)
    for role in request.models:
        if known is not CUSTOM and not known.has_role(role):
            message = f"{benchmark} has no role {role!r}; there are: {', '.join(known.roles)}"
            raise Problem(400, message, param=f"models.{role}")
    for place, name in enumerate(request.conditions or ()):
        if known is not CUSTOM and name not in known.conditions:
            there = ", ".join(known.conditions)
            message = f"{benchmark} has no condition {name!r}; there are: {there}"
            raise Problem(400, message, param=f"conditions[{place}]")


def check_options(settings: Settings, data: DataSpec, options: Mapping[str, Any]) -> None:
    """Raise `Problem` 400 for options that only the operator may set, and for too many tokens."""
    allowed = open_options(data.benchmark) - data.options.keys()
    for name, value in options.items():
        param = f"options.{name}"
        if name not in allowed:
            there = ", ".join(sorted(allowed)) or "nothing"
            message = f"{param} cannot be set here; what can: {there}"
            raise Problem(400, message, param=param, code="unknown_parameter")
        if name.endswith("max_tokens"):
            check_bounds({param: value}, settings.sizes)


# Models that cannot be used.


def has_key(spec: ModelSpec) -> bool:
    """Whether the key that the model needs is set, if it needs one."""
    try:
        check_key(spec)
    except ConfigError:
        return False
    return True


def require_key(spec: ModelSpec, name: str, param: str) -> None:
    """Raise `Problem` 409 for a model whose key is not set, and log which key it is.

    `name` is its public name, `param` the field of the request that names it.
    """
    try:
        check_key(spec)
    except ConfigError as error:
        log.warning("the model %s is refused: %s", name, error)
        raise Problem(
            409,
            f"{param}: the model {name!r} cannot be used, because the server has no key for it; "
            "name another, or ask the server's operator to set it",
            param=param,
            code="model_unusable",
        ) from error


@cache
def offline_judges(benchmark: str) -> frozenset[str]:
    """The providers of judges of the benchmark that are not language models."""
    return frozenset(find_class(benchmark).offline_judges if benchmark in CLASSES else ())


def _prompt_folder(
    settings: Settings,
    benchmark: str,
    options: Mapping[str, Any],
    models: Mapping[str, ModelSpec],
) -> Path | None:
    """The operator's prompts for a run; an offline judge has prompts of its own."""
    if benchmark not in CLASSES:
        return settings.prompt_folder(benchmark)
    kind = find_class(benchmark)
    is_offline = JUDGE in models and models[JUDGE].provider in kind.offline_judges
    return None if is_offline else settings.prompt_folder(kind.prompt_folder(options))


def is_offline(judge: ModelSpec) -> bool:
    """Whether the judge is not a language model, but measures answers to some benchmarks."""
    return any(judge.provider in offline_judges(benchmark) for benchmark in CLASSES)


def convbench_only(judge: str, param: str) -> Problem:
    """The error for an offline judge, by its public name, of anything but ConvBench."""
    return Problem(
        400,
        f"{param}: the judge {judge!r} is not a language model and judges by ConvBench's prompts "
        "only",
        param=param,
        code="convbench_only",
    )


# What a benchmark refuses when it is built.

CODE = "invalid_run"

NO_FILE = "unused"
"""The value of options that locate data if the sample comes with the request."""

UNNAMED_CAUSE = "the benchmark cannot be built with these options, or from this data"
"""The message if the benchmark's own exposes this machine."""

TOPICS = (
    (re.compile(r"^samples: "), "samples"),
    (re.compile(r"\bneeds? a judge\b|\boffline judge\b"), "models.judge"),
    (re.compile(r"\bhas no sheets\b"), "options.sheet"),
    (re.compile(r"\bopponents\b"), "models"),
)
"""Words of the engine, and the field that they are about."""


def build_problem(error: InputError, spec: RunSpec) -> Problem:
    """The error for a client whose run cannot be built.

    Only the operator can fix the data, unless the message names an option that the client may set.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ValidationError):
            return _option_problem(cause, spec)
        cause = cause.__cause__
    known = open_options(spec.benchmark)
    own = {name: value for name, value in spec.options.items() if name not in known}
    message = without_commands(by_name(str(error), own))
    topics = (field for pattern, field in TOPICS if pattern.search(message))
    param = next(topics, None) or _option_in(message, spec)
    if isinstance(error, DataError) and param is None:
        log.warning("a run is refused: %s", error)
        detail = presentable(message, "the server's log says why")
        message = f"the data cannot be read on the server; its owner can fix that: {detail}"
        return Problem(409, message, param="data", code="data_unusable")
    return Problem(400, presentable(message, UNNAMED_CAUSE), param=param, code=CODE)


def build_benchmark(
    settings: Settings,
    name: str,
    options: Mapping[str, Any],
    models: Mapping[str, ModelSpec],
    conditions: tuple[str, ...] | None = None,
) -> Benchmark[Any, Any]:
    """The benchmark without data, with the operator's prompts; `models` are by role.

    Raises `Problem` 400, naming the option.
    """
    kind = find_class(name)
    fields = kind.options_type.model_fields
    files = {option for option in file_options(kind.options_type) if fields[option].is_required()}
    spec = RunSpec(
        benchmark=name,
        options={**dict.fromkeys(files, NO_FILE), **options},
        conditions=conditions,
        models=models,
        prompts=_prompt_folder(settings, name, options, models),
    )
    try:
        benchmark: Benchmark[Any, Any] = kind(as_new(spec))
    except InputError as error:
        raise build_problem(error, spec) from error
    return benchmark


@contextmanager
def reading_data(options: Mapping[str, Any]) -> Iterator[None]:
    """Raise `Problem` 409 if a run's data, or anything else it needs, is gone.

    `options` are those that locate the data.
    """
    try:
        yield
    except InputError as error:
        detail = presentable(by_name(str(error), options), "the server's log says why")
        message = f"what the run is made of cannot be read any more: {detail}"
        raise Problem(409, message, code="data_gone") from error


def by_name(message: str, options: Mapping[str, Any]) -> str:
    """The message with the last part of each path in the options instead of the path."""
    paths = [path for path in options.values() if isinstance(path, str) and "/" in path]
    for path in sorted(paths, key=len, reverse=True):
        message = message.replace(path, PurePath(path).name)
    return message


def _option_problem(error: ValidationError, spec: RunSpec) -> Problem:
    """What is wrong with the options: a value, or a rule between several of them."""
    errors = [
        {**detail, "loc": ("body", "options", *detail["loc"])}
        for detail in error.errors(include_url=False)
    ]
    problem = validation_problem(errors, {"options": spec.options})
    param, message = problem.param, problem.message
    if param == "options":
        message = message.removeprefix("options: ")
        param = _option_in(message, spec) or param
    return Problem(400, presentable(message, UNNAMED_CAUSE), param=param, code=CODE)


def _option_in(message: str, spec: RunSpec) -> str | None:
    """The first option in the message that a client may set, as a field of the request."""
    known = open_options(spec.benchmark)
    words = re.findall(r"\w+", message)
    return next((f"options.{word}" for word in words if word in known), None)


def check_settings(settings: Settings) -> tuple[str, ...]:
    """Warnings about data files and models' keys that are missing and may be added later.

    No data is read and no model is loaded. Raises `ConfigError` that lists unknown benchmarks and
    options.
    """
    faults = [
        f"  data.{name}.{fault}" for name, data in settings.data.items() for fault in _faults(data)
    ]
    if faults:
        raise ConfigError("\n".join(["wrong settings", *faults]))
    warnings = [
        f"data.{name}.{missing}; runs of {name} are refused until it does"
        for name, data in settings.data.items()
        for missing in _missing_files(data)
    ]
    try:
        check_keys(RunSpec(benchmark="", models=settings.models), settings.models)
    except ConfigError as error:
        warnings += [f"models.{line}" for line in str(error).splitlines()]
    return tuple(warnings)


def _faults(data: DataSpec) -> Iterator[str]:
    """Errors of a dataset, each as its field below the dataset's name and a message."""
    try:
        find_benchmark(data.benchmark)
    except ConfigError as error:
        yield f"benchmark: {error}"
        return
    known = description(data.benchmark).options
    try:
        known.model_validate(data.options)
    except ValidationError as error:
        lines = describe_problems(error, known)
        for problem, line in zip(error.errors(), lines, strict=True):
            # A run's own options may add what is missing, or settle a rule between options.
            place = problem["loc"]
            open_too = problem["type"] == "missing" and place[0] in open_options(data.benchmark)
            if place and not open_too:
                yield f"options.{line}"


def _missing_files(data: DataSpec) -> Iterator[str]:
    files = file_options(description(data.benchmark).options)
    for option, value in data.options.items():
        for path in value if isinstance(value, list | tuple) else [value]:
            if option in files and isinstance(path, str | Path) and not Path(path).exists():
                yield f"options.{option}: {path} does not exist"
