"""How a server's answers are read: a reply, or the kind of failure that it tells of. Pure.

Lenient in shape, since servers differ, and strict in content: no text is made up where none came.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any

import orjson

from mmconv.errors import BackendError, FailureKind, Refused, Transient
from mmconv.values import Finish, Reply, SeenImage
from model_zoo.reasoning import split_reasoning

_FINISHES: Mapping[Any, Finish] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "filter",
}

_BROKEN_OFF = frozenset({"abort", "error"})
"""What vLLM and SGLang say of a reply that they stopped themselves, and OpenRouter of its hosts."""

_BUSY = frozenset({408, 409})

_REFUSALS: Mapping[int, FailureKind] = {
    401: "authentication",
    402: "quota",
    403: "forbidden",
    404: "not_found",
    413: "context",
}
"""What a status tells of that no other request will mend."""

_REFUSAL_CODES: Mapping[str, FailureKind] = {
    "insufficient_quota": "quota",
    "billing_hard_limit_reached": "quota",
    "invalid_api_key": "authentication",
    "model_not_found": "not_found",
}
"""OpenAI's words for the same; they go before the status."""

# What Anthropic and Gemini say of the same with status 400.
_NO_CREDIT = re.compile(r"credit balance is too low", re.IGNORECASE)
_BAD_KEY = re.compile(r"API key not valid", re.IGNORECASE)

_LONGEST_EXCERPT = 500

