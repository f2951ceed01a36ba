"""What is known of a benchmark before it runs, as `mmconv options` prints it.

That is its roles, its conditions, and the model of its options, whose fields have docstrings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar, cast, get_args

from pydantic import BaseModel, BeforeValidator, Field

from mmconv.benchmarks.registry import TITLES, find_class
from mmconv.core.config import RunSpec, Strict
from mmconv.core.documents import validate
from mmconv.core.errors import ConfigError
from mmconv.core.judges import JUDGE, base_role
from mmconv.core.types import Table

Kind = TypeVar("Kind", bound=BaseModel)
Value = TypeVar("Value")

ANY_ROLE = "NAME"
"""What stands among the roles of a benchmark that has roles of any other name too."""


class BenchmarkOptions(Strict):
    """Options under `options:` of a run file, or a group of them; docstrings are their meanings.

    `earlier` has former values of defaults that changed. New runs name these options (`as_new`),
    so a specification without one was written before, and keeps the former value.
    """

    earlier: ClassVar[Mapping[str, Any]] = {}


class Options(BenchmarkOptions):
    """Options under `options:` of a run file."""

    data: Path
    """The dataset: a .jsonl, .json, .csv, .tsv, .xlsx or .parquet file of records."""
    sheet: str | None = None
    """The sheet of a workbook, if several have the fields."""
    skip_bad_records: bool = False
    """Continue without incomplete or unreadable records; the report lists them."""
    generate_only: bool = False
    """Only request the candidate's answers; no judge is needed."""
    judges_by: Literal["mean", "vote"] = "mean"
    """How several judges give one value: their mean, or by vote, which is their median."""


class ImageOptions(Options):
    """Options of a benchmark whose records have images."""

    images: Path | None = None
    """The folder of the images; a .parquet file may hold them itself."""


class ChatOptions(Options):
    """Options that all shipped benchmarks with a chat candidate and a judge have."""

    candidate_system: str | None = None
    """A system prompt for the candidate."""
    judge_retries: int = Field(default=1, ge=0, le=5)
    """How often an unreadable verdict is requested again; at temperature 0 it may be the same."""


class Condition(str):
    """The name of a condition, with its `meaning`."""

    meaning: str

    def __new__(cls, name: str, meaning: str) -> Condition:
        """A condition of this name."""
        made = super().__new__(cls, name)
        made.meaning = meaning
        return made


def _listed(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(","))
    return (value,) if isinstance(value, int) else value


Several: TypeAlias = Annotated[tuple[Value, ...], BeforeValidator(_listed)]
"""An option of several values: a list, a text that is split at its commas, or one value alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratings:
    """A metric whose values are ratings; `by_turn` draws their distribution for each turn."""

    metric: str
    lowest: int
    highest: int
    by_turn: bool = False


def word_verdict(call: str, label: str | None, scores: Mapping[str, float]) -> str:
    """A verdict in words: its label, and its scores by name."""
    if label is None and len(scores) == 1:
        return f"{next(iter(scores.values())):g}"
    return ", ".join([*([label] if label else []), *(f"{k} {v:g}" for k, v in scores.items())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Display:
    """How a benchmark's results are shown to readers. Everything has a default.

    `turns` names turns (0: the whole conversation), `labels` conditions, metrics and rows. `rows`
    maps rows of the first tables to their condition and turn: a picture has a place for each turn
    and a colour for each condition. `maps` are tables whose rows are the values of a tag in one
    turn: they become heat maps. Of `ratings` the distribution is drawn. `lists` are tags with
    several values, with their separator. The list of samples shows `metric`, by default the first
    one. `given` labels an answer that the model did not give. `marks` reads from the tables what
    they say about single samples, `verdict` words a verdict from the call's id, its label and its
    scores.
    """

    turns: Mapping[int, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    maps: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    ratings: tuple[Ratings, ...] = ()
    lists: Mapping[str, str] = field(default_factory=dict)
    metric: str = ""
    given: str = "given, not the model's own"
    marks: Callable[[Sequence[Table]], Mapping[str, tuple[str, ...]]] | None = None
    verdict: Callable[[str, str | None, Mapping[str, float]], str] = word_verdict

    def place_of(self, row: str) -> tuple[str, str]:
        """The turn and the condition of a row in words; other rows have their label, if any."""
        first = next((condition for condition, _ in self.rows.values()), "")
        condition, turn = self.rows.get(row, (first, None))
        name = self.labels.get(row, "") if turn is None else self.turns.get(turn, f"turn {turn}")
        return name, self.labels.get(condition, condition)

    def name_row(self, row: str) -> str:
        """What readers call a row: its turn, and its condition if it is not the first one."""
        turn, condition = self.place_of(row)
        first = self.place_of("")[1]
        return row if not turn else turn if condition == first else f"{turn}, {condition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The meaning of each role and each condition, and the model of the options.

    `unnamed` says which conditions a run takes that names none. `judging` names the options that
    change how the same answers are judged: runs that differ in one are not compared unasked.
    `scale` is the range of each metric that people can rate too, `display` how results are shown.
    """

    options: type[BaseModel]
    conditions: Mapping[str, str]
    unnamed: str
    roles: Mapping[str, str]
    judging: frozenset[str] = frozenset()
    scale: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    display: Display = Display()

    def has_role(self, name: str) -> bool:
        """Whether a run may put a model there."""
        return base_role(name) in self.roles or ANY_ROLE in self.roles


