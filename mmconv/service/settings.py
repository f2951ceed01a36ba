"""What an operator configures: models, data sets, tokens, limits. Read from YAML, never changed.

A client can name only what stands here. Paths are as the operator typed them, relative to where
the server was started. The database may also come from the environment (`mmconv.core.config`).
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    IPvAnyNetwork,
    field_validator,
    model_validator,
)

from images import Limits
from mmconv.core.config import ModelSpec, database_url, load_model
from mmconv.engine.run import Place

Scope = Literal["read", "chat", "run", "admin"]
"""What a token may do: see runs, ask models, run benchmarks; `admin` may do all of it.

`chat` includes what one needs to ask: the lists of models and prompts, one's own images and
dialogues. `run` includes `read`. What each route needs, `/docs` says.
"""

SCOPES: tuple[Scope, ...] = get_args(Scope)

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"

Name = Annotated[str, Field(pattern=NAME)]
"""A name that may stand in a URL and be a folder."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Sizes(_Frozen):
    """The largest request that is read; what is larger is refused before memory is spent on it.

    `body_bytes` bounds a request's body, `json_values` the values in it; `image_*` one image
    (bytes of its file, pixels of a frame, frames), `images` those of one request and
    `request_pixels` the pixels of all of them: a file of some kilobytes may hold millions. `turns`
    bounds the messages or turns of a dialogue, `text_length` the characters of one text;
    `max_tokens` what a client may ask a model to generate (where it asks for no number, the model's
    file or the benchmark gives one). A body must be there after `body_seconds`, and bodies under
    way take up at most `buffered_bytes` of memory as they came, and some times that while they are
    read; short ones are let in beyond that.
    """

    body_bytes: int = Field(default=64_000_000, gt=0)
    json_values: int = Field(default=20_000, gt=0)
    image_bytes: int = Field(default=20_000_000, gt=0)
    image_pixels: int = Field(default=50_000_000, gt=0)
    image_frames: int = Field(default=100, gt=0)
    images: int = Field(default=64, gt=0)
    request_pixels: int = Field(default=200_000_000, gt=0)
    turns: int = Field(default=200, gt=0)
    text_length: int = Field(default=400_000, gt=0)
    max_tokens: int = Field(default=65_536, gt=0)
    body_seconds: float = Field(default=120.0, gt=0)
    buffered_bytes: int = Field(default=1_000_000_000, gt=0)

    @property
    def image_limits(self) -> Limits:
        """The bounds of one image, as the door takes them."""
        return Limits(
            max_bytes=self.image_bytes,
            max_pixels=self.image_pixels,
            max_frames=self.image_frames,
        )


class Allowance(_Frozen):
    """What one token may use; None bounds nothing.

    `queued_calls` counts calls to models that wait or are under way for its synchronous requests,
    also after their clients have gone, `concurrent_runs` its runs that wait or are under way,
    `stored_bytes` the images it uploaded, `watchers` its requests that follow a run's events or
    wait for a dialogue.
    """

    requests_per_minute: int | None = Field(default=None, gt=0)
    queued_calls: int = Field(default=1024, gt=0)
    concurrent_runs: int = Field(default=8, gt=0)
    stored_bytes: int = Field(default=10_000_000_000, ge=0)
    watchers: int = Field(default=32, gt=0)


class TokenSpec(_Frozen):
    """A bearer token: its SHA-256 (hex), never itself; `name` owns what is uploaded and run."""

    name: Name
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    scopes: tuple[Scope, ...] = Field(min_length=1)
    limits: Allowance | None = None


class DataSpec(_Frozen):
    """A data set that runs may name: a benchmark, and those of its options that say where it lies.

    A run's own options go on top, and cannot change the ones given here.
    """

    benchmark: str
    options: Mapping[str, Any] = Field(default_factory=dict)


class Settings(_Frozen):
    """Everything a server is told when it starts.

    `models` maps public names to models: a shipped name, a YAML path, `provider/model`, or the
    fields of a model file. Those that `preload` names are loaded at once, others when they are
    asked for the first time. `prompts` is a folder that replaces our prompt files. `out` takes runs
    and uploads; `database` is a path or URL, by default a file in `out`. `limits` are those of
    tokens that have none of their own. `runs_at_once` runs are under way in this process,
    and as many long dialogues beside them: those of more than `synchronous_calls` calls. When it is
    told to end, the server waits `drain_seconds` for calls under way. `fetch_urls` lets clients
    name images by public https URLs. `trusted_proxies` are addresses or networks of proxies whose
    `X-Forwarded-For` the log believes.
    """

    models: Mapping[str, ModelSpec] = Field(min_length=1)
    preload: tuple[str, ...] = ()
    data: Mapping[Name, DataSpec] = Field(default_factory=dict)
    prompts: Path | None = None
    out: Path = Path("runs")
    database: str = ""
    tokens: tuple[TokenSpec, ...] = ()
    sizes: Sizes = Sizes()
    limits: Allowance = Allowance()
    runs_at_once: int = Field(default=2, gt=0)
    # ConvBench's own dialogue must fit: three turns under three conditions, in both gradings and
    # both orders, are 33 calls (6 of the model, 27 of the judge). 40 is that, rounded up.
    synchronous_calls: int = Field(default=40, ge=0)
    drain_seconds: float = Field(default=30.0, ge=0)
    fetch_urls: bool = False
    trusted_proxies: tuple[IPvAnyNetwork, ...] = ()
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)

    @field_validator("models", mode="before")
    @classmethod
    def _named_models(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        if "" in value:
            raise ValueError("a model has no name")
        return {
            name: load_model(model) if isinstance(model, str) else model
            for name, model in value.items()
        }

    @field_validator("tokens")
    @classmethod
    def _names_differ(cls, tokens: tuple[TokenSpec, ...]) -> tuple[TokenSpec, ...]:
        for what in ("name", "sha256"):
            given = [getattr(token, what) for token in tokens]
            if len(set(given)) < len(given):
                raise ValueError(f"two tokens have the same {what}")
        return tokens

    @model_validator(mode="after")
    def _preloads_what_it_serves(self) -> Settings:
        for name in self.preload:
            if name not in self.models:
                raise ValueError(f"preload: {name!r} is none of the models")
        return self

    @model_validator(mode="after")
    def _open_to_loopback_only(self) -> Settings:
        if not self.tokens and not self.is_loopback:
            raise ValueError(
                f"host {self.host!r} can be reached from outside, and there are no tokens: "
                "configure tokens, or bind to 127.0.0.1"
            )
        return self

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def place(self) -> Place:
        """Where runs are written, and the store that they share; the environment goes first."""
        return Place(out=self.out, store=database_url() or self.database)

    @property
    def uploads(self) -> Path:
        """The folder of uploaded images."""
        return self.out / "uploads"
