"""Errors are told in words that whoever sends JSON can use."""

from __future__ import annotations

from typing import Any

import pytest

from images.decode import bound, read_media_type
from mmconv.core.errors import ImageError
from mmconv.core.types import Failure
from mmconv.service.errors.privacy import without_commands
from mmconv.service.errors.validation import in_one
from mmconv.service.models.failures import problem_of_failure, words_of_failure
from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.run_settings import CHAT, drawn, request

NOT_HERE = "not supported here: leave it out"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tools": [{"type": "function"}]}, f"tools: {NOT_HERE}"),
        ({"frequency_penalty": 0.5}, f"frequency_penalty: {NOT_HERE}"),
        ({"logit_bias": {"5": 1}}, f"logit_bias: {NOT_HERE}"),
        ({"messages": []}, "messages: at least 1 must be given"),
        ({"messages": {}}, "messages: a list is needed"),
        ({"max_tokens": "many"}, "max_tokens: a whole number is needed"),
        ({"temperature": 3}, "temperature: should be less than or equal to 2"),
        ({"n": 2}, "n: 1 is needed"),
        ({"stop": [""]}, "stop[0]: should have at least 1 character"),
        ({"stop": ""}, "stop: should have at least 1 character"),
        (
            {"messages": [{"role": "tool", "content": "x"}]},
            "messages[0]: 'role' must be one of 'system', 'developer', 'user', 'assistant'",
        ),
        ({"messages": [{"content": "x"}]}, "messages[0]: 'role' is needed and not there"),
    ],
)
async def test_no_python_is_spoken(served: Served, change: dict[str, Any], message: str) -> None:
    answer = await served.client.post("/v1/chat/completions", json=CHAT | change)
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, message)


async def test_nothing_may_be_asked_for_by_its_name(served: Served) -> None:
    nothing = {"tools": [], "frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {}}
    answer = await served.client.post("/v1/chat/completions", json=CHAT | nothing)
    assert answer.status_code == 200


async def test_a_tuple_is_a_list(served: Served) -> None:
    asked = {"model": "echo", "turns": "What is it?"}
    answer = await served.client.post("/v1/dialogues", json=asked)
    assert answer.json()["error"]["message"] == "turns: a list is needed"


async def test_an_empty_text_is_told(served: Served) -> None:
    asked = {"model": "echo", "turns": [{"instruction": ""}]}
    answer = await served.client.post("/v1/dialogues", json=asked)
    told = answer.json()["error"]["message"]
    assert told == "turns[0].instruction: should have at least 1 character"


async def test_where_json_ends_is_told(served: Served) -> None:
    body = b'{"model": "echo",, }'
    headers = {"Content-Type": "application/json"}
    answer = await served.client.post("/v1/chat/completions", content=body, headers=headers)
    error = answer.json()["error"]
    assert error["code"] == "invalid_json"
    assert error["message"].startswith("the body is not JSON: ")
    assert error["message"].endswith("(at character 18)")


async def test_who_is_lost_is_shown_the_documentation(served: Served) -> None:
    for method, path, status in (("GET", "/v1/nothing", 404), ("PUT", "/v1/models", 405)):
        answer = await served.client.request(method, path)
        assert answer.status_code == status
        assert "/docs lists" in answer.json()["error"]["message"]


async def test_the_command_line_is_not_spoken_of(serve: Serve, tmp_path: Any) -> None:
    client = (await serve(data=drawn(tmp_path))).client
    answer = await client.post("/v1/runs", json=request(seats={"candidate": "echo"}))
    assert answer.json()["error"] == {
        "message": "grading needs a judge: name one, or give options.generate_only",
        "type": "invalid_request_error",
        "param": "seats.judge",
        "code": "invalid_run",
    }


def test_the_engines_hints_are_for_its_own_users() -> None:
    with pytest.raises(ImageError) as large:
        bound("images[0]", "pixels", 10, 5)
    assert without_commands(str(large.value)).endswith("are allowed; make the image smaller")
    with pytest.raises(ImageError) as other:
        read_media_type(b"\xc7\x1cq'\")();x", "the image")
    assert "is of another kind; give a JPEG" in without_commands(str(other.value))
    unusual = "with the prompts shipped for it: run it without --prompts"
    assert without_commands(unusual).endswith("; this server has prompts of its own")
    assert without_commands("see --out and (--skip-bad-records)") == (
        "see --out and (options.skip_bad_records)"
    )


def test_who_chats_has_no_model_file() -> None:
    told = "no such role; give another template in the model's options.chat_template"
    assert without_commands(told) == "no such role"
    told += (
        ", or go without a system message: leave `system` out of the model's file, and in a run of "
        "BotChat set options.prompt_role=user"
    )
    in_a_run = words_of_failure("rejected", told)
    assert in_a_run == (
        "no such role; go without a system message; in a run of BotChat set "
        "options.prompt_role=user"
    )
    failure = Failure(kind="rejected", message=told, attempts=1)
    assert problem_of_failure(failure).message == "no such role; go without a system message"


def test_kinds_of_one_value_are_told_together() -> None:
    told = ["one of 'a' or 'b' is needed", "a whole number is needed", "at most 3 are allowed"]
    assert in_one(told) == "one of 'a' or 'b', or a whole number is needed"
    assert in_one(told[::-1]) == "at most 3 are allowed"


async def test_a_value_of_two_kinds_is_told_both(served: Served) -> None:
    body = {"model": "echo", "turns": [{"instruction": "Why?"}], "conditions": ["best"]}
    answer = await served.client.post("/v1/dialogues", json=body)
    told = answer.json()["error"]["message"]
    assert told.endswith("'reasoning', or a whole number is needed")
