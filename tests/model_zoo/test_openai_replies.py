"""How servers' replies are read, from recorded shapes and over loopback connections."""

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from aiohttp import web

from mmconv.core.errors import BackendError, FailureKind, Refused, Transient
from mmconv.core.types import Finish
from model_zoo import openai_api
from model_zoo.openai_api.endpoint import Endpoint
from model_zoo.openai_api.replies import read_reply
from tests.model_zoo.openai_support import (
    ENDPOINT,
    ONCE,
    Answer,
    Pictures,
    ask,
    asked,
    opened,
    say_red,
    spec,
    unused_url,
)


def completion(message: Mapping[str, Any], finish: str | None = "stop", **more: Any) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return orjson.dumps({"choices": [choice], **more})


def read(data: bytes) -> tuple[str, str | None, Finish]:
    reply = read_reply(data, ENDPOINT, seconds=1.5)
    return reply.text, reply.reasoning, reply.finish


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
    "reasoning in both places": (
        completion({"content": "<think>Hm.</think>Red.", "reasoning_content": "Hm."}),
        ("Red.", "Hm.", "stop"),
    ),
    "a closing tag behind reasoning in its place": (
        completion({"content": "It ends with </think>.", "reasoning_content": "Hm."}),
        ("It ends with </think>.", "Hm.", "stop"),
    ),
    "reasoning of another shape": (
        completion({"content": "Red.", "reasoning": {"text": "Hm."}}),
        ("Red.", '{"text":"Hm."}', "stop"),
    ),
    "thoughts as parts": (
        completion(
            {
                "content": [
                    {"type": "thinking", "thinking": "Hm."},
                    {"type": "output_text", "text": "Red."},
                ]
            }
        ),
        ("Red.", '[{"type":"thinking","thinking":"Hm."}]', "stop"),
    ),
    "no parts": (completion({"content": []}), ("", None, "stop")),
    "refusal beside an empty text": (
        completion({"content": "", "refusal": "I will not."}),
        ("I will not.", None, "stop"),
    ),
    "Gemini, cut off": (completion({"content": "Re"}, "MAX_TOKENS"), ("Re", None, "length")),
    "Mistral, cut off": (completion({"content": "Re"}, "model_length"), ("Re", None, "length")),
    "Gemini, filtered": (completion({"content": "Re"}, "SAFETY"), ("Re", None, "filter")),
    "Anthropic, filtered": (completion({"content": "Re"}, "refusal"), ("Re", None, "filter")),
    "an end of another shape": (
        orjson.dumps({"choices": [{"message": {"content": "Red."}, "finish_reason": {"a": 1}}]}),
        ("Red.", None, "unknown"),
    ),
    "half an emoji": (
        completion({"content": "Red. "}).replace(b"Red. ", b"Red. \\ud83d"),
        ("Red. \ufffd", None, "stop"),
    ),
    "a whole emoji beside half of one": (
        completion({"content": "R"}).replace(b'"R"', b'"\\ud83d\\ude00\\ude00"'),
        ("\U0001f600\ufffd", None, "stop"),
    ),
    "a byte order mark": (b"\xef\xbb\xbf" + completion({"content": "é"}), ("é", None, "stop")),
    "no number": (
        completion({"content": "Red."}).replace(b"{", b'{"score": NaN, ', 1),
        ("Red.", None, "stop"),
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
        ({"usage": [12, 3]}, (None, None)),
        ({"usage": {"prompt_tokens": 12.0, "completion_tokens": 3.5}}, (12, None)),
        ({"usage": {"prompt_tokens": -1, "completion_tokens": True}}, (None, None)),
        ({"usage": {"prompt_tokens": 2**63, "completion_tokens": 2**31}}, (None, None)),
        (
            {"usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 115}},
            (12, 103),  # Gemini's and xAI's thoughts
        ),
        ({"usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 12}}, (12, 3)),
        ({}, (None, None)),
    ],
)
def test_tokens_are_counted(usage: dict[str, Any], tokens: tuple[int | None, int | None]) -> None:
    reply = read_reply(completion({"content": "a"}, **usage), ENDPOINT, seconds=1.5)
    assert (reply.input_tokens, reply.output_tokens) == tokens
    assert reply.seconds == 1.5


@pytest.mark.parametrize(
    ("usage", "cached"),
    [
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 8}}, 8),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 7}, 7),
        ({"prompt_tokens": 9, "prompt_tokens_details": None}, None),
        ({"prompt_tokens": 9, "prompt_tokens_details": [8]}, None),
        (None, None),
    ],
)
def test_tokens_from_the_servers_cache_are_counted(usage: Any, cached: int | None) -> None:
    reply = read_reply(completion({"content": "a"}, usage=usage), ENDPOINT, seconds=1.5)
    assert reply.cached_tokens == cached


