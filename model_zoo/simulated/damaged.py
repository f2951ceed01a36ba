"""Provider `damaged`: any model, made worse on purpose in a known way.

A report should attribute the mistakes of a model that cannot see to perception, and those of one
that loses its reasoning to reasoning. The model itself stays as it is: images are spoilt before it
gets them, and answers after it gave them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal

from pydantic import Field, model_validator

from images.spoiling import blank, blur
from mmconv.core.config import ModelSpec, validate
from mmconv.core.keys import hash_json
from mmconv.core.protocols import Backend, ImageSource, Renderer
from mmconv.core.types import Message, Reply, Sampling
from model_zoo.providers import ProviderFunctions, provider_of
from model_zoo.simulated.common import Frozen

_REVISION = 2


class DamagedOptions(Frozen):
    """Options of a model that is made worse on purpose; one at least of the damages is needed."""

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
    def _damages(self) -> DamagedOptions:
        if self.picture is None and not self.shuffled_turns:
            raise ValueError("nothing is damaged: set picture or shuffled_turns")
        return self


def fingerprint(spec: ModelSpec) -> str:
    """The model's own fingerprint, with what is done to it."""
    provider, own, options = _undamaged(spec)
    damage = options.model_dump(mode="json", exclude={"provider", "options"})
    return hash_json(["damaged", _REVISION, provider.fingerprint(own), damage])


def _delegated(name: str) -> Callable[[ModelSpec], Any]:
    """The function of this name of the model's own provider."""

    def delegate(spec: ModelSpec) -> Any:
        provider, own, _ = _undamaged(spec)
        return getattr(provider, name)(own)

    return delegate


check_key = _delegated("check_key")
check_sight = _delegated("check_sight")
check_ready = _delegated("check_ready")
facts = _delegated("facts")
guides_output = _delegated("guides_output")
probe = _delegated("probe")


def open_renderer(spec: ModelSpec, images: ImageSource) -> Renderer | None:
    """What its own provider makes of prompts, with the images that the model gets."""
    provider, own, options = _undamaged(spec)
    return provider.open_renderer(own, _shown(images, options))


async def open_backend(spec: ModelSpec, images: ImageSource) -> Damaged:
    """The damaged model; raises what its own provider raises."""
    provider, own, options = _undamaged(spec)
    backend = await provider.open_backend(own, _shown(images, options))
    return Damaged(backend, frozenset(options.shuffled_turns))


@dataclass(frozen=True, slots=True)
class SpoiltImages:
    """An image source that returns every image blurred or blank."""

    images: ImageSource
    options: DamagedOptions

    def read(self, sha256: str) -> bytes:
        """The spoilt image in its own format, by the hash of the original."""
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


def _shown(images: ImageSource, options: DamagedOptions) -> ImageSource:
    return images if options.picture is None else SpoiltImages(images, options)


def _undamaged(spec: ModelSpec) -> tuple[ProviderFunctions, ModelSpec, DamagedOptions]:
    """The model without its damage, its provider, and the damage."""
    options = validate(DamagedOptions, spec.options, f"model {spec.label}: options")
    own = spec.model_copy(update={"provider": options.provider, "options": options.options})
    return provider_of(own), own, options
