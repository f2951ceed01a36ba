"""Damage: a model of another provider whose images or answers are made worse in a known way.

Images are damaged before the model gets them, answers after it gave them. A report should attribute
the mistakes of a model that cannot see to perception, and those of one that loses its reasoning to
reasoning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal

from pydantic import Field, model_validator

from images.policy import blank, blur
from mmconv.core.config import ModelSpec
from mmconv.core.keys import hash_json
from mmconv.core.protocols import Backend, ImageSource, Renderer
from mmconv.core.types import Message, Reply, Sampling
from model_zoo.base import Fields
from model_zoo.providers import ProviderFunctions, provider_of

_REVISION = 2


class DamagedOptions(Fields):
    """Options of a model that is damaged on purpose, in its images or its answers or both."""

    provider: str
    """The model's own provider: hf, openai, ..., or a module."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """The options that its own provider takes."""
    picture: Literal["blur", "blank"] | None = None
    """What happens to every image before the model gets it."""
    radius: float = Field(default=0.1, gt=0, le=1)
    """How far an image is blurred, as a share of its longer side."""
    shuffled_turns: tuple[int, ...] = ()
    """Turns, counted from 1, whose answers lose the order of their words: the same answer always
    the same way."""

    @model_validator(mode="after")
    def _damages_something(self) -> DamagedOptions:
        if self.picture is None and not self.shuffled_turns:
            raise ValueError("nothing is damaged: set picture or shuffled_turns")
        return self


def damage(spec: ModelSpec, options: DamagedOptions) -> ProviderFunctions:
    """The provider of the whole model, with the damage around it."""
    whole = spec.model_copy(update={"provider": options.provider, "options": options.options})
    provider = provider_of(whole).of_model(whole)

    def shown(images: ImageSource) -> ImageSource:
        return images if options.picture is None else DamagedImages(images, options)

    def fingerprint(_spec: ModelSpec) -> str:
        damages = options.model_dump(mode="json", exclude={"provider", "options"})
        return hash_json(["damaged", _REVISION, provider.fingerprint(whole), damages])

    def open_renderer(_spec: ModelSpec, images: ImageSource) -> Renderer | None:
        return provider.open_renderer(whole, shown(images))

    async def open_backend(_spec: ModelSpec, images: ImageSource) -> Backend:
        backend = await provider.open_backend(whole, shown(images))
        return Damaged(backend, frozenset(options.shuffled_turns))

    return replace(
        provider,
        fingerprint=fingerprint,
        open_renderer=open_renderer,
        open_backend=open_backend,
        open_batches=None,
    )


@dataclass(frozen=True, slots=True)
class DamagedImages:
    """An image source that returns every image blurred or blank."""

    images: ImageSource
    options: DamagedOptions

    def read(self, sha256: str) -> bytes:
        """The damaged image in its own format, by the hash of the original."""
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
