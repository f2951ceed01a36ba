"""Configuration: run and model specifications, and the only place that reads the environment.

Specifications are frozen pydantic models that forbid unknown fields, read from YAML with `--set`
overrides. Options of a benchmark or a provider are plain mappings here; it validates them itself.
`mmconv.engine.setup` builds objects from specifications.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

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

from mmconv.core.documents import (
    Misleading,
    describe_problems,
    nearest,
    parse_yaml,
    read_document,
    validate,
)
from mmconv.core.errors import ConfigError
from mmconv.core.judges import spread_judges

YAML_FILES = (".yaml", ".yml")

_REFERENCE = re.compile(r"\$\{([^}]*)\}")

PIXELS_PER_TOKEN = 750.0
"""Pixels per token of a model whose file has no rule: about the value of most models."""

_TILE, _LONGER, _SHORTER = 512, 2048, 768
"""Side of OpenAI's tiles in pixels, and the bounds of the image that is cut into them."""

_SEEDS: dict[str, Any] = {"ge": -(2**63), "lt": 2**63}
"""The seeds that JSON, and so a content key, can hold."""


Replicas: TypeAlias = Annotated[StrictInt, Field(gt=0)] | Literal["auto"]


class Strict(BaseModel):
    """Fields that never change, described by their docstrings; others are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class SamplingSpec(Strict):
    """Overrides of a benchmark's sampling; fields that are not set keep the benchmark's values.

    `temperature` and `top_p` may be null: then the server's default applies.
    """

    temperature: StrictFloat | None = Field(default=0.0, ge=0)
    top_p: StrictFloat | None = Field(default=None, gt=0, le=1)
    max_tokens: StrictInt = Field(default=1024, gt=0)
    seed: StrictInt | None = Field(default=None, **_SEEDS)
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = ()

    @model_serializer(mode="wrap")
    def _what_is_set(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # a default that is written would be read as an override
        return {name: value for name, value in dump(self).items() if name in self.model_fields_set}


class PriceSpec(Strict):
    """Price per million tokens, in US dollars. The default of `cached_input` is `input`."""

    input: float = Field(ge=0)
    cached_input: float | None = Field(default=None, ge=0)
    output: float = Field(ge=0)


class ImageTokens(Strict):
    """How many tokens an image takes: the sum of the fields that are set, at most `most`."""

    each: int = Field(default=0, ge=0)
    """Of an image of any size."""
    patch: int | None = Field(default=None, gt=0)
    """One for each square with this side in pixels."""
    tile: int = Field(default=0, ge=0)
    """For each of OpenAI's tiles, which are cut after the image was scaled down."""
    most: int | None = Field(default=None, gt=0)
    """The bound that the server scales larger images down to."""

    @model_validator(mode="after")
    def _counts(self) -> ImageTokens:
        if not (self.each or self.patch or self.tile):
            raise ValueError("set each, patch or tile")
        return self

    def count(self, width: int, height: int) -> int:
        """The tokens of an image of this size in pixels, as it is sent."""
        tokens = self.each
        if self.patch is not None:
            tokens += ceil(width / self.patch) * ceil(height / self.patch)
        if self.tile:
            tokens += self.tile * _count_tiles(width, height)
        return tokens if self.most is None else min(tokens, self.most)

    def __str__(self) -> str:
        terms = {
            f"{self.each:,}": self.each,
            f"one for each {self.patch} x {self.patch} pixels": self.patch,
            f"{self.tile:,} for each tile of {_TILE} x {_TILE} pixels": self.tile,
        }
        bound = "" if self.most is None else f", at most {self.most:,}"
        return " and ".join(text for text, is_set in terms.items() if is_set) + bound