MALFORMED: dict[str, bytes] = {
    "nothing": b"",
    "cut off": completion({"content": "Red."})[:-9],
    "a web page": b"<html><body>Please log in</body></html>",
    "a list": b"[]",
    "a text": b'"Red."',
    "no choices": b'{"choices": []}',
    "choices null": b'{"choices": null}',
    "no message": b'{"choices": [{"finish_reason": "stop"}]}',
    "content null, though it ended": completion({"content": None}),
    "no content, though it ended": completion({}),
    "no content, no end": completion({}, None),
    "content null, and a call of a tool": completion({"content": None}, "tool_calls"),
    "nested without end": b"[" * 100_000,
    "content a number": completion({"content": 7}),
    "content of unknown parts": completion({"content": [{"text": "Red."}]}),
    "parts of another type": completion({"content": [{"type": "image", "text": "Red."}]}),
    "an error without a status": b'{"error": {"message": "upstream is gone", "code": null}}',
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_reply_is_malformed(data: bytes) -> None:
    with pytest.raises(Transient, match="not a chat completion") as raised:
        read(data)
    assert raised.value.kind == "malformed"


def test_a_malformed_answer_is_quoted_without_the_key() -> None:
    with pytest.raises(Transient, match=r"Please log in, \[key\]"):
        read(b"<html>Please\nlog in, sk-secret-123")


FILTERED_AWAY: dict[str, dict[str, Any]] = {
    "null": {"message": {"content": None}, "finish_reason": "content_filter"},
    "empty": {"message": {"content": "\n"}, "finish_reason": "content_filter"},
    "no message": {"finish_reason": "content_filter"},
    "Gemini": {"message": {}, "finish_reason": "content_filter: PROHIBITED_CONTENT"},
    "after thoughts": {"message": {"reasoning": "Hm."}, "finish_reason": "SAFETY"},
}


@pytest.mark.parametrize("choice", FILTERED_AWAY.values(), ids=FILTERED_AWAY)
def test_a_reply_that_was_filtered_away_is_no_empty_answer(choice: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="content filter") as raised:
        read(orjson.dumps({"choices": [choice]}))
    assert raised.value.kind == "filter"


@pytest.mark.parametrize(
    ("message", "finish"),
    [({"content": None}, "content_filter"), ({"content": "Re"}, "abort"), ({"content": 7}, "stop")],
)
def test_a_failure_has_the_tokens_that_were_paid(message: dict[str, Any], finish: str) -> None:
    usage = {"prompt_tokens": 12, "completion_tokens": 3}
    with pytest.raises(BackendError) as raised:
        read(completion(message, finish, usage=usage))
    assert (raised.value.input_tokens, raised.value.output_tokens) == (12, 3)


BROKEN_OFF: dict[str, tuple[dict[str, Any], type[BackendError], FailureKind, str]] = {
    "vLLM and SGLang, shut down": ({"finish_reason": "abort"}, Transient, "server", "abort"),
    "DeepSeek": (
        {"finish_reason": "insufficient_system_resource"},
        Transient,
        "server",
        "insufficient_system_resource",
    ),
    "Zhipu": ({"finish_reason": "network_error"}, Transient, "server", "network_error"),
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


@pytest.mark.parametrize("code", [429, "429"])
def test_an_error_sent_with_status_200_is_an_error(code: object) -> None:
    with pytest.raises(Transient, match="HTTP 429: slow down") as raised:
        read(orjson.dumps({"error": {"message": "slow down", "code": code}}))
    assert raised.value.kind == "rate_limit"


def test_a_key_that_is_a_common_word_changes_no_reply() -> None:
    body = {"choices": [{"message": {"content": "Any company."}, "finish_reason": "stop"}]}
    local = Endpoint(url="http://host/v1", model="m", key="any")
    assert read_reply(orjson.dumps(body), local, seconds=0.0).text == "Any company."


ANSWERED: dict[str, tuple[dict[str, Any], str | None]] = {
    "nobody": ({}, None),
    "vLLM": ({"model": "some/model"}, "some/model"),
    "OpenAI": (
        {"model": "gpt-4o-2024-08-06", "system_fingerprint": "fp_44709d6fcb"},
        "gpt-4o-2024-08-06, fingerprint fp_44709d6fcb",
    ),
    "OpenRouter": (
        {"model": "qwen/qwen2.5-vl", "provider": "Google AI Studio", "system_fingerprint": None},
        "qwen/qwen2.5-vl by Google AI Studio",
    ),
    "no name": ({"model": {"id": "m"}, "provider": "x", "system_fingerprint": "y"}, None),
    "no plain name": ({"model": " a\x1b[2J\nb "}, "a [2J b"),
    "a path": ({"model": "m" * 400, "provider": 3}, "m" * 400),
    "no short name": (
        {"model": "m" * 1000, "provider": "h" * 1000, "system_fingerprint": "f" * 1000},
        f"{'m' * 500} by {'h' * 100}, fingerprint {'f' * 100}",
    ),
}


@pytest.mark.parametrize(("answer", "name"), ANSWERED.values(), ids=ANSWERED)
def test_who_answered_is_kept_as_the_server_says(answer: dict[str, Any], name: str | None) -> None:
    body = completion({"content": "Red."}, **answer)
    first, second = (read_reply(body, ENDPOINT, seconds=1.5).answered_by for _ in range(2))
    assert first == name
    assert first is second


async def test_a_rate_limit_comes_with_its_wait() -> None:
    async def busy(_request: web.Request) -> web.Response:
        return web.Response(status=429, text="busy", headers={"Retry-After": "3"})

    async with opened(busy) as (backend, server):
        with pytest.raises(Transient, match="busy") as raised:
            await ask(backend, asked("Hm?"))
    assert (raised.value.kind, raised.value.retry_after) == ("rate_limit", 3.0)
    assert len(server.bodies) == 1


async def test_redirects_are_not_followed() -> None:
    async def moved(_request: web.Request) -> web.Response:
        raise web.HTTPTemporaryRedirect("/v1/elsewhere")

    async with opened(moved) as (backend, _):
        with pytest.raises(Refused, match="HTTP 307"):
            await ask(backend, asked("Hm?"))


async def test_a_silent_server_is_a_timeout() -> None:
    released = asyncio.Event()

    async def hang(request: web.Request) -> web.StreamResponse:
        await released.wait()
        return await say_red(request)

    async with opened(hang, timeout=0.1) as (backend, _):
        with pytest.raises(Transient, match=r"no reply in 0\.1 s") as raised:
            await ask(backend, asked("Hm?"))
        released.set()
    assert raised.value.kind == "timeout"


def speaking(*replies: dict[str, Any], status: int = 200) -> Answer:
    """Answers with one reply after the other, each a message and how it ended."""
    left = iter(replies)

    async def speak(_request: web.Request) -> web.Response:
        message = {"content": "", **next(left)}
        usage = {"prompt_tokens": 10, "completion_tokens": len(message["content"] or "")}
        choice = {"message": message, "finish_reason": message.pop("ends", "stop")}
        return web.json_response({"choices": [choice], "usage": usage}, status=status)

    return speak


TWICE: dict[str, tuple[list[dict[str, Any]], str]] = {
    "then it speaks": ([{}, {"content": "Red."}], "Red."),
    "that is all": ([{}, {}], ""),
    "blanks": ([{"content": " "}, {"content": None, "refusal": "No."}], "No."),
    "no reason": ([{"ends": None}, {"content": "Red."}], "Red."),
}


@pytest.mark.parametrize(("replies", "text"), TWICE.values(), ids=TWICE)
async def test_an_empty_reply_is_asked_once_more(replies: list[dict[str, Any]], text: str) -> None:
    async with opened(speaking(*replies)) as (backend, server):
        reply = await backend.generate(asked("Hm?"), ONCE, affinity="a")
    assert reply.text == text
    assert server.bodies == server.bodies[:1] * 2
    assert reply.input_tokens == 20


@pytest.mark.parametrize("only", [{"ends": "length"}, {"reasoning": "Hm."}])
async def test_what_ended_in_thoughts_is_asked_once(only: dict[str, Any]) -> None:
    async with opened(speaking(only)) as (backend, server):
        assert await ask(backend, asked("Hm?")) == ""
    assert len(server.bodies) == 1


async def test_no_content_at_all_is_a_failure_to_be_retried() -> None:
    async with opened(speaking({"content": None})) as (backend, server):
        with pytest.raises(Transient, match="not a chat completion") as raised:
            await ask(backend, asked("Hm?"))
    assert raised.value.kind == "malformed"
    assert raised.value.input_tokens == 10  # they are paid
    assert len(server.bodies) == 1


async def test_a_server_that_is_not_there_is_told() -> None:
    url = unused_url()
    backend = await openai_api.open_backend(spec(base_url=url), Pictures())
    with pytest.raises(Refused, match=rf"^no connection to {url} in 0\.3 s: ") as raised:
        await ask(backend, asked("Hm?"))
    assert raised.value.kind == "connection"
    assert "--wait-for-servers" in str(raised.value)
    await backend.aclose()
    await backend.aclose()
