"""Writes a conversation as the text and the tensors that a checkpoint takes, images in place.

The checkpoint's own chat template is used unless an option gives another. Without a template (see
`model_zoo.chat_templates` for which architectures) a conversation becomes a plain transcript: the
system message if there is one, then `Question: ... Answer: ...` for every turn, ending with
`Answer:`. BLIP-2's paper asks questions in that form (section 4.2). What a template cannot express
is refused: nothing is merged, moved or left out.

Every prompt is encoded alone, by the checkpoint's own processor. Batches are put together from
these tensors later, so a prompt's tensors never depend on its neighbours. Nothing is truncated or
padded, whatever the tokenizer was saved with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from jinja2 import TemplateError

from images.policy import Policy, prepare_pixels
from mmconv.core.errors import ConfigError, Refused
from mmconv.core.protocols import ImageSource, RawPrompt
from mmconv.core.types import Image, Message, Text
from model_zoo.chat_templates import PLAIN, default_template, on_day
from model_zoo.hf.options import HfOptions

_TURN_MARKS = {"user": "Question: ", "assistant": "Answer: ", "system": ""}
_REASONING_ENDS = "</think>"
_WITHOUT_SYSTEM = (
    "go without a system message (leave `system` out of the model's file; if the benchmark writes "
    "it, `mmconv options BENCHMARK` says how to leave it out or send it as the user's), or "
)

Tensors: TypeAlias = Mapping[str, Any]
"""A model's inputs by name. Tensors, first dimension 1 or a count of images, patches or tiles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """A checkpoint's tokenizer and processor, which turn conversations into its inputs.

    `processor` is None if the model sees no images. `one_image` says that the architecture (a
    Q-Former) takes exactly one image, at the front.
    """

    tokenizer: Any
    processor: Any | None
    one_image: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A conversation as text; `special_tokens` says whether the tokenizer shall add its own."""

    text: str
    special_tokens: bool


def with_variables(writer: Writer, options: HfOptions, variables: Mapping[str, Any]) -> HfOptions:
    """The options with a call's own variables; `Refused` for one that the template lacks."""
    if unknown := _unknown(variables, _template_of(writer, options)[1]):
        raise Refused("rejected", f"the model's chat template has no variable {unknown}")
    return options.model_copy(update={"template_kwargs": {**options.template_kwargs, **variables}})


def check_template(name: str, writer: Writer, options: HfOptions) -> None:
    """Raise `ConfigError` for a template whose tokens the tokenizer of model `name` lacks."""
    tokenizer = writer.tokenizer
    template = _template_of(writer, options)[1] or ""
    tokens = [token for token in ("bos_token", "eos_token") if token in template]
    # a tokenizer that names others may lack these on purpose
    if tokens and not tokenizer.special_tokens_map:
        raise ConfigError(
            f"model {name}: its chat template writes {' and '.join(tokens)}, but its tokenizer has "
            "none, so that prompts would go without; put the tokenizer_config.json that belongs to "
            "it into its folder, or spell the tokens out in options.chat_template"
        )


def images_of(messages: Sequence[Message]) -> tuple[Image, ...]:
    """All images of a conversation, in order."""
    return tuple(image for message in messages for image in message.images)


def check_images(writer: Writer, messages: Sequence[Message]) -> None:
    """Raise `Refused` if the architecture does not take these images.

    That is any image for a model that sees none, other than one for a model that takes one, or a
    text that holds the mark of an image.
    """
    count = len(images_of(messages))
    if count and writer.processor is None:
        raise Refused("rejected", "this model sees no images; use a vision-language model")
    if writer.one_image and count != 1:
        raise Refused(
            "rejected", f"this architecture takes exactly one image per conversation, not {count}"
        )
    mark = image_mark(writer)
    if mark and any(mark in part.text for message in messages for part in _texts(message)):
        raise Refused("rejected", f"a message holds {mark!r}, which stands for an image here")


def render(writer: Writer, messages: Sequence[Message], options: HfOptions) -> Rendered:
    """The prompt for `messages`; raises `Refused`, and `ConfigError` for a wrong variable."""
    mark = image_mark(writer)
    speaker, template = _template_of(writer, options)
    if unknown := _unknown(options.template_kwargs, template):
        # a library may ignore a variable that its template does not use, without an error
        raise ConfigError(
            f"the chat template has no variable {unknown}; correct options.template_kwargs, or "
            "leave it out"
        )
    if template is None:
        inline = "" if writer.one_image else mark
        turns = [_TURN_MARKS[message.role] + _plain(message, inline) for message in messages]
        return Rendered(text=" ".join([*turns, "Answer:"]), special_tokens=True)
    as_parts = speaker is writer.processor
    dated = on_day(template, options.date)
    conversation = _conversation(messages, mark, as_parts)
    text = _apply_template(speaker, dated, conversation, options.template_kwargs)
    _check_complete(text, messages, mark)
    begin = writer.tokenizer.bos_token
    # a tokenizer's template is complete; a processor's may leave the first token to the tokenizer
    special = as_parts and not (begin and text.startswith(begin))
    return Rendered(text=text, special_tokens=special)


def image_mark(writer: Writer) -> str:
    """The mark of an image in a prompt's text; empty if the processor does not name one."""
    return str(getattr(writer.processor, "image_token", None) or "")


def _template_of(writer: Writer, options: HfOptions) -> tuple[Any, str | None]:
    processor, tokenizer, template = writer.processor, writer.tokenizer, options.chat_template
    if template == PLAIN:
        return tokenizer, None
    default = default_template(getattr(processor, "chat_template", None))
    if processor is not None and (template or default):
        return processor, template or default
    return tokenizer, template or default_template(tokenizer.chat_template)


