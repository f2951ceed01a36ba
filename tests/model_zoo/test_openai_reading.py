"""How servers' answers are read: replies and errors as the servers of the field send them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import orjson
import pytest

from mmconv.errors import BackendError, FailureKind, Refused, Transient
from mmconv.values import Finish
from model_zoo.openai_api.response import Endpoint, read_failure, read_reply

ENDPOINT = Endpoint(
    url="http://host/v1", model="some/model", key_env="SOME_KEY", key="sk-secret-123"
)


def completion(message: Mapping[str, Any], finish: str | None = "stop", **more: Any) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return orjson.dumps({"choices": [choice], **more})


def read(data: bytes) -> tuple[str, str | None, Finish]:
    reply = read_reply(data, ENDPOINT, seconds=1.5)
    return reply.text, reply.reasoning, reply.finish


def failure(
    status: int, body: object = None, headers: Mapping[str, str] | None = None
) -> BackendError:
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    return read_failure(status, headers or {}, data, ENDPOINT)


REPLIES: dict[str, tuple[bytes, tuple[str, str | None, Finish]]] = {
    "plain": (completion({"content": "Red."}), ("Red.", None, "stop")),
    "empty": (completion({"content": ""}), ("", None, "stop")),
    "white space kept": (completion({"content": " Red.\n"}), (" Red.\n", None, "stop")),
    "cut off": (completion({"content": "Re"}, "length"), ("Re", None, "length")),
    "filtered": (completion({"content": "Re"}, "content_filter"), ("Re", None, "filter")),
    "unknown finish": (completion({"content": "Red."}, "tool_calls"), ("Red.", None, "unknown")),
    "no finish": (completion({"content": "Red."}, None), ("Red.", None, "unknown")),
    "text parts": (
        completion({"content": [{"type": "text", "text": "Re"}, {"type": "text", "text": "d."}]}),
        ("Red.", None, "stop"),
    ),
    "reasoning of SGLang and older vLLM": (
        completion({"content": "Red.", "reasoning_content": "Hm."}),
        ("Red.", "Hm.", "stop"),
    ),
    "reasoning of vLLM": (
        completion({"content": "Red.", "reasoning": "Hm."}),
        ("Red.", "Hm.", "stop"),
    ),
    "reasoning inline": (
        completion({"content": "<think>Hm.</think>Red.", "reasoning": None}),
        ("Red.", "Hm.", "stop"),
    ),
    "cut off while thinking": (
        completion({"content": None, "reasoning": "Hm"}, "length"),
        ("", "Hm", "length"),
    ),
    "cut off while thinking, unseen": (completion({}, "length"), ("", None, "length")),
    "nothing after the thoughts": (
        completion({"content": None, "reasoning_content": "Hm."}),
        ("", "Hm.", "stop"),
    ),
    "refusal in words": (
        completion({"content": None, "refusal": "I will not."}),
        ("I will not.", None, "stop"),
    ),
}


@pytest.mark.parametrize(("data", "expected"), REPLIES.values(), ids=REPLIES)
def test_a_reply_is_read(data: bytes, expected: tuple[str, str | None, Finish]) -> None:
    assert read(data) == expected


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"usage": {"prompt_tokens": 12, "completion_tokens": 3}}, (12, 3)),
        ({"usage": {"prompt_tokens": 12}}, (12, None)),
        ({"usage": None}, (None, None)),
        ({}, (None, None)),
    ],
)
def test_tokens_are_counted_where_told(
    usage: dict[str, Any], tokens: tuple[int | None, int | None]
) -> None:
    reply = read_reply(completion({"content": "a"}, **usage), ENDPOINT, seconds=1.5)
    assert (reply.input_tokens, reply.output_tokens) == tokens
    assert reply.seconds == 1.5


MALFORMED: dict[str, bytes] = {
    "nothing": b"",
    "cut off": completion({"content": "Red."})[:-9],
    "a web page": b"<html><body>Please log in</body></html>",
    "a list": b"[]",
    "a text": b'"Red."',
    "no choices": b'{"choices": []}',
    "choices null": b'{"choices": null}',
    "no message": b'{"choices": [{"finish_reason": "stop"}]}',
    "no content": completion({}),
    "content null": completion({"content": None}),
    "content a number": completion({"content": 7}),
    "content of unknown parts": completion({"content": [{"text": "Red."}]}),
    "reasoning a number": completion({"content": "Red.", "reasoning": 7}),
    "an error without a status": b'{"error": {"message": "upstream is gone", "code": null}}',
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_reply_is_malformed(data: bytes) -> None:
    with pytest.raises(Transient, match="not a chat completion") as raised:
        read(data)
    assert raised.value.kind == "malformed"


def test_a_malformed_answer_is_quoted() -> None:
    with pytest.raises(Transient, match="Please log in"):
        read(MALFORMED["a web page"])


def test_a_reply_that_was_filtered_away_is_refused() -> None:
    with pytest.raises(Refused, match="content filter"):
        read(completion({"content": None}, "content_filter"))


BROKEN_OFF: dict[str, tuple[dict[str, Any], type[BackendError], FailureKind, str]] = {
    "vLLM and SGLang, shut down": ({"finish_reason": "abort"}, Transient, "server", "abort"),
    "without a status": (
        {"finish_reason": "error", "error": {"message": "sk-secret-123 is gone"}},
        Transient,
        "server",
        r"\[key\] is gone",
    ),
    "OpenRouter": (
        {"finish_reason": "error", "error": {"code": 502, "message": "Provider gone"}},
        Transient,
        "server",
        "HTTP 502: Provider gone",
    ),
    "OpenRouter, for good": (
        {"finish_reason": "stop", "error": {"code": 403, "message": "Flagged"}},
        Refused,
        "forbidden",
        "HTTP 403: Flagged",
    ),
}


@pytest.mark.parametrize(
    ("choice", "kind_of_error", "kind", "words"), BROKEN_OFF.values(), ids=BROKEN_OFF
)
def test_what_was_said_before_a_reply_was_broken_off_is_none(
    choice: dict[str, Any], kind_of_error: type[BackendError], kind: FailureKind, words: str
) -> None:
    body = {"choices": [{"message": {"content": "The pict"}, **choice}]}
    with pytest.raises(BackendError, match=words) as raised:
        read(orjson.dumps(body))
    assert type(raised.value) is kind_of_error
    assert raised.value.kind == kind
    assert "The pict" not in str(raised.value)


def test_an_error_sent_with_status_200_is_an_error() -> None:
    with pytest.raises(Transient, match="HTTP 429: slow down") as raised:
        read(b'{"error": {"message": "slow down", "code": 429}}')
    assert raised.value.kind == "rate_limit"


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


FAILURES: dict[str, tuple[int, object, type[BackendError], FailureKind, str]] = {
    "code": (
        400,
        {"error": {"message": "Too many tokens.", "code": "context_length_exceeded"}},
        Refused,
        "context",
        "Too many tokens",
    ),
    "content policy": (
        400,
        {
            "error": {
                "message": "Rejected by our safety system.",
                "code": "content_policy_violation",
            }
        },
        Refused,
        "rejected",
        "HTTP 400: Rejected by our safety system.",
    ),
    "FastAPI": (422, {"detail": "Unexpected field seed"}, Refused, "rejected", "field seed"),
    "a list of problems": (422, {"detail": [{"msg": "bad"}]}, Refused, "rejected", '"msg":"bad"'),
    "an error in a word": (400, {"error": "nonsense"}, Refused, "rejected", "nonsense"),
    "key": (401, {"error": {"message": "No."}}, Refused, "authentication", "variable SOME_KEY"),
    "key, told as a bad request": (
        400,
        {"error": {"message": "API key not valid. Please pass a valid API key."}},
        Refused,
        "authentication",
        "variable SOME_KEY",
    ),
    "not allowed": (403, b"", Refused, "forbidden", "SOME_KEY"),
    "no such model": (404, {"error": {"message": "no"}}, Refused, "not_found", "'some/model'"),
    "no such model, told as a bad request": (
        400,
        {"error": {"message": "no", "code": "model_not_found"}},
        Refused,
        "not_found",
        "'some/model'",
    ),
    "no such route": (404, b"404 page not found", Refused, "not_found", "usually ends in /v1"),
    "moved": (308, b"", Refused, "not_found", "http://host/v1"),
    "rate": (429, {"error": {"message": "Slow down."}}, Transient, "rate_limit", "Slow down."),
    "rate of a long context": (
        429,
        {"error": {"message": "Limit of context length per minute."}},
        Transient,
        "rate_limit",
        "per minute",
    ),
    "quota": (
        429,
        {"error": {"message": "Pay.", "type": "insufficient_quota", "code": None}},
        Refused,
        "quota",
        "Pay.",
    ),
    "payment": (402, {"error": {"message": "Pay."}}, Refused, "quota", "Pay."),
    "credit, told as a bad request": (
        400,
        {"error": {"message": "Your credit balance is too low to access the API."}},
        Refused,
        "quota",
        "too low",
    ),
    "a body that is too large": (413, b"<html>Too large", Refused, "context", "Too large"),
    "timeout": (408, b"", Transient, "server", "HTTP 408"),
    "conflict": (409, b"", Transient, "server", "HTTP 409"),
    "bug": (500, {"error": {"message": "Oops."}}, Transient, "server", "Oops."),
    "proxy": (502, b"<html>\n<b>Bad gateway</b>", Transient, "server", "<html> <b>Bad gateway"),
    "overload": (503, b"", Transient, "server", "HTTP 503"),
    "gateway": (504, b"", Transient, "server", "HTTP 504"),
    "too long, told as a bug": (
        500,
        {"error": {"message": "longer than the model's context length"}},
        Refused,
        "context",
        "HTTP 500",
    ),
}


@pytest.mark.parametrize(
    ("status", "body", "kind_of_error", "kind", "words"), FAILURES.values(), ids=FAILURES
)
def test_a_failure_is_named(
    status: int, body: object, kind_of_error: type[BackendError], kind: FailureKind, words: str
) -> None:
    found = failure(status, body)
    assert type(found) is kind_of_error
    assert found.kind == kind
    assert words in str(found)


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
    with pytest.raises(Transient) as raised:
        read(b"<html>sk-secret-123")
    assert "sk-secret" not in str(raised.value)


def test_a_key_that_is_a_common_word_changes_no_reply() -> None:
    body = {"choices": [{"message": {"content": "Any company."}, "finish_reason": "stop"}]}
    local = Endpoint(url="http://host/v1", model="m", key="any")
    assert read_reply(orjson.dumps(body), local, seconds=0.0).text == "Any company."


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
def test_the_wait_that_a_server_asks_for(
    status: int, headers: Mapping[str, str], seconds: float | None
) -> None:
    found = failure(status, headers=headers)
    assert isinstance(found, Transient)
    assert found.retry_after == seconds


def test_the_wait_until_a_date() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    found = failure(429, headers={"retry-after": date})
    assert isinstance(found, Transient)
    assert found.retry_after == pytest.approx(60, abs=5)