class AboutSpec(Strict):
    """Metadata from a model's card that helps to choose a model; it changes no request."""

    parameters: float | None = Field(default=None, gt=0)
    """Billions of parameters; of a mixture of experts the total."""
    images: bool | None = None
    """Whether it accepts images; a run that would send images to a text model is refused."""
    licence: str = ""
    """Its licence, as `mmconv models` prints it."""
    image_tokens: ImageTokens | None = None
    """How its server counts an image, for `--dry-run`: `each` tokens whatever its size, one for
    each `patch` x `patch` pixels, or `tile` for each of OpenAI's tiles; no more than `most`."""


class RayOptions(Strict):
    """Options of `provider: ray`, the long form of a model file with `replicas`."""

    provider: str
    """What every replica opens: hf, vllm, pocket, ..., or a module."""
    replicas: Replicas | None = 1
    """Copies of the model; auto: as many as the GPUs of Ray's cluster allow."""
    gpus: float | None = Field(default=None, ge=0)
    """GPUs of each replica."""
    detached: bool = False
    """Whether other processes share the replicas."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """What that provider takes."""


class ModelSpec(Strict):
    """A model as data: which provider runs it, and how.

    `about` is not part of a run, and never written to its files. `provider: ray` is read as the
    provider in its options with `replicas`.
    """

    provider: str
    """What speaks to it: openai (any compatible server), vllm, hf, pocket, ..., or a module."""
    model: str
    """The server's name of the model; for hf and vllm a hub name or a checkpoint's folder."""
    name: str = ""
    """The label in tables; by default the file's name, or the end of `model`."""
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
    """Maximum attempts of a call that times out, fails to connect, and so on."""
    wait_for_server: float = Field(default=10.0, gt=0)
    """Seconds in which the server must take a first connection; more if it is still starting."""
    batch: bool = False
    """Whether requests are sent in batches: half the price, and replies within a day."""
    replicas: Replicas | None = None
    """Copies in Ray actors (auto: as many as the cluster's GPUs allow); not set: without Ray."""
    gpus: float | None = Field(default=None, ge=0)
    """GPUs of each replica, such as 0.5; default: as many as vLLM's parallel sizes need, else 1 for
    a model that has weights, and 0 if Ray's cluster has none."""
    detached: bool = False
    """Whether all processes that open the model on Ray's cluster share its replicas, which end a
    minute after the last of these processes. A server's always do."""
    price: PriceSpec | None = None
    """Dollars per million tokens: input, output, and cached_input (read from a server's cache)."""
    sampling: SamplingSpec | None = None
    """Overrides the benchmark's: temperature, top_p, max_tokens, seed, stop."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """The provider's own options; `mmconv models --fields PROVIDER` lists them."""

    @model_validator(mode="before")
    @classmethod
    def _read_ray(cls, value: Any) -> Any:
        if not (isinstance(value, Mapping) and value.get("provider") == "ray"):
            return value
        try:
            ray = RayOptions.model_validate(value.get("options") or {})
        except ValidationError as error:
            problems = describe_problems(error, RayOptions)
            raise ValueError("; ".join(f"options.{problem}" for problem in problems)) from error
        spread = {"replicas": ray.replicas, "gpus": ray.gpus, "detached": ray.detached}
        return {**spread, **value, "provider": ray.provider, "options": ray.options}

    @property
    def address(self) -> str | None:
        """The `base_url` with what the environment says; `ConfigError` for what is not set."""
        return self.base_url and fill_in(self.base_url)[0]

    @property
    def key(self) -> str | None:
        """The key that `api_key_env` names; `ConfigError` where it is not set."""
        return secret(self.api_key_env)

    @property
    def is_reference(self) -> bool:
        """Whether the references of the benchmark's data are replayed as its replies."""
        return (self.provider, self.model) == ("replay", REFERENCE)

    @property
    def label(self) -> str:
        """The name that tables print: `name` if given, else the last part of `model`."""
        return self.name or self.model.rstrip("/").rsplit("/", 1)[-1] or self.provider


REFERENCE = "reference"
"""The name of the model whose replies are the references of the benchmark's data."""

CANDIDATE = "candidate"
"""The role that every benchmark has: the model that is evaluated."""