def _unknown(variables: Mapping[str, Any], template: str | None) -> str:
    return ", ".join([name for name in variables if name not in (template or "")])


def _texts(message: Message) -> list[Text]:
    return [part for part in message.parts if isinstance(part, Text)]


def _conversation(messages: Sequence[Message], mark: str, as_parts: bool) -> list[dict[str, Any]]:
    return [
        {"role": message.role, "content": _parts(message) if as_parts else _plain(message, mark)}
        for message in messages
    ]


def _parts(message: Message) -> list[dict[str, str]]:
    return [
        {"type": "text", "text": part.text} if isinstance(part, Text) else {"type": "image"}
        for part in message.parts
    ]


def _plain(message: Message, mark: str) -> str:
    return "".join(part.text if isinstance(part, Text) else mark for part in message.parts)


def _apply_template(
    speaker: Any, template: str, conversation: list[dict[str, Any]], variables: Mapping[str, Any]
) -> str:
    try:
        written = speaker.apply_chat_template(
            conversation,
            chat_template=template,
            tokenize=False,
            add_generation_prompt=True,
            **variables,
        )
    except (TemplateError, TypeError, ValueError, KeyError) as error:
        roles = [message["role"] for message in conversation]
        raise Refused(
            "rejected",
            f"the chat template cannot write this conversation: {error} (roles here: "
            f"{', '.join(roles)}){_advice(*roles)}",
        ) from error
    return str(written)


def _advice(*roles: str) -> str:
    without = _WITHOUT_SYSTEM if "system" in roles else ""
    return f"; {without}give another template in the model's options.chat_template"


def _check_complete(text: str, messages: Sequence[Message], mark: str) -> None:
    """Templates may skip what they do not know, such as a system message, without an error."""
    images = len(images_of(messages))
    if mark and text.count(mark) != images:
        raise Refused(
            "rejected", f"the chat template made {text.count(mark)} places for {images} image(s)"
        )
    for message in messages:
        for part in _texts(message):
            if part.text.strip() not in text and _REASONING_ENDS not in part.text:
                raise Refused(
                    "rejected",
                    f"the chat template leaves out the text of a {message.role} message"
                    f"{_advice(message.role)}",
                )


def encode(
    writer: Writer, rendered: Rendered, pixels: Sequence[Any], size: Mapping[str, int] | None = None
) -> Tensors:
    """The inputs for one prompt; `pixels` are its images, decoded, in order.

    `size` replaces the processor's bounds of images. Raises `Refused` with the processor's message
    if it does not take them, or if it would fill the memory.
    """
    arguments: dict[str, Any] = {
        "text": [rendered.text],
        "return_tensors": "pt",
        "add_special_tokens": rendered.special_tokens,
        # without these, processors use the settings that the tokenizer was saved with
        "truncation": False,
        "padding": False,
    }
    if pixels:
        arguments["images"] = [list(pixels)]
        if size is not None:
            arguments["size"] = size
    try:
        return dict((writer.processor or writer.tokenizer)(**arguments))
    except MemoryError:
        message = "the images, as the processor scales them, do not fit into memory"
        raise Refused("memory", f"{message}: make them smaller") from None
    except ValueError as error:
        raise Refused("rejected", f"the processor does not take this prompt: {error}") from error


# --- prompts for people to read: the same text and tensors ---------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HfRenderer:
    """A `mmconv.core.protocols.Renderer` of one checkpoint.

    `size` replaces the processor's bounds of images. `complete` says that templates write all
    special tokens, so that the tokenizer adds none.
    """

    writer: Writer
    options: HfOptions
    policy: Policy
    images: ImageSource
    size: Mapping[str, int] | None = None
    complete: bool = False
    note: str = ""

    def __call__(self, messages: Sequence[Message]) -> RawPrompt:
        """The prompt; raises `Refused` and `ImageError` as `HfBackend.generate` does."""
        check_images(self.writer, messages)
        pictures = [
            prepare_pixels(self.images.read(image.sha256), image, self.policy)
            for image in images_of(messages)
        ]
        rendered = render(self.writer, messages, self.options)
        if self.complete:
            rendered = replace(rendered, special_tokens=False)
        tensors = encode(self.writer, rendered, pictures, self.size)
        tokenizer = self.writer.tokenizer
        # the special tokens that it adds to every text
        alone = tokenizer("")["input_ids"] if rendered.special_tokens else []
        added = [token for token in alone if token in tokenizer.all_special_ids]
        pixels = _of_images(tensors) if pictures else {}
        return RawPrompt(
            text=rendered.text,
            added=tuple(tokenizer.convert_ids_to_tokens(added)),
            tokens=int(tensors["input_ids"].shape[1]),
            image_tokens=_count_placeholders(self.writer, tensors) if pictures else 0,
            images=tuple((picture.width, picture.height) for picture in pictures),
            tensors={name: tuple(value.shape) for name, value in pixels.items()},
        )


def _of_images(tensors: Tensors) -> dict[str, torch.Tensor]:
    """The tensors that are not (1, prompt length, ...); ragged lists of tensors are left out."""
    whole = tensors["input_ids"].shape
    return {
        name: value
        for name, value in tensors.items()
        if isinstance(value, torch.Tensor) and value.shape[:2] != whole
    }


def _count_placeholders(writer: Writer, tensors: Tensors) -> int:
    image_id = getattr(writer.processor, "image_token_id", None)
    if image_id is None and (mark := image_mark(writer)):
        image_id = writer.tokenizer.convert_tokens_to_ids(mark)
    ids = tensors["input_ids"][0].tolist()
    # Molmo2 replaces its mark by other tokens
    image_ids = {image_id}
    if image_id not in ids:
        image_ids = set(getattr(writer.processor, "image_token_ids", ()))
    return sum(token in image_ids for token in ids)
