"""How a server's answers are read: replies, and what kind of failure an error is. Pure.

Lenient in shape, since servers differ, and strict in content: no text is made up if none came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from math import isfinite
from time import time
from typing import Any, Literal

import orjson

from mmconv.core.errors import BackendError, FailureKind, Refused, Transient
from mmconv.core.protocols import ServerLimit
from mmconv.core.types import BY_HOST, FINGERPRINT, Finish, Reply, SeenImage
from model_zoo.openai_api.endpoint import Endpoint
from model_zoo.reasoning import split_reasoning

_BUSY = frozenset({408, 409})
_OVERLOADED = frozenset({503, 529})

_STATUSES: Mapping[int, FailureKind] = {
    401: "authentication",
    402: "quota",
    403: "forbidden",
    404: "not_found",
}

_CODES: Mapping[str, FailureKind] = {
    "insufficient_quota": "quota",
    "billing_hard_limit_reached": "quota",
    "billing_not_active": "quota",
    "exceeded_current_quota_error": "quota",
    "arrearage": "quota",
    "invalid_api_key": "authentication",
    "model_not_found": "not_found",
    "context_length_exceeded": "context",
    "content_filter": "filter",
    "content_policy_violation": "filter",
    "data_inspection_failed": "filter",
    "rate_limit_exceeded": "rate_limit",
}
"""An error's code or type, of OpenAI, Azure, Moonshot and DashScope; these go before the status."""

_WORDS: tuple[tuple[FailureKind, re.Pattern[str]], ...] = (
    # OpenAI, Groq, vLLM, SGLang, llama.cpp, TGI, Anthropic, Gemini, DashScope, Moonshot, Cohere and
    # GitHub
    (
        "context",
        re.compile(
            r"context[ _](?:length|window|size)"
            r"|maximum (?:model|allowed|prompt|input) length"
            r"|max_model_len is no smaller"
            r"|(?:prompt|input) is too long"
            r"|must be <= \d+\. Given"
            r"|must have less than \d+ (?:input )?tokens"
            r"|token count .{0,40}exceeds the (?:maximum|limit)"
            r"|exceed context limit"
            r"|exceeded model token limit"
            r"|range of input length"
            r"|reduce the length of the messages"
            r"|too many tokens: ",
            re.IGNORECASE,
        ),
    ),
    # Azure, OpenRouter and OpenAI, DashScope, DeepSeek, xAI
    (
        "filter",
        re.compile(
            r"content management policy"
            r"|(?:input|prompt|content|request|output) (?:was|is|has been) flagged"
            r"|inappropriate content"
            r"|content exists risk"
            r"|violates usage guidelines",
            re.IGNORECASE,
        ),
    ),
    # Anthropic, DashScope, xAI, OpenRouter
    (
        "quota",
        re.compile(
            r"credit balance is too low"
            r"|reached your specified API usage limits"
            r"|account is in good standing"
            r"|used all available credits"
            r"|key limit exceeded",
            re.IGNORECASE,
        ),
    ),
    # Gemini, xAI
    (
        "authentication",
        re.compile(r"API key (?:not valid|expired)|incorrect API key", re.IGNORECASE),
    ),
)
"""Messages of servers, with any status except that of a rate limit."""

_NEVER_SMALL_ENOUGH = re.compile(r"request too large", re.IGNORECASE)
"""Groq and OpenAI, for a single request above the limit of a minute."""

FINISHES: Mapping[str, Finish] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "filter",
    "refusal": "filter",
    "sensitive": "filter",
    "safety": "filter",
    "recitation": "filter",
    "blocklist": "filter",
    "prohibited_content": "filter",
    "spii": "filter",
    "language": "filter",
    "image_safety": "filter",
    "model_armor": "filter",
}
"""Finish reasons in lower case; Mistral, Anthropic, Zhipu and Gemini have their own."""

_BROKEN_OFF = frozenset({"abort", "error", "insufficient_system_resource", "network_error"})
"""Finish reasons of replies that vLLM, SGLang, OpenRouter's hosts, DeepSeek or Zhipu aborted."""