# What OpenAI, vLLM, SGLang, llama.cpp, TGI, Anthropic, Gemini and DashScope say to a prompt that is
# too long.
_TOO_LONG = re.compile(
    r"context[ _](?:length|window|size)"
    r"|maximum (?:model|allowed|prompt|input) length"
    r"|max_model_len is no smaller"
    r"|(?:prompt|input) is too long"
    r"|must be <= \d+\. Given"
    r"|token count .{0,40}exceeds the maximum"
    r"|exceed context limit"
    r"|range of input length",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Which model is asked where; `key_env` names the variable that the key was read from."""

    url: str
    model: str
    key_env: str | None = None
    key: str | None = field(default=None, repr=False)

    def without_key(self, data: bytes) -> bytes:
        """What a server says of a failure, in which the key is never found again.

        Replies stay as they are: a local server's key may be a word like any other.
        """
        return data if self.key is None else data.replace(self.key.encode(), b"[key]")


def read_reply(
    data: bytes, endpoint: Endpoint, *, seconds: float, seen: tuple[SeenImage, ...] = ()
) -> Reply:
    """Read the body of an answer with status 200.

    Raises `Transient` where it is no chat completion or one that the server broke off, and what
    `read_failure` would raise where it is an error after all, as some gateways send it.
    """
    try:
        document = orjson.loads(data)
        choice = document["choices"][0]
        if choice.get("error") or choice.get("finish_reason") in _BROKEN_OFF:
            raise _told(choice, endpoint) or _broken_off(choice, endpoint)
        message = choice["message"]
        finish = _FINISHES.get(choice.get("finish_reason"), "unknown")
        reasoning, text = _texts(message, finish)
        usage = document.get("usage") or {}
        return Reply(
            text=text,
            reasoning=reasoning,
            finish=finish,
            input_tokens=_count(usage.get("prompt_tokens")),
            output_tokens=_count(usage.get("completion_tokens")),
            seconds=seconds,
            seen=seen,
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise _misread(data, endpoint) from error


def read_failure(
    status: int, headers: Mapping[str, str], data: bytes, endpoint: Endpoint
) -> BackendError:
    """The failure that an answer with another status tells of; `headers` ignore case."""
    code, words = _error_words(endpoint.without_key(data))
    message = f"HTTP {status}: {words}" if words else f"HTTP {status}"
    if status == 429 and code != "insufficient_quota":
        return Transient("rate_limit", message, retry_after=_retry_after(headers))
    if _TOO_LONG.search(f"{code} {words}"):
        return Refused("context", message)
    if status >= 500 or status in _BUSY:
        return Transient("server", message, retry_after=_retry_after(headers))
    kind = _refusal(status, code, words)
    return Refused(kind, message + _advice(kind, endpoint))


def _refusal(status: int, code: str, words: str) -> FailureKind:
    if code in _REFUSAL_CODES:
        return _REFUSAL_CODES[code]
    if _NO_CREDIT.search(words):
        return "quota"
    if _BAD_KEY.search(words):
        return "authentication"
    return _REFUSALS.get(status, "not_found" if 300 <= status < 400 else "rejected")


def _texts(message: Mapping[str, Any], finish: Finish) -> tuple[str | None, str]:
    """The reasoning and the text; raises `Refused` or `TypeError` where there is no text."""
    content = message.get("content")
    reasoning = message.get("reasoning_content") or message.get("reasoning") or None
    if isinstance(content, list):
        content = "".join([part["text"] for part in content if part["type"] == "text"])
    if content is None:
        content = _instead_of_content(message, reasoning, finish)
    if not isinstance(content, str) or not isinstance(reasoning, str | None):
        raise TypeError("content and reasoning are texts")
    return (reasoning, content) if reasoning else split_reasoning(content)


def _instead_of_content(
    message: Mapping[str, Any], reasoning: str | None, finish: Finish
) -> str | None:
    """What a null content stands for: a refusal in words, or thoughts that left no room for a text.

    Not all servers show these thoughts, so that a reply cut short may be all that there is.
    """
    if isinstance(refusal := message.get("refusal"), str):
        return refusal
    if finish == "filter":
        raise Refused("rejected", "the server's content filter held the reply back")
    return "" if reasoning or finish == "length" else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _misread(data: bytes, endpoint: Endpoint) -> BackendError:
    with suppress(ValueError):
        if (failure := _told(orjson.loads(data), endpoint)) is not None:
            return failure
    said = _excerpt(endpoint.without_key(data))
    return Transient("malformed", f"not a chat completion: {said}")


def _told(document: Any, endpoint: Endpoint) -> BackendError | None:
    """The failure whose status stands in the document's own `error`; None if there is none."""
    with suppress(LookupError, TypeError):
        status = document["error"]["code"]
        if isinstance(status, int) and 400 <= status < 600:
            return read_failure(status, {}, orjson.dumps(document), endpoint)
    return None


def _broken_off(choice: Any, endpoint: Endpoint) -> BackendError:
    why = {name: choice[name] for name in ("finish_reason", "error") if choice.get(name)}
    said = _excerpt(endpoint.without_key(orjson.dumps(why)))
    return Transient("server", f"the server broke the reply off: {said}")


def _error_words(data: bytes) -> tuple[str, str]:
    """The error's code and the server's own words, from the shapes that servers use for them."""
    with suppress(orjson.JSONDecodeError, AttributeError):
        document = orjson.loads(data)
        error = document.get("error", document)
        if isinstance(error, str):
            return "", error[:_LONGEST_EXCERPT]
        words = error.get("message") or error.get("detail")
        if isinstance(words, str):
            return _code(error), words[:_LONGEST_EXCERPT]
    return "", _excerpt(data)


def _code(error: Mapping[str, Any]) -> str:
    """OpenAI tells an exhausted quota by `code` or by `type`, depending on the endpoint."""
    kind = error.get("type")
    return kind if kind == "insufficient_quota" else str(error.get("code") or "")


def _excerpt(data: bytes) -> str:
    return " ".join(data.decode("utf-8", "replace").split())[:_LONGEST_EXCERPT]


def _advice(kind: FailureKind, endpoint: Endpoint) -> str:
    if kind in {"authentication", "forbidden"}:
        if endpoint.key_env is None:
            return " (no key was sent: name the variable that holds it in the model's api_key_env)"
        return f" (check the key in the environment variable {endpoint.key_env})"
    if kind == "not_found":
        return (
            f" (check that the server serves a model named {endpoint.model!r}, and that base_url "
            f"{endpoint.url} is right: it usually ends in /v1)"
        )
    return ""


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait: OpenAI's header in milliseconds, or seconds, or an HTTP date."""
    if (wait := _number(headers.get("retry-after-ms"))) is not None:
        return wait / 1000
    told = headers.get("retry-after")
    if told is None or (wait := _number(told)) is not None:
        return wait
    with suppress(ValueError):
        date = parsedate_to_datetime(told)
        moment = date if date.tzinfo else date.replace(tzinfo=UTC)
        return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    return None


def _number(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return max(0.0, number) if isfinite(number) else None
