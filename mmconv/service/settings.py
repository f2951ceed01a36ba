"""The operator's settings: models, datasets, tokens, limits. Read from YAML, never changed.

A client can name only what is configured here. Relative paths start from the working directory of
the server. The environment may name the database (`mmconv.core.config`).
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    Field,
    IPvAnyNetwork,
    field_validator,
    model_validator,
)

from images import Limits
from mmconv.core.config import ModelSpec, Strict, database_url, load_model
from mmconv.engine.run import Place

Scope = Literal["read", "chat", "run", "admin"]
"""What a token may do: read runs, call models, run benchmarks, or everything (`admin`).

`chat` includes the lists of models and prompts, and the token's own images and dialogues. `run`
includes `read`. `/docs` names the scopes of each route.
"""

SCOPES: tuple[Scope, ...] = get_args(Scope)

OWN_DATA = "dataset-"
"""How the ids of clients' own datasets begin, and those of the runs of them."""

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"

Name = Annotated[str, Field(pattern=NAME)]
"""A name that is valid in a URL and as a folder."""


class Sizes(Strict):
    """Limits of a request. Larger ones are refused before they take up memory.

    `body_bytes` bounds the body, `json_values` the values in it, `image_*` one image (bytes of its
    file, pixels of a frame, frames), `images` the images of a request, `request_pixels` the pixels
    of all of them: a file of some kilobytes may hold millions. `turns` bounds the messages or turns
    of a dialogue, `text_length` the characters of one text, `max_tokens` the tokens that a client
    may request. A body must arrive within `body_seconds`. All bodies in transfer take up at most
    `buffered_bytes` as sent, and a few times that while they are parsed; short ones are always
    accepted. `dataset_bytes` bounds a client's dataset as sent and unpacked, `dataset_records` its
    records, `body_bytes` a file of its records; as many bytes more may take `body_seconds` more.
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
    dataset_bytes: int = Field(default=1_000_000_000, gt=0)
    dataset_records: int = Field(default=20_000, gt=0)

    @property
    def image_limits(self) -> Limits:
        """The limits of one image, as the decoder takes them."""
        return Limits(
            max_bytes=self.image_bytes,
            max_pixels=self.image_pixels,
            max_frames=self.image_frames,
        )


class Allowance(Strict):
    """What one token may use; None means unlimited.

    `queued_calls` bounds the calls to models that wait or run for its synchronous requests, even
    after their clients left, `concurrent_runs` its runs that wait or run, `stored_bytes` the images
    and datasets that it sent, `watchers` its requests that follow a run's events or wait for a
    dialogue.
    """

    requests_per_minute: int | None = Field(default=None, gt=0)
    queued_calls: int = Field(default=1024, gt=0)
    concurrent_runs: int = Field(default=8, gt=0)
    stored_bytes: int = Field(default=10_000_000_000, ge=0)
    watchers: int = Field(default=32, gt=0)


class TokenSpec(Strict):
    """A bearer token, by its SHA-256 (hex). `name` owns what is uploaded and run."""

    name: Name
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    scopes: tuple[Scope, ...] = Field(min_length=1)
    limits: Allowance | None = None


class DataSpec(Strict):
    """A dataset that runs may name: a benchmark and the options that locate its files.

    A run may add options, and cannot change these.
    """

    benchmark: str
    options: Mapping[str, Any] = Field(default_factory=dict)


class Settings(Strict):
    """All settings of a server.

    `models` maps public names to models: a shipped name, a YAML path, `provider/model`, or the
    fields of a model file. Those in `preload` are loaded at the start, others on first use.
    `prompts` is a folder that replaces our prompt files. `out` takes runs and uploads; `database`
    is a path or URL, by default a file in `out`. `limits` apply to tokens without their own. This
    process runs `runs_at_once` runs at a time, and as many dialogues of more than
    `synchronous_calls` calls. On shutdown it waits `drain_seconds` for calls under way.
    `fetch_urls` lets clients name images by public https URLs. `trusted_proxies` are addresses or
    networks of proxies whose `X-Forwarded-For` is used in the log. `webhook_networks` are private
    networks to which runs may post their end, also by http.
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
    webhook_networks: tuple[IPvAnyNetwork, ...] = ()
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

    @field_validator("data")
    @classmethod
    def _names_are_free(cls, data: Mapping[str, DataSpec]) -> Mapping[str, DataSpec]:
        for name in data:
            if name.startswith(OWN_DATA):
                raise ValueError(f"{name}: {OWN_DATA!r} begins the ids of clients' own datasets")
        return data

    @field_validator("tokens")
    @classmethod
    def _names_differ(cls, tokens: tuple[TokenSpec, ...]) -> tuple[TokenSpec, ...]:
        for field in ("name", "sha256"):
            if len({getattr(token, field) for token in tokens}) < len(tokens):
                raise ValueError(f"two tokens have the same {field}")
        return tokens

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        for name in self.preload:
            if name not in self.models:
                raise ValueError(f"preload: {name!r} is none of the models")
        if not self.tokens and not self.is_loopback:
            raise ValueError(
                f"host {self.host!r} can be reached from outside, but no tokens are configured: "
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
        """The folder of runs and their store. The environment overrides the settings."""
        return Place(out=self.out, store=database_url() or self.database)

    def prompt_folder(self, name: str) -> Path | None:
        """The folder that replaces this set of prompts, whole or in part, if any."""
        folder = self.prompts and self.prompts / name
        return folder if folder and folder.is_dir() else None

    @property
    def uploads(self) -> Path:
        """The folder of uploaded images."""
        return self.out / "uploads"
