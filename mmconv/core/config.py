"""Configuration: what a run is, what a model is, and the only place that reads the environment.

Specs are frozen pydantic models that forbid unknown fields, read from YAML with `--set` overrides.
Options of a benchmark or a provider stay plain mappings here; whoever they belong to validates
them. No object is built from a spec here: that is `mmconv.engine.setup`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    StrictFloat,
    StrictInt,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from mmconv.core.documents import Misleading, describe_problems, nearest, parse_yaml
from mmconv.core.errors import ConfigError

Spec = TypeVar("Spec", bound=BaseModel)

YAML_FILES = (".yaml", ".yml")
"""How the names of configuration files end."""

_REFERENCE = re.compile(r"\$\{([^}]*)\}")
"""A variable of the environment, as `base_url` and others name it."""

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
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = ()

    @model_serializer(mode="wrap")
    def _what_is_set(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # A default that is written out would be read as an override.
        return {name: value for name, value in dump(self).items() if name in self.model_fields_set}


class PriceSpec(_Frozen):
    """Price per million tokens, in US dollars."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)


class AboutSpec(_Frozen):
    """What helps to choose a model, as its card says; nothing that it is asked depends on this."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    parameters: float | None = Field(default=None, gt=0)
    """Billions of parameters, of a mixture all of them."""
    images: bool | None = None
    """Whether it takes images; a run that would show some to a model that takes none is refused."""
    licence: str = ""
    """Its licence, as `mmconv models` prints it."""
    image_tokens: ImageTokens | None = None
    """How its server counts an image, for `--dry-run`: `each` tokens whatever its size, one for
    each `patch` x `patch` pixels, or `tile` for each of OpenAI's tiles; at `most` so many."""


