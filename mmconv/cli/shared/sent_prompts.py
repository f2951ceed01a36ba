"""How `mmconv show` prints a prompt: as messages, or raw, as the text that a tokenizer is given.

A raw prompt is made again by the model's provider, from what its checkpoint and its options are
today. Nothing is asked, and nothing is written down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ImageError, Refused
from mmconv.core.plans import Asked, Origin
from mmconv.core.protocols import ImageSource, Renderer
from mmconv.core.raw_prompts import RawImage, RawPrompt
from mmconv.core.turns import without_oldest
from mmconv.core.types import Image, Message, Outcome, Reply, Text
from model_zoo.providers import provider_of

INDENT = "    "
_BREAK = "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}"
_ORIGINS: Mapping[Origin, str] = {
    "given": "",
    "own": ", the model's own turn",
    "reference": ", reference turn",
    "prompt_file": ", the prompt file's",
    "model_file": ", the model file's",
}
_SPACE = "\N{OPEN BOX}"

PromptPrinter: TypeAlias = Callable[[Asked, Outcome], Iterator[str]]
"""The lines of one prompt."""


def as_messages(asked: Asked, outcome: Outcome) -> Iterator[str]:
    """The lines of the messages that were sent, and what pictures were sent as."""
    for message, origin in zip(asked.messages, asked.origins, strict=True):
        yield f"[{message.role}{_ORIGINS[origin]}]"
        for part in message.parts:
            if isinstance(part, Text):
                yield from (INDENT + row for row in part.text.split("\n"))
            elif isinstance(part, Image):
                yield INDENT + _picture(part, outcome)


def _picture(image: Image, outcome: Outcome) -> str:
    text = f"<{_name(image)}"
    if isinstance(outcome, Reply):
        for seen in outcome.seen:
            if seen.sha256 == image.sha256:
                kind = f"{seen.media_type}, " if seen.media_type else ""
                return f"{text}, sent as {kind}{seen.width}x{seen.height}>"
    return f"{text}>"


def _name(image: Image) -> str:
    return f"image {image.sha256[:12]}, {image.media_type}, {image.width}x{image.height}"


def open_renderers(
    models: Mapping[str, ModelSpec], images: ImageSource
) -> dict[str, Renderer | None]:
    """What writes the models' prompts, by seat; None where that is not known here. Blocks.

    Raises `ConfigError` as `open_renderer` of `Provider` does.
    """
    return {seat: provider_of(model).open_renderer(model, images) for seat, model in models.items()}


def about_raw(provider: str, renderer: Renderer | None) -> Iterator[str]:
    """What to know of the raw prompts of a seat."""
    if renderer is None:
        yield (
            f"no raw prompts: the provider {provider} writes none, and what a server makes of the "
            "messages is not known here"
        )
    elif renderer.note:
        yield renderer.note


def as_raw(renderers: Mapping[str, Renderer | None]) -> PromptPrinter:
    """Prints raw prompts, and messages where there is no renderer or it refuses them."""

    def lines(asked: Asked, outcome: Outcome) -> Iterator[str]:
        renderer = renderers[asked.call.seat]
        if renderer is None:
            yield from as_messages(asked, outcome)
            return
        messages = _kept(asked, outcome)
        try:
            prompt = renderer(messages)
        except (Refused, ImageError) as error:
            yield from as_messages(asked, outcome)
            yield f"no raw prompt: {error}"
            return
        yield f"[raw prompt; {_BREAK} is a line break, {_SPACE} a space at its end]"
        yield from _rows(prompt.text)
        yield _tokens(prompt, outcome)
        pictures = [image for message in messages for image in message.images]
        for picture, made in zip(pictures, prompt.images, strict=True):
            yield _made(picture, made, prompt.image_tokens)
        if prompt.tensors:
            yield f"tensors of pictures: {_shapes(prompt.tensors)}"

    return lines


def _kept(asked: Asked, outcome: Outcome) -> tuple[Message, ...]:
    """The messages that were answered in the end: the oldest may have been dropped."""
    messages = asked.messages
    for _ in range(outcome.dropped if isinstance(outcome, Reply) else 0):
        messages = without_oldest(messages, asked.call.pinned) or messages
    return messages


def _rows(text: str) -> Iterator[str]:
    """The text line by line, with signs for what could not be seen."""
    *rows, last = text.split("\n")
    yield from (f"{INDENT}{row}{_BREAK}" for row in rows)
    if last:
        seen = last.rstrip(" ")
        yield INDENT + seen + _SPACE * (len(last) - len(seen))


def _tokens(prompt: RawPrompt, outcome: Outcome) -> str:
    recorded = outcome.input_tokens if isinstance(outcome, Reply) else None
    if recorded is None:
        told = "none recorded"
    elif recorded == prompt.tokens:
        told = "as recorded"
    else:
        told = f"but {recorded} were recorded: the model was not given quite this"
    added = f"; the tokenizer adds {' '.join(prompt.added)}" if prompt.added else ""
    return f"{prompt.tokens} tokens in, {told}{added}"


def _made(picture: Image, made: RawImage, of_all: int) -> str:
    """One picture: what its processor was given, and what that made of it."""
    tokens = str(made.tokens or (f"some of {of_all}" if of_all else "no known"))
    sizes = f", {_shapes(made.sizes)}" if made.sizes else ""
    given = f"given to the processor as {made.width}x{made.height}"
    return f"<{_name(picture)}, {given}>: {tokens} tokens{sizes}"


def _shapes(shapes: Mapping[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in shapes.items())
