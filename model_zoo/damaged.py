"""Provider `damaged`: any model, made worse on purpose where one knows it.

A report should lay the mistakes of a model that cannot see to perception, and those of a model that
loses its reasoning to reasoning; with this provider that is a run and not a belief. The model
itself stays as it is: pictures are spoilt before it gets them, and answers after it gave them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from images.spoiling import blank, blur
from mmconv.config import ModelSpec, validate
from mmconv.keys import hash_json
from mmconv.protocols import Backend, ImageSource, Renderer
from mmconv.values import Message, Reply, Sampling
from model_zoo.providers import ProviderFunctions, provider_of

_REVISION = 2
"""Raised when the same request would get another reply, so that keys change too."""


class DamagedOptions(BaseModel):
    """Options of a model that is made worse on purpose; one at least of the damages is needed."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    provider: str
    """The model's own provider: hf, openai, ..., or a module."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """The options that its own provider takes."""
    picture: Literal["blur", "blank"] | None = None
    """What becomes of every picture before the model gets it."""
    radius: float = Field(default=0.1, gt=0, le=1)
    """How far a picture is blurred, as a share of its longer side."""
    shuffled_turns: tuple[int, ...] = ()
    """Turns, counted from 1, whose answers lose the order of their words: the same answer always
    the same way."""

    @model_validator(mode="after")
    def _damages(self) -> DamagedOptions:
        if self.picture is None and not self.shuffled_turns:
            raise ValueError("nothing is damaged: set picture or shuffled_turns")
        return self


def fingerprint(spec: ModelSpec) -> str:
    """The model's own fingerprint, with what is done to it."""
    provider, own = _whole(spec)
    told = _options(spec).model_dump(mode="json", exclude={"provider", "options"})
    return hash_json(["damaged", _REVISION, provider.fingerprint(own), told])


def _of_the_whole_one(name: str) -> Callable[[ModelSpec], Any]:
    """The function of this name that the model's own provider has."""

    def ask(spec: ModelSpec) -> Any:
        provider, own = _whole(spec)
        return getattr(provider, name)(own)

    return ask


check_key = _of_the_whole_one("check_key")
check_sight = _of_the_whole_one("check_sight")
check_ready = _of_the_whole_one("check_ready")
facts = _of_the_whole_one("facts")
guides_output = _of_the_whole_one("guides_output")
probe = _of_the_whole_one("probe")


def open_renderer(spec: ModelSpec, images: ImageSource) -> Renderer | None:
    """What its own provider makes of prompts, with the pictures that the model gets."""
    provider, own = _whole(spec)
    return provider.open_renderer(own, _shown(images, _options(spec)))


async def open_backend(spec: ModelSpec, images: ImageSource) -> Damaged:
    """The model behind its damage; raises what its own provider raises."""
    options = _options(spec)
    provider, own = _whole(spec)
    backend = await provider.open_backend(own, _shown(images, options))
    return Damaged(backend, frozenset(options.shuffled_turns))


@dataclass(frozen=True, slots=True)
class SpoiltImages:
    """An image source that gives every picture out blurred or blank."""

    images: ImageSource
    options: DamagedOptions

    def read(self, sha256: str) -> bytes:
        """The spoilt picture in its own format, under the hash of the whole one."""
        data = self.images.read(sha256)
        return blank(data) if self.options.picture == "blank" else blur(data, self.options.radius)


@dataclass(frozen=True, slots=True)
class Damaged:
    """A backend whose answers to some turns lose the order of their words."""

    backend: Backend
    shuffled_turns: frozenset[int]

    @property
    def max_concurrency(self) -> int:
        """The model's own."""
        return self.backend.max_concurrency

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        """Answer once, and shuffle the words if the turn is one of those; raises as the model."""
        reply = await self.backend.generate(messages, sampling, affinity=affinity)
        turn = sum(message.role == "user" for message in messages)
        if turn not in self.shuffled_turns:
            return reply
        return replace(reply, text=shuffle_words(reply.text))

    async def aclose(self) -> None:
        """Close the model."""
        await self.backend.aclose()


def shuffle_words(text: str) -> str:
    """The words of `text` in an order that follows from the text alone."""
    words = text.split()
    Random(text).shuffle(words)
    return " ".join(words)


def _options(spec: ModelSpec) -> DamagedOptions:
    return validate(DamagedOptions, spec.options, f"model {spec.label}: options")


def _shown(images: ImageSource, options: DamagedOptions) -> ImageSource:
    return images if options.picture is None else SpoiltImages(images, options)


def _whole(spec: ModelSpec) -> tuple[ProviderFunctions, ModelSpec]:
    """The model as it is without its damage, and what speaks to it."""
    options = _options(spec)
    own = spec.model_copy(update={"provider": options.provider, "options": options.options})
    return provider_of(own), own
