"""What a benchmark objects to in a run, as a client is told it: with the field of the request.

Benchmarks speak to whoever types a command or writes a run file, and mostly name no field. Where
their words do not tell one, the fault lies in the data, which are the operator's.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any

from pydantic import ValidationError

from mmconv.core.config import RunSpec
from mmconv.core.errors import DataError, InputError
from mmconv.service.errors.privacy import presentable, without_commands
from mmconv.service.errors.problems import Problem
from mmconv.service.errors.validation import validation_problem
from mmconv.service.runs.requests import open_options
from mmconv.store.jobs import Job

log = logging.getLogger(__name__)

CODE = "invalid_run"

UNTOLD = "the benchmark cannot be built with these options, or from this data"
"""What is said instead of words that tell of this machine."""

ABOUT = (
    (re.compile(r"^samples: "), "samples"),
    (re.compile(r"\bneeds? a judge\b|\boffline judge\b"), "seats.judge"),
    (re.compile(r"\bhas no sheets\b"), "options.sheet"),
    (re.compile(r"\bopponents\b|\bplayers are named\b"), "seats"),
)
"""Words of the engine, and the field that they are about."""


def build_problem(error: InputError, spec: RunSpec) -> Problem:
    """The problem to tell a client whose run cannot be built.

    What is wrong with the data is the operator's to mend, unless an option can.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ValidationError):
            return _of_options(cause, spec)
        cause = cause.__cause__
    message = without_commands(by_name(str(error), _own_options(spec)))
    param = next(_fields(message, spec), None)
    if isinstance(error, DataError) and param is None:
        log.warning("a run is refused: %s", error)
        told = presentable(message, "the server's log says why")
        words = f"the data cannot be read on the server; whoever runs it can mend that: {told}"
        return Problem(409, words, param="data", code="data_unusable")
    return Problem(400, presentable(message, UNTOLD), param=param, code=CODE)


@contextmanager
def reading_data(options: Mapping[str, Any]) -> Iterator[None]:
    """Raise `Problem` 409 where a run's data, or what it is made of else, are there no more.

    `options` are those that say where the data lie.
    """
    try:
        yield
    except InputError as error:
        told = presentable(by_name(str(error), options), "the server's log says why")
        message = f"what the run is made of cannot be read any more: {told}"
        raise Problem(409, message, code="data_gone") from error


def folder_not_here(job: Job, folder: Path, advice: str) -> Problem:
    """What a client is told of a run that has a folder, and not on this server."""
    log.warning("%s of %s is not there: servers of one database need one `out`", folder, job.id)
    return Problem(
        409,
        f"the folder of the run {job.id} is not on this server: it lies with another server of "
        f"the same database, or was taken away; {advice}",
        param="run",
        code="not_here",
    )


def by_name(message: str, options: Mapping[str, Any]) -> str:
    """The message with the last part of each path that the options hold in place of the path."""
    paths = [path for path in options.values() if isinstance(path, str) and "/" in path]
    for path in sorted(paths, key=len, reverse=True):
        message = message.replace(path, PurePath(path).name)
    return message


def _own_options(spec: RunSpec) -> Mapping[str, Any]:
    """The options that no client can set."""
    known = open_options(spec.benchmark)
    return {name: value for name, value in spec.options.items() if name not in known}


def _of_options(error: ValidationError, spec: RunSpec) -> Problem:
    """What is wrong with the options: a value, or a rule between several of them."""
    problems = [
        {**each, "loc": ("body", "options", *each["loc"])}
        for each in error.errors(include_url=False)
    ]
    told = validation_problem(problems, {"options": spec.options})
    param: str | None = told.param
    message = told.message
    if param == "options":
        message = message.removeprefix("options: ")
        param = next(_options_in(message, spec), param)
    return Problem(400, presentable(message, UNTOLD), param=param, code=CODE)


def _fields(message: str, spec: RunSpec) -> Iterator[str]:
    """The fields that the words are about, the likeliest first."""
    for words, field in ABOUT:
        if words.search(message):
            yield field
    yield from _options_in(message, spec)


def _options_in(message: str, spec: RunSpec) -> Iterator[str]:
    """The options that a client may set and that the words name, in the order of the words."""
    known = open_options(spec.benchmark)
    for word in re.findall(r"\w+", message):
        if word in known:
            yield f"options.{word}"