def describe(benchmark: str) -> Description:
    """The description of a shipped benchmark; raises `ConfigError` that lists them."""
    if benchmark not in TITLES:
        raise ConfigError(f"no options of {benchmark!r} are known; there are: {', '.join(TITLES)}")
    return cast("Description", find_class(benchmark).describe())


def display_of(benchmark: str) -> Display:
    """How the results of a benchmark are shown; a custom one has the defaults."""
    return describe(benchmark).display if benchmark in TITLES else Display()


@cache
def file_options(options: type[BaseModel]) -> frozenset[str]:
    """The names of a benchmark's options that name files or folders."""
    fields = options.model_fields.items()
    return frozenset(name for name, field in fields if Path in _leaves(field.annotation))


def read_options(kind: type[Kind], options: Mapping[str, Any], benchmark: str) -> Kind:
    """The options of a run; raises `ConfigError` that lists what is wrong and where to look."""
    try:
        return validate(kind, {**_earlier(kind), **options}, f"options of {benchmark}")
    except ConfigError as error:
        raise ConfigError(f"{error}\n`mmconv options {benchmark}` lists them.") from error


def options_in_force(benchmark: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of every option of a shipped benchmark except names of files, as JSON has it.

    What is not `given` has its default. A custom benchmark has none: the hash of its code covers
    its defaults.
    """
    if benchmark not in TITLES:
        return {}
    kind = describe(benchmark).options
    names_of_files = set(file_options(kind))
    return read_options(kind, given, benchmark).model_dump(mode="json", exclude=names_of_files)


def as_new(spec: RunSpec) -> RunSpec:
    """The specification of a new run, which names the options whose default was another one."""
    if spec.benchmark not in TITLES:
        return spec
    kind = describe(spec.benchmark).options
    today = {name: kind.model_fields[name].default for name in _earlier(kind)}
    return spec.model_copy(update={"options": {**today, **spec.options}})


def _earlier(kind: type[BaseModel]) -> Mapping[str, Any]:
    return kind.earlier if issubclass(kind, BenchmarkOptions) else {}


def without_idle_judge(spec: RunSpec) -> RunSpec:
    """The specification without a judge if `generate_only` leaves it nothing to judge.

    So it is the same run whether a judge is named or not. A custom benchmark refuses roles that it
    does not use.
    """
    if spec.benchmark not in TITLES or spec.options.get("generate_only") is not True:
        return spec
    kept = {
        field: {role: own for role, own in getattr(spec, field).items() if base_role(role) != JUDGE}
        for field in ("models", "sampling")
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
    arguments = get_args(annotation)
    if not arguments:
        yield annotation
    for argument in arguments:
        yield from _leaves(argument)
