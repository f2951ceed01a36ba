"""What a benchmark can be told: seats, conditions and options, with their meanings.

`mmconv options` prints them, and a benchmark reads here what a run tells it. Its own description
lies beside its options, whose fields' docstrings are their meanings; how options are typed and
written is told nowhere but in their model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar, cast, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict

from mmconv.benchmarks.registry import CLASSES, TITLES, find_class, find_part
from mmconv.core.config import RunSpec, validate
from mmconv.core.errors import ConfigError

Options = TypeVar("Options", bound=BaseModel)
Value = TypeVar("Value")

CANDIDATE = "The model that is evaluated."
JUDGE = "The model that judges; not needed with generate_only."

ANY_SEAT = "NAME"
"""What stands among the seats of a benchmark that has seats of any other name too."""


class BenchmarkOptions(BaseModel):
    """Options under `options:` of a run file, or a group of them; docstrings are their meanings."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def _listed(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(","))
    return (value,) if isinstance(value, int) else value


Several: TypeAlias = Annotated[tuple[Value, ...], BeforeValidator(_listed)]
"""An option of several values: a list, a text that is split at its commas, or one value alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The meaning of each seat and each condition, and the model of the options.

    `unnamed` says which conditions a run takes that names none. `judging` names the options that
    change how the same answers are judged: runs that differ in one are not compared unasked.
    """

    options: type[BaseModel]
    conditions: Mapping[str, str]
    unnamed: str
    seats: Mapping[str, str]
    judging: frozenset[str] = frozenset()

    def has_seat(self, name: str) -> bool:
        """Whether a run may put a model there."""
        return name in self.seats or ANY_SEAT in self.seats


def describe(benchmark: str) -> Description:
    """The description of a shipped benchmark; raises `ConfigError` that lists them."""
    if benchmark not in TITLES:
        raise ConfigError(f"no options of {benchmark!r} are known; there are: {', '.join(TITLES)}")
    if benchmark in CLASSES:
        return cast("Description", find_class(benchmark).describe())
    return cast("Description", find_part(benchmark, "options:DESCRIPTION"))


def file_options(options: type[BaseModel]) -> frozenset[str]:
    """The names of a benchmark's options that name files or folders."""
    fields = options.model_fields.items()
    return frozenset(name for name, field in fields if Path in _leaves(field.annotation))


def read_options(kind: type[Options], options: Mapping[str, Any], benchmark: str) -> Options:
    """The options of a run; raises `ConfigError` that lists what is wrong and where to look."""
    try:
        return validate(kind, options, f"options of {benchmark}")
    except ConfigError as error:
        raise ConfigError(f"{error}\n`mmconv options {benchmark}` tells what there is.") from error


def options_in_force(benchmark: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of every option of a shipped benchmark but for names of files, as JSON has it.

    What is not `given` has its default. There is none for a benchmark of one's own: the hash of its
    code tells its defaults.
    """
    if benchmark not in TITLES:
        return {}
    kind = describe(benchmark).options
    names_of_files = set(file_options(kind))
    return read_options(kind, given, benchmark).model_dump(mode="json", exclude=names_of_files)


def require_judge(spec: RunSpec, *, example: str = "") -> None:
    """Raise `ConfigError` where a run that is to be judged has no judge; an `example` helps."""
    if "judge" not in spec.seats:
        one = f"one ({example})" if example else "one"
        raise ConfigError(f"grading needs a judge: name {one}, or give --generate-only")


def without_idle_judge(spec: RunSpec) -> RunSpec:
    """The specification less a judge whom `generate_only` leaves nothing to ask.

    So it is the same run whether a judge is named or not. A benchmark of one's own refuses seats
    that it does not ask.
    """
    if spec.benchmark not in TITLES or spec.options.get("generate_only") is not True:
        return spec
    kept = {
        field: {seat: given for seat, given in getattr(spec, field).items() if seat != "judge"}
        for field in ("seats", "sampling")
    }
    return spec.model_copy(update=kept)


def named_conditions(
    benchmark: str, named: Sequence[str] | None, known: Sequence[str]
) -> tuple[str, ...]:
    """The conditions that a run names, in the order of `known`; none if it names none.

    Raises `ConfigError` for a name that is not known.
    """
    for condition in named or ():
        if condition not in known:
            raise ConfigError(
                f"{benchmark} has no condition {condition!r}; there are: {', '.join(known)}"
            )
    return tuple(condition for condition in known if condition in (named or ()))


def _leaves(annotation: Any) -> Iterator[Any]:
    """The types that an annotation is made of."""
    arguments = get_args(annotation)
    if not arguments:
        yield annotation
    for argument in arguments:
        yield from _leaves(argument)