_MOST_TOKENS = 2**31
"""Larger counts are ignored: no request has as many, and the database cannot hold them."""

_LONGEST_NAME = 500
_LONGEST_ORIGIN = 100
"""Characters of the answering model's name, which may be the path of its weights, and of the host
and build."""


def load_json(data: bytes) -> Any:
    """The document; raises `ValueError` if there is none.

    A paid reply is read if at all possible: after a byte order mark, with NaN in it, and with half
    a surrogate pair (an emoji that was cut in two), which becomes U+FFFD.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            document = json.loads(data.decode("utf-8-sig"))
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
    text = json.dumps(document, ensure_ascii=False)
    return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def read_failure(
    status: int, headers: Mapping[str, str], data: bytes, endpoint: Endpoint
) -> BackendError:
    """The failure that an answer with such a status reports; `headers` ignore case."""
    error, words = _error(data)
    kind = _kind(status, error, words)
    excerpt = endpoint.excerpt(words)
    message = f"HTTP {status}: {excerpt}" if excerpt else f"HTTP {status}"
    if kind in {"rate_limit", "server"} and not _NEVER_SMALL_ENOUGH.search(words):
        wait = _retry_after(headers)
        return Transient(
            kind,
            message,
            retry_after=_wait_in_error(error) if wait is None else wait,
            overloaded=status in _OVERLOADED,
        )
    return Refused(kind, message + _advice(kind, status, endpoint))


def _error(data: bytes) -> tuple[Mapping[str, Any], str]:
    with suppress(ValueError, LookupError, AttributeError):
        document = load_json(data)
        if isinstance(document, list):
            document = document[0]
        error = document.get("error", document)
        if isinstance(error, str):
            return document, error
        words = error.get("message") or error.get("detail")
        if isinstance(words, str):
            return error, words
    return {}, data.decode("utf-8", "replace")


def _kind(status: int, error: Mapping[str, Any], words: str) -> FailureKind:
    codes = [str(error.get(name)).lower() for name in ("type", "code")]
    kind = next((_CODES[code] for code in codes if code in _CODES), None)
    if status == 429:
        return "quota" if kind == "quota" else "rate_limit"
    kind = kind or next((named for named, pattern in _WORDS if pattern.search(words)), None)
    if status >= 500 or status in _BUSY:
        return "context" if kind == "context" else "server"
    return kind or _STATUSES.get(status, "not_found" if 300 <= status < 400 else "rejected")


def _advice(kind: FailureKind, status: int, endpoint: Endpoint) -> str:
    if kind in {"authentication", "forbidden"}:
        if endpoint.key_env is not None:
            return f" (check the key in the environment variable {endpoint.key_env})"
        if endpoint.secrets:
            return " (check the variables that the model's options.headers and options.query name)"
        return " (no key was sent: name the variable that holds it in the model's api_key_env)"
    if kind == "not_found":
        ends = f": it usually ends in {endpoint.ending}" if endpoint.ending else ""
        return (
            f" (check that the server serves a model named {endpoint.model!r}, and that base_url "
            f"{endpoint.address} is right{ends})"
        )
    if kind == "rejected" and status == 413:
        return " (the request has more bytes than the server takes)"
    return ""


_UNITS: tuple[Literal["requests", "tokens"], ...] = ("requests", "tokens")
_LIMITS = tuple(
    (
        unit,
        tuple(pattern.format(unit=unit, value=value) for value in ("limit", "remaining", "reset")),
    )
    for unit in _UNITS
    for pattern in ("x-ratelimit-{value}-{unit}", "anthropic-ratelimit-{unit}-{value}")
)
"""A unit and the headers of its limit: OpenAI, Azure, Groq and others; Anthropic."""

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)s)?(?:([\d.]+)ms)?")


def read_limits(headers: Mapping[str, str]) -> tuple[ServerLimit, ...]:
    """What an answer says of the server's limits; what is incomplete is left out."""
    return tuple(
        ServerLimit(unit=unit, limit=limit, remaining=remaining, reset=reset)
        for unit, names in _LIMITS
        if (limit := _number(headers.get(names[0]))) is not None
        and (remaining := _number(headers.get(names[1]))) is not None
        and (reset := _seconds_until(headers.get(names[2]))) is not None
    )


