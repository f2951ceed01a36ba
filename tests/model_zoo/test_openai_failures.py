"""How servers' errors are read, as the servers of the field send them."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import orjson
import pytest

from mmconv.core.errors import BackendError, FailureKind, Refused, Transient
from model_zoo.openai_api.endpoint import Endpoint
from model_zoo.openai_api.replies import read_failure, read_limits
from tests.model_zoo.openai_support import ENDPOINT


def failure(
    status: int, body: object = None, headers: Mapping[str, str] | None = None
) -> BackendError:
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    return read_failure(status, headers or {}, data, ENDPOINT)


TOO_LONG = {
    "OpenAI": "This model's maximum context length is 128000 tokens. However, your messages "
    "resulted in 202868 tokens. Please reduce the length of the messages.",
    "OpenAI, newer": "Your input exceeds the context window of this model.",
    "vLLM": "This model's maximum context length is 2048 tokens. However, you requested 2100 "
    "tokens (1076 in the messages, 1024 in the completion).",
    "vLLM, images": "The decoder prompt (length 10127) is longer than the maximum model length of "
    "8192. Make sure that `max_model_len` is no smaller than the number of text tokens plus "
    "multimodal tokens.",
    "vLLM, older": "The prompt (total length 25938) is too long to fit into the model (context "
    "length 4096).",
    "SGLang": "The input (61709 tokens) is longer than the model's context length (40960 tokens).",
    "SGLang, with reply": "Requested token count exceeds the model's maximum context length of "
    "4096 tokens.",
    "SGLang, memory": "Input length (160062 tokens) exceeds the maximum allowed length (59862 "
    "tokens).",
    "llama.cpp": "the request exceeds the available context size, try increasing it",
    "TGI": "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens",
    "Anthropic": "prompt is too long: 210000 tokens > 200000 maximum",
    "Anthropic, with reply": "input length and `max_tokens` exceed context limit: 190000 + 20000 > "
    "200000, decrease input length or `max_tokens` and try again",
    "DashScope": "Range of input length should be [1, 30720]",
    "Moonshot": "Invalid request: Your request exceeded model token limit: 8192",
    "Cohere": "too many tokens: size limit exceeded by 11326 tokens.",
    "TGI, newer": "`inputs` must have less than 1024 tokens. Given: 1100",
    "GitHub": "prompt token count of 70000 exceeds the limit of 64000",
    "Groq": "Please reduce the length of the messages or completion.",
    "Gemini": "The input token count (1200000) exceeds the maximum number of tokens "
    "allowed (1048576).",
}


@pytest.mark.parametrize("words", TOO_LONG.values(), ids=TOO_LONG)
@pytest.mark.parametrize("nested", [True, False], ids=["nested", "flat"])
def test_a_prompt_that_is_too_long_is_told_apart(words: str, nested: bool) -> None:
    error: dict[str, Any] = {"message": words, "type": "BadRequestError", "code": 400}
    found = failure(400, {"error": error} if nested else {"object": "error", **error})
    assert isinstance(found, Refused)
    assert found.kind == "context"
    assert words[:40] in str(found)


def says(message: str, **fields: object) -> dict[str, object]:
    return {"error": {"message": message, **fields}}


TPM = "Request too large for model on tokens per minute (TPM): Limit 6000, Requested 9000"
POLICY = "content_policy_violation"
MONTHLY = "You have reached your specified API usage limits. You will regain access on 2026-12-01."
EXPIRED = [says("API key expired. Please renew the API key.", code=400)]
XAI = {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: s"}

REFUSALS: dict[str, tuple[int, object, FailureKind, str]] = {
    "code": (400, says("Too many.", code="context_length_exceeded"), "context", "Too many."),
    "content policy": (
        400,
        says("By our safety.", code=POLICY),
        "filter",
        "HTTP 400: By our safety.",
    ),
    "policy of Azure": (400, says("It was filtered.", code="content_filter"), "filter", "filtered"),
    "policy as forbidden": (403, says("Your input was flagged.", code=403), "filter", "flagged"),
    "a flagged account": (403, says("Your account was flagged."), "forbidden", "SOME_KEY"),
    "FastAPI": (422, {"detail": "Unexpected field seed"}, "rejected", "field seed"),
    "a list of problems": (422, {"detail": [{"msg": "bad"}]}, "rejected", '"msg":"bad"'),
    "an error in a word": (400, {"error": "nonsense"}, "rejected", "nonsense"),
    "key": (401, says("No."), "authentication", "variable SOME_KEY"),
    "key as a bad request": (
        400,
        says("API key not valid."),
        "authentication",
        "variable SOME_KEY",
    ),
    "not allowed": (403, b"", "forbidden", "SOME_KEY"),
    "no such model": (404, says("no"), "not_found", "'some/model'"),
    "no model, 400": (400, says("no", code="model_not_found"), "not_found", "'some/model'"),
    "no such route": (404, b"404 page not found", "not_found", "usually ends in /v1"),
    "moved": (308, b"", "not_found", "http://host/v1"),
    "quota": (429, says("Pay.", type="insufficient_quota", code=None), "quota", "Pay."),
    "payment": (402, says("Pay."), "quota", "Pay."),
    "credit, 400": (400, says("Your credit balance is too low to use it."), "quota", "too low"),
    "spending limit": (400, says(MONTHLY, type="invalid_request_error"), "quota", "usage limits"),
    "arrears": (400, {"code": "Arrearage", "message": "Denied."}, "quota", "Denied."),
    "inactive": (429, says("Not active.", code="billing_not_active"), "quota", "Not active."),
    "Moonshot": (429, says("No.", type="exceeded_current_quota_error"), "quota", "No."),
    "key of xAI": (400, XAI, "authentication", "variable SOME_KEY"),
    "expired key, in a list": (400, EXPIRED, "authentication", "HTTP 400: API key expired."),
    "an empty list": (400, [], "rejected", "HTTP 400: []"),
    "a body that is too large": (413, b"<html>Too large", "rejected", "more bytes than"),
    "a prompt that is too large": (413, says("The prompt is too long."), "context", "HTTP 413"),
    "above a minute": (413, says(TPM, code="rate_limit_exceeded"), "rate_limit", "Limit 6000"),
    "too long as a bug": (
        500,
        says("longer than the model's context length"),
        "context",
        "HTTP 500",
    ),
}
TRANSIENT: dict[str, tuple[int, object, FailureKind, str]] = {
    "rate": (429, says("Slow down."), "rate_limit", "Slow down."),
    "context rate": (429, says("Context length per minute."), "rate_limit", "per minute"),
    "rate, 413": (413, says("Per minute.", code="rate_limit_exceeded"), "rate_limit", "Per minute"),
    "timeout": (408, b"", "server", "HTTP 408"),
    "conflict": (409, b"", "server", "HTTP 409"),
    "bug": (500, says("Oops."), "server", "Oops."),
    "proxy": (502, b"<html>\n<b>Bad gateway</b>", "server", "<html> <b>Bad gateway"),
    "overload": (503, b"", "server", "HTTP 503"),
    "gateway": (504, b"", "server", "HTTP 504"),
}
FAILURES: list[Any] = [(Refused, *case) for case in REFUSALS.values()]
FAILURES += [(Transient, *case) for case in TRANSIENT.values()]


@pytest.mark.parametrize(
    ("kind_of_error", "status", "body", "kind", "words"), FAILURES, ids=[*REFUSALS, *TRANSIENT]
)
def test_a_failure_is_named(
    kind_of_error: type[BackendError], status: int, body: object, kind: FailureKind, words: str
) -> None:
    error = failure(status, body)
    assert type(error) is kind_of_error
    assert error.kind == kind
    assert words in str(error)


def test_without_a_key_the_advice_is_to_name_one() -> None:
    found = read_failure(401, {}, b"", Endpoint(url="http://host/v1", model="m"))
    assert "api_key_env" in str(found)


def test_the_servers_own_words_are_kept_short() -> None:
    assert len(str(failure(400, {"error": {"message": "x" * 5000}}))) < 520
    assert len(str(failure(400, b"x" * 5000))) < 520


def test_the_key_is_in_no_message() -> None:
    words = {"error": {"message": "Incorrect key sk-secret-123."}}
    assert str(failure(401, words)).startswith("HTTP 401: Incorrect key [key].")
    assert "sk-secret" not in repr(ENDPOINT)


ECHOED = [
    'denied secret/a+b "c=',
    r"denied secret\/a+b \"c=",
    r"denied secret\/a\u002Bb\u0020\u0022c\u003d",
    r"denied secret/a+b \\\"c\\u003d",
    "denied secret%2Fa%2bb+%22c%3D",
    "denied secret/a&#43;b &quot;c&#x3D;",
]
"""A secret as it is, and as PHP, .NET, JSON in JSON, addresses and HTML have it."""


@pytest.mark.parametrize("message", ECHOED)
def test_a_secret_is_in_no_message_in_any_form(message: str) -> None:
    endpoint = Endpoint(url="http://host/v1", model="m", secrets=frozenset(['secret/a+b "c=']))
    assert endpoint.excerpt(message) == "denied [key]"


def test_what_is_almost_a_secret_is_looked_through_at_once() -> None:
    secret = "a-b_" * 50
    endpoint = Endpoint(url="http://host/v1", model="m", secrets=frozenset([f"{secret}!"]))
    assert endpoint.excerpt(secret) == secret


def test_a_key_at_the_end_of_an_excerpt_is_in_no_message() -> None:
    assert "sk-sec" not in str(failure(400, b"x" * 490 + b"sk-secret-123"))


def test_what_only_the_environment_knows_of_a_url_is_in_no_message() -> None:
    hidden = Endpoint(url="http://gpu:99/tok-hush/v1", model="m", named="${GATEWAY}")
    words = b"http://gpu:99/tok-hush/v1/chat, host gpu:99, /tok-hush/v1, gpu: no gpu-memory"
    assert str(read_failure(404, {}, words, hidden)) == (
        "HTTP 404: ${GATEWAY}/chat, host ${GATEWAY}, ${GATEWAY}, ${GATEWAY}: no gpu-memory (check "
        "that the server serves a model named 'm', and that base_url ${GATEWAY} is right: it "
        "usually ends in /v1)"
    )
    known = Endpoint(url="http://gpu/v1", model="m", named="http://gpu/v1/")
    assert "host gpu, /v1" in str(read_failure(500, {}, b"host gpu, /v1", known))


OVERLOADS = [(429, True), (503, True), (529, True), (500, False), (502, False)]


@pytest.mark.parametrize(("status", "is_so"), OVERLOADS)
def test_a_server_with_too_much_to_do_is_told_apart(status: int, is_so: bool) -> None:
    found = failure(status)
    assert isinstance(found, Transient)
    assert found.overloaded == is_so


def wait(
    status: int, body: object = None, headers: Mapping[str, str] | None = None
) -> float | None:
    """The seconds that the server asks to wait."""
    error = failure(status, body, headers)
    assert isinstance(error, Transient)
    return error.retry_after


WAITS: dict[str, tuple[Mapping[str, str], float | None]] = {
    "none": ({}, None),
    "seconds": ({"retry-after": "7"}, 7.0),
    "fractions": ({"retry-after": "0.5"}, 0.5),
    "milliseconds go first": ({"retry-after": "7", "retry-after-ms": "250"}, 0.25),
    "negative": ({"retry-after": "-1"}, 0.0),
    "past": ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    "past, without a zone": ({"retry-after": "Wed, 21 Oct 2015 07:28:00"}, 0.0),
    "nonsense": ({"retry-after": "soon"}, None),
    "not finite": ({"retry-after": "inf"}, None),
}


@pytest.mark.parametrize(("headers", "seconds"), WAITS.values(), ids=WAITS)
@pytest.mark.parametrize("status", [429, 503])
def test_waits_are_read(status: int, headers: Mapping[str, str], seconds: float | None) -> None:
    assert wait(status, headers=headers) == seconds


def test_the_wait_until_a_date() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert wait(429, headers={"retry-after": date}) == pytest.approx(60, abs=5)


def test_the_wait_that_gemini_asks_for_in_its_error() -> None:
    details = [{"reason": "RATE"}, {"retryDelay": "41s"}]
    body = [{"error": {"code": 429, "message": "Quota.", "details": details}}]
    assert str(failure(429, body)) == "HTTP 429: Quota."
    assert (wait(429, body), wait(429, body, {"retry-after": "7"})) == (41.0, 7.0)


@pytest.mark.parametrize("details", [None, [], [{}], ["RATE"], [{"retryDelay": 41}], 7])
def test_details_without_a_wait_tell_none(details: object) -> None:
    assert wait(429, {"error": {"message": "Quota.", "details": details}}) is None


def test_the_wait_until_openrouter_s_moment() -> None:
    moment = (datetime.now(UTC) + timedelta(seconds=60)).timestamp()
    headers = {"X-RateLimit-Reset": str(int(1000 * moment))}
    body = {"error": {"message": "Free.", "metadata": {"headers": headers}}}
    assert wait(429, body) == pytest.approx(60, abs=5)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, []),
        ({"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "59"}, []),
        (
            {
                "x-ratelimit-limit-requests": "60",
                "x-ratelimit-remaining-requests": "58",
                "x-ratelimit-reset-requests": "1m30.5s",
                "x-ratelimit-limit-tokens": "150000",
                "x-ratelimit-remaining-tokens": "149984",
                "x-ratelimit-reset-tokens": "6ms",
            },
            [("requests", 60, 58, 90.5), ("tokens", 150000, 149984, 0.006)],
        ),
        (
            {
                "anthropic-ratelimit-tokens-limit": "100",
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "2020-01-01T00:00:00Z",
            },
            [("tokens", 100, 0, 0)],
        ),
        (
            {
                "x-ratelimit-limit-requests": "60",
                "x-ratelimit-remaining-requests": "58",
                "x-ratelimit-reset-requests": "soon",
            },
            [],
        ),
    ],
)
def test_the_limits_in_headers_are_read(
    headers: dict[str, str], expected: list[tuple[str, float, float, float]]
) -> None:
    found = [
        (limit.unit, limit.limit, limit.remaining, limit.reset) for limit in read_limits(headers)
    ]
    assert found == expected