class ModelSpec(_Frozen):
    """A model is data: which backend speaks to it, and how.

    `about` is no part of a run: it is never written out.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)

    provider: str
    """What speaks to it: openai (any compatible server), vllm, hf, pocket, ..., or a module."""
    model: str
    """The server's name of the model; for hf and vllm a hub name or a checkpoint's folder."""
    name: str = ""
    """What tables call it; if empty, as the file is called, or as `model` ends."""
    about: AboutSpec = Field(default=AboutSpec(), exclude=True)
    system: str | None = None
    """A system prompt that goes before every conversation that has none."""
    base_url: str | None = None
    """Where a server answers, like http://localhost:8000/v1; the environment fills in ${NAME}."""
    api_key_env: str | None = None
    """The environment variable that holds the key; OPENAI_API_KEY for openai without a URL."""
    max_concurrency: int | None = Field(default=None, gt=0)
    """Calls under way at once; else 64 for a server, 128 per rank of a vLLM that is started here,
    two batches for hf."""
    timeout: float = Field(default=600.0, gt=0)
    """Seconds after which a call to a server that has not answered counts as failed."""
    attempts: int = Field(default=8, gt=0)
    """How often a call is asked at most while it times out, is refused for its rate, and so on."""
    wait_for_server: float = Field(default=10.0, gt=0)
    """Seconds in which the server must take a first connection; more if it is still starting."""
    price: PriceSpec | None = None
    """Dollars per million tokens, `input` and `output`."""
    sampling: SamplingSpec | None = None
    """Goes before the benchmark's: temperature, top_p, max_tokens, seed, stop."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """What the provider takes besides, as `mmconv models --fields PROVIDER` lists it."""

    @property
    def address(self) -> str | None:
        """The `base_url` with what the environment says; `ConfigError` for what is not set."""
        return self.base_url and fill_in(self.base_url)[0]

    @property
    def key(self) -> str | None:
        """The key that `api_key_env` names; `ConfigError` where it is not set."""
        return secret(self.api_key_env)

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
    `name` is named after the file. `trials` repeats every sample so often. `limit` takes the first
    samples, with the seed `shuffle` so many at random; `samples` takes those of these keys.
    `sampling` overrides the benchmark's sampling by seat. `chosen` are the keys of the samples that
    a run of this specification chose when it was started; not a field, and None for a new run.
    """

    benchmark: str
    options: Mapping[str, Any] = Field(default_factory=dict)
    conditions: tuple[str, ...] | None = None
    seats: Mapping[str, ModelSpec]
    sampling: Mapping[str, SamplingSpec] = Field(default_factory=dict)
    trials: int = Field(default=1, gt=0)
    limit: int | None = Field(default=None, gt=0)
    shuffle: StrictInt | None = Field(default=None, **_SEEDS)
    samples: tuple[Annotated[str, Field(coerce_numbers_to_str=True)], ...] | None = Field(
        default=None, min_length=1
    )
    seed: int = Field(default=0, **_SEEDS)
    prompts: Path | None = None
    _chosen: tuple[str, ...] | None = PrivateAttr(default=None)

    @property
    def chosen(self) -> tuple[str, ...] | None:
        """Keys of the samples that the run chose when it was started, in its order."""
        return self._chosen

    def as_chosen(self, keys: tuple[str, ...] | None) -> RunSpec:
        """The same specification, for the run that chose the samples of these keys."""
        spec = self.model_copy()
        spec._chosen = keys
        return spec

    @field_validator("seats", mode="before")
    @classmethod
    def _named_models(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        for seat, model in value.items():
            if isinstance(model, list):
                raise ValueError(f"{seat!r} is a list; it takes one model: make a run for each")
            if isinstance(model, Mapping) and not {"provider", "model"} & model.keys():
                meant = nearest(str(seat), [str(other) for other in value if other != seat])
                raise ValueError(f"{seat!r} has no provider and no model{meant}")
        return {
            seat: _seat_fields(model) if isinstance(model, str) else model
            for seat, model in value.items()
        }

    @field_validator("sampling", mode="before")
    @classmethod
    def _by_seat(cls, value: Any) -> Any:
        for name in SamplingSpec.model_fields:
            if isinstance(value, Mapping) and name in value:
                raise ValueError(f"is set by seat, as in {{candidate: {{{name}: {value[name]}}}}}")
        return value

    @field_validator("samples")
    @classmethod
    def _in_order(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        # however they were named, it is the same run
        return None if value is None else tuple(sorted(set(value)))

    @model_validator(mode="after")
    def _goes_together(self) -> RunSpec:
        if self.samples is not None and (self.limit is not None or self.shuffle is not None):
            raise ValueError("samples names those that run: leave out limit and shuffle")
        if self.shuffle is not None and self.limit is None:
            raise ValueError("shuffle draws as many samples as limit says: set limit too")
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
        raise ConfigError(f"environment variable {variable} is not set; set it and start again")
    return value


def fill_in(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with what the environment says for each `${NAME}` in it, and all that was filled in.

    Raises `ConfigError` for a variable that is not set.
    """
    values = tuple(secret(name) or "" for name in _REFERENCE.findall(text))
    left = iter(values)
    return _REFERENCE.sub(lambda _: next(left), text), values


def environment(variable: str, default: str) -> str:
    """A setting that is not a secret."""
    return os.environ.get(variable, default)


def database_url() -> str:
    """The database that the environment names in MMCONV_DATABASE_URL; "" if it names none."""
    return os.environ.get("MMCONV_DATABASE_URL", "")


def model_files() -> dict[str, Path]:
    """The shipped model files by name (the file's name without its suffix)."""
    # beside this package, whatever else is called configs where a user works
    folder = Path(__file__).parents[2] / "configs" / "models"
    files = sorted(folder.glob("*.yaml"), key=lambda path: path.stem)
    return {path.stem: path for path in files}


def load_model(name: str) -> ModelSpec:
    """A model by YAML path, by the name of a shipped file, or as `provider/model`.

    Raises `ConfigError` naming what was looked for.
    """
    fields, where = _find_model(name)
    return validate(ModelSpec, fields, where)


def _find_model(name: str) -> tuple[dict[str, Any], str]:
    """The fields of a model that is named so, and where they stand."""
    if name.endswith(YAML_FILES):
        return read_document(Path(name)), name
    if name.startswith((".", "/", "~")):
        raise ConfigError(
            f"model {name!r} is a path, but neither a .yaml file nor of the form provider/model; "
            f"did you mean hf/{name} (a checkpoint's folder) or {name.rstrip('/')}.yaml?"
        )
    shipped = model_files()
    if name in shipped:
        return read_document(shipped[name]), str(shipped[name])
    provider, slash, model = name.partition("/")
    if not slash or not provider or not model:
        meant = nearest(name, list(shipped)) if not slash else ""
        if Path(f"{name}.yaml").is_file():
            meant = f"; did you mean {name}.yaml?"
        raise ConfigError(
            f"model {name!r} is no shipped model (see `mmconv models`), no .yaml file, "
            f"and not of the form provider/model{meant}"
        )
    return {"provider": provider, "model": model}, name


def _model_fields(name: str) -> dict[str, Any]:
    """The fields of the model that `load_model` finds; raises as that does."""
    fields, where = _find_model(name)
    validate(ModelSpec, fields, where)
    return fields


def _seat_fields(name: str) -> dict[str, Any]:
    """The same under the file's name, where that gives no other."""
    fields = _model_fields(name)
    if name.endswith(YAML_FILES) and not fields.get("name"):
        fields["name"] = Path(name).stem
    return fields


_MODELS = {"seats": _seat_fields, "models": _model_fields}
"""Groups of models, which may be names, and what such a name stands for there."""


def read_document(path: Path) -> dict[str, Any]:
    """Read a YAML file that holds a mapping; raises `ConfigError` naming the file."""
    document = read_yaml(path)
    if not isinstance(document, dict):
        found = "nothing" if document is None else f"a {type(document).__name__}"
        raise ConfigError(f"{path}: expected a mapping of fields (name: value), found {found}")
    return document


def read_yaml(path: Path) -> Any:
    """Read a YAML file; raises `ConfigError` naming the file, and the line of what misleads."""
    try:
        return parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path} line {line}: not UTF-8; save the file as UTF-8") from error
    except Misleading as error:
        raise ConfigError(f"{path} {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error


def override(document: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """A copy of `document` with each `a.b=value` set.

    Raises `ConfigError` for a bad one, and for one that undoes an earlier one.
    """
    result = deepcopy(dict(document))
    earlier: list[str] = []
    for item in overrides:
        dotted, equals, text = item.partition("=")
        if not equals or not dotted:
            raise ConfigError(f"--set {item!r}: expected field.field=value")
        try:
            value = parse_yaml(text)
        except yaml.YAMLError as error:
            fault = error if isinstance(error, Misleading) else f"not YAML: {error}"
            raise ConfigError(f"--set {item!r}: {fault}") from error
        if undone := [each for each in earlier if f"{each}.".startswith(f"{dotted}.")]:
            raise ConfigError(f"--set {item!r}: {undone[0]} was set before; leave one of them out")
        earlier.append(dotted)
        set_field(result, dotted, value, f"--set {item!r}")
    return result


def set_field(document: dict[str, Any], dotted: str, value: Any, option: str) -> None:
    """Set the field `a.b` in place; a group on the way that is empty, or not there, is made.

    A model by its name becomes the fields that the name stands for. Raises `ConfigError` naming the
    option that asks for it, where the field lies below a value.
    """
    *parents, last = dotted.split(".")
    place = document
    for depth, parent in enumerate(parents):
        below = place.get(parent)
        if below is None:  # as YAML reads a group of which all fields are commented out
            below = place[parent] = {}
        if isinstance(below, str) and depth == 1 and parents[0] in _MODELS:
            below = place[parent] = _MODELS[parents[0]](below)
        if not isinstance(below, dict):
            raise ConfigError(f"{option}: {parent!r} is a value, not a group of fields")
        place = below
    place[last] = value


def validate(kind: type[Spec], document: Mapping[str, Any], where: str) -> Spec:
    """Validate a mapping as a spec; a `ConfigError` lists every field that is wrong."""
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        lines = [f"  {problem}" for problem in describe_problems(error, kind)]
        raise ConfigError("\n".join([f"{where}: wrong configuration", *lines])) from error