def _seconds_until(text: str | None) -> float | None:
    """Seconds: a number, a duration such as "6m0s" or "20ms", or a moment in RFC 3339."""
    if text is None:
        return None
    if (seconds := _number(text)) is not None:
        return seconds
    if text and (match := _DURATION.fullmatch(text)):
        with suppress(ValueError):
            numbers = [float(number or 0) for number in match.groups()]
            units = (86400.0, 3600.0, 60.0, 1.0, 0.001)
            return sum(number * unit for number, unit in zip(numbers, units, strict=True))
    with suppress(ValueError, TypeError):
        return max(0.0, (datetime.fromisoformat(text) - datetime.now(UTC)).total_seconds())
    return None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait: OpenAI's header in milliseconds, or seconds, or an HTTP date."""
    if (wait := _number(headers.get("retry-after-ms"))) is not None:
        return wait / 1000
    text = headers.get("retry-after")
    if text is None or (wait := _number(text)) is not None:
        return wait
    with suppress(ValueError):
        date = parsedate_to_datetime(text)
        moment = date if date.tzinfo else date.replace(tzinfo=UTC)
        return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    return None


def _wait_in_error(error: Mapping[str, Any]) -> float | None:
    """Seconds to wait: Gemini's delay, such as "41s", or OpenRouter's moment in milliseconds."""
    with suppress(LookupError, TypeError, ValueError, AttributeError):
        [delay, *_] = [item["retryDelay"] for item in error["details"] if "retryDelay" in item]
        return _number(delay.removesuffix("s"))
    with suppress(LookupError, TypeError):
        moment = _number(str(error["metadata"]["headers"]["X-RateLimit-Reset"]))
        return None if moment is None else max(0.0, moment / 1000 - time())
    return None


def _number(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return max(0.0, number) if isfinite(number) else None


def read_reply(
    data: bytes, endpoint: Endpoint, *, seconds: float, seen: tuple[SeenImage, ...] = ()
) -> Reply:
    """Read the body of an answer with a status of success.

    Raises `Transient` for a body that is not a chat completion or one that the server aborted,
    `Refused` ("filter") if a content filter removed all of it, and what `read_failure` gives for an
    error with such a status, as some gateways send. A failure has the tokens that were reported.
    """
    try:
        document = load_json(data)
    except ValueError as error:
        raise _unreadable(data, endpoint) from error
    input_tokens, output_tokens = _tokens(document)
    try:
        reasoning, text, finish = _answer(document, data, endpoint)
        logprobs = document["choices"][0].get("logprobs")
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
        answered_by=answered_by(document),
        cached_tokens=_cached_tokens(document),
        logprobs=logprobs if isinstance(logprobs, dict) else None,
    )


def read_model_names(data: bytes, endpoint: Endpoint) -> tuple[str, ...]:
    """The names in a list of models, sorted; raises `Transient` if it is not one."""
    try:
        return tuple(sorted([str(model["id"]) for model in load_json(data)["data"]]))
    except (ValueError, LookupError, TypeError) as error:
        message = f"not a list of models: {endpoint.excerpt(data)}"
        raise Transient("malformed", message) from error


def _answer(document: Any, data: bytes, endpoint: Endpoint) -> tuple[str | None, str, Finish]:
    try:
        choice = document["choices"][0]
        # Gemini adds details after a colon
        ending = str(choice.get("finish_reason")).partition(":")[0].lower()
        if choice.get("error") or ending in _BROKEN_OFF:
            reasons = {key: choice[key] for key in ("finish_reason", "error") if choice.get(key)}
            aborted = f"the server aborted the reply: {endpoint.excerpt(orjson.dumps(reasons))}"
            raise _failure_in(choice, endpoint) or Transient("server", aborted)
        finish = FINISHES.get(ending, "unknown")
        message = choice.get("message")
        reasoning, text = _texts({} if message is None and finish == "filter" else message, finish)
    except (LookupError, TypeError, AttributeError) as error:
        raise _failure_in(document, endpoint) or _unreadable(data, endpoint) from error
    if finish == "filter" and not text.strip():
        raise Refused("filter", "the server's content filter held the reply back")
    return reasoning, text, finish


