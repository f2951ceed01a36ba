"""Writes a conversation as the text that a checkpoint expects, images in their places.

The checkpoint's own chat template is used unless an option gives another. Where there is none to be
(`model_zoo.chat_templates` says for whom) a conversation becomes a plain transcript: the system
message if there is one, then for every turn `Question: ... Answer: ...`, ending with `Answer:`, the
form that BLIP-2's paper asks questions in (section 4.2), carried over to several turns. What a
template cannot express is refused: nothing is merged, moved or left out.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError

from mmconv.core.errors import ConfigError, Refused
from mmconv.core.types import Image, Message, Text
from model_zoo.chat_templates import PLAIN, default_template, on_day, read_template
from model_zoo.hf.options import HfOptions
from model_zoo.hf.writer import Writer

_TURN_MARKS = {"user": "Question: ", "assistant": "Answer: ", "system": ""}
_REASONING_ENDS = "</think>"
_WITHOUT_SYSTEM = (
    ", or go without a system message: leave `system` out of the model's file, and in a run of "
    "BotChat set options.prompt_role=user"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A conversation as text; `special_tokens` says whether the tokenizer shall add its own."""

    text: str
    special_tokens: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """What options say of how conversations are written.

    `template` replaces the checkpoint's chat template; `PLAIN` makes a transcript. `variables` are
    the template's, `day` is today to it.
    """

    template: str | None
    variables: Mapping[str, Any]
    day: datetime.date


def read_wording(options: HfOptions) -> Wording:
    """What these options say; raises `ConfigError` for a file that cannot be read."""
    return Wording(
        template=read_template(options.chat_template),
        variables=options.template_kwargs,
        day=options.date,
    )


def check_wording(
    name: str, writer: Writer, wording: Wording, embeddings: int | None = None
) -> None:
    """Raise `ConfigError` for a template whose tokens the checkpoint does not have.

    `name` is the model's, `embeddings` how many tokens it has embeddings of (None: not known).
    """
    tokenizer = writer.tokenizer
    template = _template_of(writer, wording.template)[1] or ""
    named = [token for token in ("bos_token", "eos_token") if token in template]
    # a tokenizer that names others may go without these on purpose
    if named and not tokenizer.special_tokens_map:
        raise ConfigError(
            f"model {name}: its chat template writes {' and '.join(named)}, but its tokenizer has "
            "none, so that prompts would go without; put the tokenizer_config.json that belongs to "
            "it into its folder, or spell the tokens out in options.chat_template"
        )
    if embeddings is None:
        return
    with suppress(Refused):  # what it does not take is told of each prompt
        text = render(writer, [Message(role="user", parts=(Text(text="Why?"),))], wording).text
        ids = set(tokenizer(text, add_special_tokens=False)["input_ids"])
        outside = sorted(token for token in ids if token >= embeddings)
        if outside:
            names = ", ".join(tokenizer.convert_ids_to_tokens(outside))
            raise ConfigError(
                f"model {name}: its chat template writes {names}, but its weights know the first "
                f"{embeddings} tokens only: the tokenizer grew and the model did not; give the "
                "tokenizer that the weights were trained with, or options.chat_template"
            )


def images_of(messages: Sequence[Message]) -> tuple[Image, ...]:
    """All images of a conversation, in order."""
    return tuple(image for message in messages for image in message.images)


def check_images(writer: Writer, messages: Sequence[Message]) -> None:
    """Raise `Refused` if the architecture does not take these images.

    That is: any at all where the model sees none, other than one where it takes one, or a text
    that holds the very mark that stands for an image.
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


def render(writer: Writer, messages: Sequence[Message], wording: Wording) -> Rendered:
    """The prompt for `messages`.

    Raises `Refused` if the template cannot express the conversation, and
    `ConfigError` for a variable that it does not have.
    """
    mark = image_mark(writer)
    speaker, own = _template_of(writer, wording.template)
    _check_variables(wording.variables, own)
    if own is None:
        inline = "" if writer.one_image else mark
        return Rendered(text=_transcript(messages, inline), special_tokens=True)
    as_parts = speaker is writer.processor
    dated = on_day(own, wording.day)
    conversation = _conversation(messages, mark, as_parts)
    text = _apply_template(speaker, dated, conversation, wording.variables)
    _check_complete(text, messages, mark)
    begin = writer.tokenizer.bos_token
    # a tokenizer's template is complete; a processor's may leave the first token to the tokenizer
    special = as_parts and not (begin and text.startswith(begin))
    return Rendered(text=text, special_tokens=special)


def image_mark(writer: Writer) -> str:
    """What stands for an image in a prompt's text; empty if the processor does not tell."""
    return str(getattr(writer.processor, "image_token", None) or "")


def _template_of(writer: Writer, template: str | None) -> tuple[Any, str | None]:
    """Who writes the conversation, and by which template (None: there is none)."""
    processor, tokenizer = writer.processor, writer.tokenizer
    if template == PLAIN:
        return tokenizer, None
    own = default_template(getattr(processor, "chat_template", None))
    if processor is not None and (template or own):
        return processor, template or own
    return tokenizer, template or default_template(tokenizer.chat_template)


def _check_variables(variables: Mapping[str, Any], template: str | None) -> None:
    """A library may ignore what its template has no use for, without an error."""
    unknown = [name for name in variables if name not in (template or "")]
    if unknown:
        raise ConfigError(
            f"the chat template has no variable {', '.join(unknown)}; correct "
            "options.template_kwargs, or leave it out"
        )


def _texts(message: Message) -> list[Text]:
    return [part for part in message.parts if isinstance(part, Text)]


def _conversation(messages: Sequence[Message], mark: str, as_parts: bool) -> list[dict[str, Any]]:
    """The messages as templates want them: lists of typed parts, or plain strings."""
    return [
        {
            "role": message.role,
            "content": _parts(message) if as_parts else _plain(message, mark),
        }
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
    speaker: Any,
    template: str,
    conversation: list[dict[str, Any]],
    variables: Mapping[str, Any],
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
    """What helps where a template does not take messages of these roles."""
    own = "; give another template in the model's options.chat_template"
    return own + (_WITHOUT_SYSTEM if "system" in roles else "")


def _check_complete(text: str, messages: Sequence[Message], mark: str) -> None:
    """Templates may skip what they do not know, a system message above all, without a word."""
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


def _transcript(messages: Sequence[Message], mark: str) -> str:
    lines = [_TURN_MARKS[message.role] + _plain(message, mark) for message in messages]
    return " ".join([*lines, "Answer:"])
