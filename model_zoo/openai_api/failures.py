"""JSON as servers send it, and what kind of failure an error answer is. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from time import time
from typing import Any

import orjson

from mmconv.core.errors import BackendError, FailureKind, Refused, Transient
from model_zoo.openai_api.endpoint import Endpoint

_BUSY = frozenset({408, 409})
_OVERLOADED = frozenset({503, 529})

_STATUSES: Mapping[int, FailureKind] = {
    401: "authentication",
    402: "quota",
    403: "forbidden",
    404: "not_found",
}
"""What a status tells of that no other request will mend."""

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
"""What stands as an error's code or type, of OpenAI, Azure, Moonshot and DashScope; these go before
the status."""

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
"""What servers say, whatever their status, but for that of a rate limit."""

_NEVER_SMALL_ENOUGH = re.compile(r"request too large", re.IGNORECASE)
"""Groq and OpenAI, of a single request that takes more than the limit of a minute."""


def load_json(data: bytes) -> Any:
    """The document; raises `ValueError` if there is none.

    What is paid for is read if at all possible: after a byte order mark, with NaN in it, and with
    half a surrogate pair, as of an emoji that was cut in two, which becomes U+FFFD.
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
    """The failure that an answer with such a status tells of; `headers` ignore case."""
    error, words = _error(data)
    kind = _kind(status, error, words)
    said = endpoint.excerpt(words)
    message = f"HTTP {status}: {said}" if said else f"HTTP {status}"
    if kind in {"rate_limit", "server"} and not _NEVER_SMALL_ENOUGH.search(words):
        wait = _retry_after(headers)
        return Transient(
            kind,
            message,
            retry_after=_own_wait(error) if wait is None else wait,
            overloaded=status in _OVERLOADED,
        )
    return Refused(kind, message + _advice(kind, status, endpoint))


def _error(data: bytes) -> tuple[Mapping[str, Any], str]:
    """The error and the server's own words, from the shapes that servers use for them."""
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
    told = next((_CODES[code] for code in codes if code in _CODES), None)
    if status == 429:
        return "quota" if told == "quota" else "rate_limit"
    told = told or next((kind for kind, pattern in _WORDS if pattern.search(words)), None)
    if status >= 500 or status in _BUSY:
        return "context" if told == "context" else "server"
    return told or _STATUSES.get(status, "not_found" if 300 <= status < 400 else "rejected")


def _advice(kind: FailureKind, status: int, endpoint: Endpoint) -> str:
    if kind in {"authentication", "forbidden"}:
        if endpoint.key_env is not None:
            return f" (check the key in the environment variable {endpoint.key_env})"
        if endpoint.secrets:
            return " (check the variables that the model's options.headers and options.query name)"
        return " (no key was sent: name the variable that holds it in the model's api_key_env)"
    if kind == "not_found":
        return (
            f" (check that the server serves a model named {endpoint.model!r}, and that base_url "
            f"{endpoint.address} is right: it usually ends in /v1)"
        )
    if kind == "rejected" and status == 413:
        return " (the request has more bytes than the server takes)"
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


def _own_wait(error: Mapping[str, Any]) -> float | None:
    """Seconds to wait: Gemini's delay, such as "41s", or OpenRouter's moment in milliseconds."""
    with suppress(LookupError, TypeError, ValueError, AttributeError):
        [delay, *_] = [each["retryDelay"] for each in error["details"] if "retryDelay" in each]
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