class RunSpec(Strict):
    """One run of one benchmark: everything that decides its numbers, and nothing else.

    - `models` maps model roles (candidate, judge) to models; a model file without `name` is named
      after the file; several judges are a list;
    - `sampling` overrides the benchmark's sampling by role;
    - `trials`: run each sample this many times;
    - `limit`: run the first samples only, or with the seed `shuffle` as many at random;
    - `samples`: run the samples with these keys only.

    `chosen` is not a field: the keys of the samples that the run chose when it was started, None
    for a new run.
    """

    benchmark: str
    options: Mapping[str, Any] = Field(default_factory=dict)
    conditions: tuple[str, ...] | None = None
    models: Mapping[str, ModelSpec]
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
        """The keys of the samples that the run chose when it was started, in their order."""
        return self._chosen

    def as_chosen(self, keys: tuple[str, ...] | None) -> RunSpec:
        """A copy of the specification for a run that chose these samples."""
        spec = self.model_copy()
        spec._chosen = keys
        return spec

    @model_validator(mode="before")
    @classmethod
    def _accept_seats(cls, value: Any) -> Any:
        return spread_judges(accept_seats(value))

    @field_validator("models", mode="before")
    @classmethod
    def _named_models(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        for role, model in value.items():
            if isinstance(model, list):
                raise ValueError(f"{role!r} is a list; it takes one model: make a run for each")
            if isinstance(model, Mapping) and not {"provider", "model"} & model.keys():
                meant = nearest(str(role), [str(other) for other in value if other != role])
                raise ValueError(f"{role!r} has no provider and no model{meant}")
        return {
            role: _model_fields(model, in_run=True) if isinstance(model, str) else model
            for role, model in value.items()
        }

    @field_validator("sampling", mode="before")
    @classmethod
    def _by_role(cls, value: Any) -> Any:
        for name in SamplingSpec.model_fields:
            if isinstance(value, Mapping) and name in value:
                raise ValueError(
                    f"is set by model role, as in {{candidate: {{{name}: {value[name]}}}}}"
                )
        return value

    @field_validator("samples")
    @classmethod
    def _in_order(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        # the order of the list does not make another run
        return None if value is None else tuple(sorted(set(value)))

    @model_validator(mode="after")
    def _goes_together(self) -> RunSpec:
        if self.samples is not None and (self.limit is not None or self.shuffle is not None):
            raise ValueError("samples names the samples to run: leave out limit and shuffle")
        if self.shuffle is not None and self.limit is None:
            raise ValueError("shuffle draws limit samples at random: set limit too")
        for role in self.sampling:
            if role not in self.models:
                raise ValueError(f"sampling names the role {role!r}, which has no model")
        return self


def secret(variable: str | None) -> str | None:
    """The value of this environment variable; raises `ConfigError` if it is not set."""
    if variable is None:
        return None
    value = os.environ.get(variable)
    if not value:
        raise ConfigError(f"environment variable {variable} is not set; set it and start again")
    return value


def fill_in(text: str) -> tuple[str, tuple[str, ...]]:
    """Fill in each `${NAME}`; also returns the values. `ConfigError` for one that is not set."""
    values = tuple(secret(name) or "" for name in _REFERENCE.findall(text))
    remaining = iter(values)
    return _REFERENCE.sub(lambda _: next(remaining), text), values


def ray_address() -> str:
    """The address of Ray's cluster in RAY_ADDRESS; "local" starts Ray on this machine."""
    return os.environ.get("RAY_ADDRESS") or "local"


def use_ray(address: str) -> None:
    """Have models with `replicas` run on the cluster at this address."""
    os.environ["RAY_ADDRESS"] = address


def database_url() -> str:
    """The database in the environment variable MMCONV_DATABASE_URL, or ""."""
    return os.environ.get("MMCONV_DATABASE_URL", "")


def model_files() -> dict[str, Path]:
    """The shipped model files by name (the file's name without its suffix)."""
    # next to this package, not a folder of this name in the working directory
    folder = Path(__file__).parents[2] / "configs" / "models"
    files = sorted(folder.glob("*.yaml"), key=lambda path: path.stem)
    return {path.stem: path for path in files}


def load_model(name: str) -> ModelSpec:
    """Load a model by YAML path, shipped name or `provider/model`; raises `ConfigError`."""
    fields, where = _find_model(name)
    return validate(ModelSpec, fields, where)


def _find_model(name: str) -> tuple[dict[str, Any], str]:
    if name.endswith(YAML_FILES):
        return read_document(Path(name)), name
    if name.startswith((".", "/", "~")):
        raise ConfigError(
            f"model {name!r} is a path, but neither a .yaml file nor of the form provider/model; "
            f"did you mean hf/{name} (a checkpoint's folder) or {name.rstrip('/')}.yaml?"
        )
    if name == REFERENCE:
        return {"provider": "replay", "model": REFERENCE}, name
    shipped = model_files()
    if name in shipped:
        return read_document(shipped[name]), str(shipped[name])
    provider, slash, model = name.partition("/")
    if provider and model:
        return {"provider": provider, "model": model}, name
    meant = nearest(name, list(shipped)) if not slash else ""
    if Path(f"{name}.yaml").is_file():
        meant = f"; did you mean {name}.yaml?"
    raise ConfigError(
        f"model {name!r} is not a shipped model (see `mmconv models`), not a .yaml file, "
        f"and not of the form provider/model{meant}"
    )


def _model_fields(name: str, *, in_run: bool) -> dict[str, Any]:
    """The fields of a model; in a run it is named after its file unless that sets a name."""
    fields, where = _find_model(name)
    validate(ModelSpec, fields, where)
    if in_run and name.endswith(YAML_FILES) and not fields.get("name"):
        fields["name"] = Path(name).stem
    return fields


def accept_seats(document: Any) -> Any:
    """A document with the field `models`, which was called `seats` until 0.1.0."""
    if isinstance(document, Mapping) and "seats" in document and "models" not in document:
        return {"models" if name == "seats" else name: document[name] for name in document}
    return document


def override(document: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """A copy of `document` with each `a.b=value` set; raises `ConfigError` for a bad one."""
    result = deepcopy(dict(document))
    for item in overrides:
        dotted, equals, text = item.partition("=")
        if not equals or not dotted:
            raise ConfigError(f"--set {item!r}: expected field.field=value")
        try:
            value = parse_yaml(text)
        except yaml.YAMLError as error:
            fault = error if isinstance(error, Misleading) else f"not YAML: {error}"
            raise ConfigError(f"--set {item!r}: {fault}") from error
        set_field(result, re.sub(r"^seats\b", "models", dotted), value, f"--set {item!r}")
    return result


def set_field(document: dict[str, Any], dotted: str, value: Any, option: str) -> None:
    """Set the field `a.b` in place; missing or empty groups on the way are created.

    A model's name is replaced by its fields. Raises `ConfigError` with the name of the option if
    a parent is a value.
    """
    *parents, last = dotted.split(".")
    place = document
    for depth, parent in enumerate(parents):
        below = place.get(parent)
        if below is None:  # as YAML reads a group whose fields are all commented out
            below = place[parent] = {}
        if isinstance(below, str) and depth == 1 and parents[0] == "models":
            # a served model keeps its public name
            below = place[parent] = _model_fields(below, in_run="benchmark" in document)
        if not isinstance(below, dict):
            raise ConfigError(f"{option}: {parent!r} is a value, not a group of fields")
        place = below
    place[last] = value


def _count_tiles(width: int, height: int) -> int:
    # fractions, since rounding must not make 2048 pixels slightly more, and so one more tile
    longer, shorter = max(width, height), min(width, height)
    scale = min(Fraction(1), Fraction(_LONGER, longer), Fraction(_SHORTER, shorter))
    return ceil(width * scale / _TILE) * ceil(height * scale / _TILE)
