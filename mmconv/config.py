"""Configuration: what a run is, what a model is, and the only place that reads the environment.

Specs are frozen pydantic models that forbid unknown fields, read from YAML with `--set` overrides.
Options of a benchmark or a provider stay plain mappings here; whoever they belong to validates
them. No object is built from a spec here: that is `mmconv.assemble`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StrictFloat,
    StrictInt,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from mmconv.errors import ConfigError

Spec = TypeVar("Spec", bound=BaseModel)

YAML_FILES = (".yaml", ".yml")
"""How the names of configuration files end."""


_SEEDS: dict[str, Any] = {"ge": -(2**63), "lt": 2**63}
"""The seeds that JSON, and so a key, has room for."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SamplingSpec(_Frozen):
    """Overrides of a benchmark's own sampling; what is not set stays as the benchmark has it.

    `temperature` and `top_p` may be set to null: the server's default then applies.
    """

    temperature: StrictFloat | None = Field(default=0.0, ge=0)
    top_p: StrictFloat | None = Field(default=None, gt=0, le=1)
    max_tokens: StrictInt = Field(default=1024, gt=0)
    seed: StrictInt | None = Field(default=None, **_SEEDS)
    stop: tuple[str, ...] = ()

    @model_serializer(mode="wrap")
    def _what_is_set(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # A default that is written out would be read as an override.
        return {name: value for name, value in dump(self).items() if name in self.model_fields_set}


class PriceSpec(_Frozen):
    """Price per million tokens, in US dollars."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)


class AboutSpec(_Frozen):
    """What helps to choose a model, as its card says; nothing that is asked of it depends on this.

    `parameters` are in billions, of a mixture all of them. `images` says whether it takes any; a
    run that would show some to a model that takes none is refused.
    """

    parameters: float | None = Field(default=None, gt=0)
    images: bool | None = None
    licence: str = ""


class ModelSpec(_Frozen):
    """A model is data: which backend speaks to it, and how.

    `model` is a path, a hub name or a server's model name. `options` belong to the provider. A
    secret is named by its environment variable in `api_key_env`, never written here. `about` is no
    part of a run: it is never written out.
    """

    provider: str
    model: str
    name: str = ""
    about: AboutSpec = Field(default=AboutSpec(), exclude=True)
    system: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    max_concurrency: int | None = Field(default=None, gt=0)
    timeout: float = Field(default=600.0, gt=0)
    attempts: int = Field(default=8, gt=0)
    price: PriceSpec | None = None
    sampling: SamplingSpec | None = None
    options: Mapping[str, Any] = Field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name that tables print: `name` where given, else the last part of `model`.

        To a run, a model file without `name` gives its own (see `RunSpec`).
        """
        return self.name or self.model.rstrip("/").rsplit("/", 1)[-1] or self.provider


CANDIDATE = "candidate"
"""The seat that every benchmark has: the model that is evaluated."""


class RunSpec(_Frozen):
    """One run of one benchmark: everything that decides its numbers, and nothing else.

    `seats` maps the benchmark's seats (candidate, judge) to models; one from a file that sets no
    `name` is named after the file. `trials` repeats every sample so often. `sampling` overrides the
    benchmark's sampling by seat.
    """

    benchmark: str
    options: Mapping[str, Any] = Field(default_factory=dict)
    conditions: tuple[str, ...] | None = None
    seats: Mapping[str, ModelSpec]
    sampling: Mapping[str, SamplingSpec] = Field(default_factory=dict)
    trials: int = Field(default=1, gt=0)
    limit: int | None = Field(default=None, gt=0)
    seed: int = Field(default=0, **_SEEDS)
    prompts: Path | None = None

    @field_validator("seats", mode="before")
    @classmethod
    def _named_models(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {
            seat: _named_model(model) if isinstance(model, str) else model
            for seat, model in value.items()
        }

    @model_validator(mode="after")
    def _sampled_seats_exist(self) -> RunSpec:
        for seat in self.sampling:
            if seat not in self.seats:
                raise ValueError(f"sampling names the seat {seat!r}, which no model sits on")
        return self


def secret(variable: str | None) -> str | None:
    """The secret in this environment variable; `ConfigError` if it is named but not set."""
    if variable is None:
        return None
    value = os.environ.get(variable)
    if not value:
        raise ConfigError(f"environment variable {variable} is not set; export it and run again")
    return value


def environment(variable: str, default: str) -> str:
    """A setting that is not a secret."""
    return os.environ.get(variable, default)


def database_url() -> str:
    """The database that the environment names in MMCONV_DATABASE_URL; "" if it names none."""
    return os.environ.get("MMCONV_DATABASE_URL", "")


def model_files() -> dict[str, Path]:
    """The shipped model files by name (the file's name without its suffix)."""
    folder = Path(str(resources.files("configs"))) / "models"
    files = sorted(folder.glob("*.yaml"), key=lambda path: path.stem)
    return {path.stem: path for path in files}


def load_model(name: str) -> ModelSpec:
    """A model by YAML path, by the name of a shipped file, or as `provider/model`.

    Raises `ConfigError` naming what was looked for.
    """
    if name.endswith(YAML_FILES):
        return read_spec(Path(name), ModelSpec)
    if name.startswith((".", "/", "~")):
        raise ConfigError(
            f"model {name!r} is a path, but neither a .yaml file nor of the form provider/model; "
            f"did you mean hf/{name} (a checkpoint's folder) or {name.rstrip('/')}.yaml?"
        )
    shipped = model_files()
    if name in shipped:
        return read_spec(shipped[name], ModelSpec)
    provider, slash, model = name.partition("/")
    if not slash or not provider or not model:
        raise ConfigError(
            f"model {name!r} is no shipped model (see `mmconv models`), no .yaml file, "
            f"and not of the form provider/model{nearest(name, list(shipped)) if not slash else ''}"
        )
    return ModelSpec(provider=provider, model=model)


def _named_model(name: str) -> ModelSpec:
    """A model as `load_model` finds it, under its file's name where it has none of its own."""
    model = load_model(name)
    if model.name or not name.endswith(YAML_FILES):
        return model
    return model.model_copy(update={"name": Path(name).stem})


def read_spec(path: Path, kind: type[Spec], overrides: Sequence[str] = ()) -> Spec:
    """Read a YAML file as a spec, with `a.b=value` overrides on top (values are YAML)."""
    return validate(kind, override(read_document(path), overrides), str(path))


def read_document(path: Path) -> dict[str, Any]:
    """Read a YAML file that holds a mapping; raises `ConfigError` naming the file."""
    document = read_yaml(path)
    if not isinstance(document, dict):
        found = "nothing" if document is None else f"a {type(document).__name__}"
        raise ConfigError(f"{path}: expected a mapping of fields (name: value), found {found}")
    return document


def read_yaml(path: Path) -> Any:
    """Read a YAML file; raises `ConfigError` naming the file, and the line of a repeated key."""
    try:
        return _parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except _RepeatedKey as error:
        raise ConfigError(f"{path} {error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error


class _RepeatedKey(yaml.YAMLError):
    """A mapping has one key twice."""


class _Loader(yaml.SafeLoader):
    """YAML by its own rule that a mapping has each key once; the library takes the last value."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        mapping = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in mapping.value:
            if isinstance(key, yaml.ScalarNode):
                name, line = (key.tag, key.value), key.start_mark.line + 1
                if name in lines:
                    raise _RepeatedKey(
                        f"line {line}: {key.value!r} stands on line {lines[name]} too"
                    )
                lines[name] = line
        return mapping


def _parse_yaml(text: str) -> Any:
    return yaml.load(text, _Loader)


def override(document: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """A copy of `document` with each `a.b=value` set; raises `ConfigError` for a bad one."""
    result = _copy(document)
    for item in overrides:
        dotted, equals, text = item.partition("=")
        if not equals or not dotted:
            raise ConfigError(f"--set {item!r}: expected field.field=value")
        try:
            value = _parse_yaml(text)
        except yaml.YAMLError as error:
            raise ConfigError(f"--set {item!r}: not YAML: {error}") from error
        set_field(result, dotted, value, f"--set {item!r}")
    return result


def set_field(document: dict[str, Any], dotted: str, value: Any, option: str) -> None:
    """Set the field `a.b` in place; a group on the way that is empty, or not there, is made.

    Raises `ConfigError` naming the option that asks for it, where the field lies below a value.
    """
    *parents, last = dotted.split(".")
    place = document
    for parent in parents:
        below = place.get(parent)
        if below is None:  # as YAML reads a group of which all fields are commented out
            below = place[parent] = {}
        if not isinstance(below, dict):
            raise ConfigError(f"{option}: {_why_no_group(parents, parent, below)}")
        place = below
    place[last] = value


def _why_no_group(parents: Sequence[str], parent: str, value: Any) -> str:
    """Why a field below `parent` cannot be set, and what to do if that is a model by its name."""
    if parents[0] in ("seats", "models") and len(parents) > 1:
        return (
            f"{'.'.join(parents[:2])} is {value!r}, a model by its name, of which no field can be "
            "set here; write a model file of your own that sets it, and name that"
        )
    return f"{parent!r} is a value, not a group of fields"


def validate(kind: type[Spec], document: Mapping[str, Any], where: str) -> Spec:
    """Validate a mapping as a spec; a `ConfigError` lists every field that is wrong."""
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        lines = [f"  {problem}" for problem in tell_problems(error, kind)]
        raise ConfigError("\n".join([f"{where}: wrong configuration", *lines])) from error


def tell_problems(error: ValidationError, kind: type[BaseModel]) -> list[str]:
    """All that is wrong with a document of this kind, field by field, in plain words."""
    return [_problem_line(problem, kind) for problem in error.errors()]


def _problem_line(problem: Mapping[str, Any], kind: type[BaseModel]) -> str:
    """One problem in plain words: the field, what is wrong with it, and the nearest right name."""
    place = [str(step) for step in problem["loc"]]
    name = ".".join(place)
    if problem["type"] == "missing":
        return f"{name} is needed and not set"
    if problem["type"] == "extra_forbidden":
        return f"{name} is no field here{nearest(place[-1], _fields_at(kind, place[:-1]))}"
    if problem["type"] == "model_type":
        own = ", ".join(_fields_at(kind, place))
        return f"{name} is no single value: set its fields ({own}), as in {name}.FIELD=VALUE"
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{name}: {message}" if name else message


def _fields_at(kind: type[BaseModel], place: Sequence[str]) -> list[str]:
    """The fields that a document of this kind has at a place; none where that is no model's."""
    found: Any = kind
    for step in place:
        found = _without_none(_type_below(found, step))
    return list(getattr(found, "model_fields", ()))


def _type_below(annotation: Any, step: str) -> Any:
    """The type of a model's field, or of what a mapping or list holds; None where there is none."""
    if hasattr(annotation, "model_fields"):
        field = annotation.model_fields.get(step)
        return None if field is None else field.annotation
    # The last of Mapping[str, X] and tuple[X, ...], the dots left out, is X.
    held = [each for each in get_args(annotation) if each is not ...]
    return held[-1] if held else None


def _without_none(annotation: Any) -> Any:
    """X where the type is X or None, any other type as it is."""
    members = get_args(annotation)
    if NoneType not in members:
        return annotation
    return next(each for each in members if each is not NoneType)


def nearest(word: str, known: Sequence[str]) -> str:
    """What to add to a message about an unknown name: the nearest known one, or all of them."""
    close = get_close_matches(word, known, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; there are: {', '.join(known)}" if 0 < len(known) <= 30 else ""


def _copy(document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _copy(value) if isinstance(value, Mapping) else value
        for key, value in document.items()
    }