def _texts(message: Mapping[str, Any], finish: Finish) -> tuple[str | None, str]:
    content = message.get("content")
    thoughts = message.get("reasoning_content") or message.get("reasoning") or None
    if isinstance(content, list):
        thoughts = thoughts or [part for part in content if part["type"] == "thinking"] or None
        content = "".join([_part_text(part) for part in content if part["type"] != "thinking"])
    if not content and isinstance(refusal := message.get("refusal"), str):
        content = refusal
    if content is None and (thoughts or finish in {"length", "filter"}):
        content = ""  # it ended within its reasoning, which not all servers show
    if not isinstance(content, str):
        raise TypeError("content must be a string")
    if thoughts is not None and not isinstance(thoughts, str):
        thoughts = orjson.dumps(thoughts).decode()
    inline, text = split_reasoning(content, others=thoughts is not None)
    return thoughts or inline, text


def _part_text(part: Mapping[str, Any]) -> str:
    if part["type"] not in {"text", "output_text"}:
        raise TypeError("expected a part of text")
    text: str = part["text"]
    return text


def _tokens(document: Any) -> tuple[int | None, int | None]:
    """Tokens of the prompt and of the output, if they are reported.

    Gemini and xAI count reasoning only in the total.
    """
    usage = document.get("usage") if isinstance(document, dict) else None
    if not isinstance(usage, dict):
        return None, None
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    shown, generated, total = (read_count(usage.get(name)) for name in names)
    if shown is not None and generated is not None and total is not None:
        generated = max(generated, total - shown)
    return shown, generated


def _cached_tokens(document: Any) -> int | None:
    """Tokens of the prompt that were read from the server's cache; DeepSeek has its own name."""
    with suppress(LookupError, TypeError, AttributeError):
        usage = document["usage"]
        details = usage.get("prompt_tokens_details") or {}
        return read_count(details.get("cached_tokens", usage.get("prompt_cache_hit_tokens")))
    return None


def answered_by(document: Mapping[str, Any]) -> str | None:
    """The model that an answer names, with host and build if it names those."""
    values = (document.get(name) for name in ("model", "provider", "system_fingerprint"))
    return _name(*(value if isinstance(value, str) else "" for value in values))


@lru_cache(maxsize=64)  # one string for all replies of a model, made once
def _name(model: str, host: str, build: str) -> str | None:
    """The model that answered; OpenRouter adds the host, OpenAI its build."""
    if not (name := _short(model, _LONGEST_NAME)):
        return None
    host, build = (_short(text, _LONGEST_ORIGIN) for text in (host, build))
    name += f"{BY_HOST}{host}" if host else ""
    return name + (f"{FINGERPRINT}{build}" if build else "")


def _short(text: str, longest: int) -> str:
    printable = "".join(sign if sign.isprintable() else " " for sign in text[:longest])
    return " ".join(printable.split())


def read_count(value: object) -> int | None:
    """A number of tokens; None for what is not one."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return int(value) if 0 <= value < _MOST_TOKENS and value == int(value) else None


def _failure_in(document: Any, endpoint: Endpoint) -> BackendError | None:
    with suppress(LookupError, TypeError, ValueError):
        status = int(document["error"]["code"])
        if 400 <= status < 600:
            return read_failure(status, {}, orjson.dumps(document), endpoint)
    return None


def _unreadable(data: bytes, endpoint: Endpoint) -> BackendError:
    return Transient("malformed", f"not a chat completion: {endpoint.excerpt(data)}")
