"""How a server's replies are read. Pure.

Lenient in shape, since servers differ, and strict in content: no text is made up where none came.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

import orjson

from mmconv.core.errors import BackendError, Refused, Transient
from mmconv.core.types import BY_HOST, FINGERPRINT, Finish, Reply, SeenImage
from model_zoo.openai_api.endpoint import Endpoint
from model_zoo.openai_api.failures import load_json, read_failure
from model_zoo.reasoning import split_reasoning

_FINISHES: Mapping[str, Finish] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "filter",
    "refusal": "filter",
    "sensitive": "filter",
    "safety": "filter",
    "recitation": "filter",
    "blocklist": "filter",
    "prohibited_content": "filter",
    "spii": "filter",
}
"""What servers say, in lower case; Mistral, Anthropic, Zhipu and Gemini have words of their own."""

_BROKEN_OFF = frozenset({"abort", "error", "insufficient_system_resource", "network_error"})
"""What vLLM and SGLang say of a reply that they stopped themselves, OpenRouter of its hosts,
DeepSeek and Zhipu of replies that they could not bring to their end."""

_MOST_TOKENS = 2**31
"""No request has as many, and no store could keep them."""

_LONGEST_NAME = 500
_LONGEST_ORIGIN = 100
"""Characters of what a server says of the model that answered, which may be the path of its
weights, and of the host and build."""


def read_reply(
    data: bytes, endpoint: Endpoint, *, seconds: float, seen: tuple[SeenImage, ...] = ()
) -> Reply:
    """Read the body of an answer that tells of success.

    Raises `Transient` where it is no chat completion or one that the server broke off, `Refused`
    ("filter") where a content filter left nothing of it, and what `read_failure` would raise where
    it is an error after all, as some gateways send it. The failure has the tokens that were told.
    """
    try:
        document = load_json(data)
    except ValueError as error:
        raise _unread(data, endpoint) from error
    input_tokens, output_tokens = _tokens(document)
    try:
        reasoning, text, finish = _answer(document, data, endpoint)
    except BackendError as error:
        error.input_tokens, error.output_tokens = input_tokens, output_tokens
        raise
    return Reply(
        text=text,
        reasoning=reasoning,
        finish=finish,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        seconds=seconds,
        seen=seen,
        answered_by=_answered_by(document),
    )


def read_model_names(data: bytes, endpoint: Endpoint) -> tuple[str, ...]:
    """The names in a list of models, sorted; raises `Transient` if it is not one."""
    try:
        return tuple(sorted([str(model["id"]) for model in load_json(data)["data"]]))
    except (ValueError, LookupError, TypeError) as error:
        message = f"not a list of models: {endpoint.excerpt(data)}"
        raise Transient("malformed", message) from error


def _answer(document: Any, data: bytes, endpoint: Endpoint) -> tuple[str | None, str, Finish]:
    """The reasoning, the text and how it ended."""
    try:
        choice = document["choices"][0]
        # Gemini says more of it behind a colon
        ending = str(choice.get("finish_reason")).partition(":")[0].lower()
        if choice.get("error") or ending in _BROKEN_OFF:
            raise _told(choice, endpoint) or _broken_off(choice, endpoint)
        finish = _FINISHES.get(ending, "unknown")
        message = choice.get("message")
        reasoning, text = _texts({} if message is None and finish == "filter" else message, finish)
    except (LookupError, TypeError, AttributeError) as error:
        raise _told(document, endpoint) or _unread(data, endpoint) from error
    if finish == "filter" and not text.strip():
        raise Refused("filter", "the server's content filter held the reply back")
    return reasoning, text, finish


def _texts(message: Mapping[str, Any], finish: Finish) -> tuple[str | None, str]:
    """The reasoning and the text; raises `TypeError` where there is no text."""
    content = message.get("content")
    thoughts = message.get("reasoning_content") or message.get("reasoning") or None
    if isinstance(content, list):
        thoughts = thoughts or [part for part in content if part["type"] == "thinking"] or None
        content = "".join([_said(part) for part in content if part["type"] != "thinking"])
    if not content and isinstance(refusal := message.get("refusal"), str):
        content = refusal
    if content is None and (thoughts or finish in {"length", "filter"}):
        content = ""  # it ended before or after its thoughts, which not all servers show
    if not isinstance(content, str):
        raise TypeError("content must be a string")
    if thoughts is not None and not isinstance(thoughts, str):
        thoughts = orjson.dumps(thoughts).decode()
    inline, text = split_reasoning(content, others=thoughts is not None)
    return thoughts or inline, text


def _said(part: Mapping[str, Any]) -> str:
    """The text of one of the parts that a content may have."""
    if part["type"] not in {"text", "output_text"}:
        raise TypeError("a part that is no text")
    text: str = part["text"]
    return text


def _tokens(document: Any) -> tuple[int | None, int | None]:
    """Tokens of the prompt, and of what was generated, as far as they are told.

    Gemini and xAI count thoughts in the total alone.
    """
    usage = document.get("usage") if isinstance(document, dict) else None
    if not isinstance(usage, dict):
        return None, None
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    shown, generated, total = (_count(usage.get(name)) for name in names)
    if shown is not None and generated is not None and total is not None:
        generated = max(generated, total - shown)
    return shown, generated


def _answered_by(document: Mapping[str, Any]) -> str | None:
    told = (document.get(name) for name in ("model", "provider", "system_fingerprint"))
    return _name(*(each if isinstance(each, str) else "" for each in told))


@lru_cache(maxsize=64)  # one string for all replies of a model, made once
def _name(model: str, host: str, build: str) -> str | None:
    """The model that answered; OpenRouter tells the host too, and OpenAI of its own build."""
    if not (named := _short(model, _LONGEST_NAME)):
        return None
    host, build = (_short(each, _LONGEST_ORIGIN) for each in (host, build))
    named += f"{BY_HOST}{host}" if host else ""
    return named + (f"{FINGERPRINT}{build}" if build else "")


def _short(told: str, longest: int) -> str:
    printable = "".join(sign if sign.isprintable() else " " for sign in told[:longest])
    return " ".join(printable.split())


def _count(value: object) -> int | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return int(value) if 0 <= value < _MOST_TOKENS and value == int(value) else None


def _told(document: Any, endpoint: Endpoint) -> BackendError | None:
    """The failure whose status stands in the document's own `error`; None if there is none."""
    with suppress(LookupError, TypeError, ValueError):
        status = int(document["error"]["code"])
        if 400 <= status < 600:
            return read_failure(status, {}, orjson.dumps(document), endpoint)
    return None


def _broken_off(choice: Any, endpoint: Endpoint) -> BackendError:
    why = {name: choice[name] for name in ("finish_reason", "error") if choice.get(name)}
    said = endpoint.excerpt(orjson.dumps(why))
    return Transient("server", f"the server broke the reply off: {said}")


def _unread(data: bytes, endpoint: Endpoint) -> BackendError:
    return Transient("malformed", f"not a chat completion: {endpoint.excerpt(data)}")
