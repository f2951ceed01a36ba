"""`/v1/responses`, by plain requests and by OpenAI's own client."""

import base64
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import orjson
import pytest

from mmconv.core.types import Reply
from model_zoo.simulated.fake import FakeBackend
from tests.mmconv.service.conftest import Served, Servers
from tests.mmconv.service.test_chat import error, record_asked
from tests.pictures import picture

PNG = picture(1)
URI = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
SEEN = {"type": "input_image", "image_url": URI}
CONVERSATION = [
    {"role": "user", "content": [SEEN, {"type": "input_text", "text": "What is it?"}]},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {
        "type": "message",
        "id": "msg_1",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "A scene.", "annotations": []}],
    },
    {"role": "user", "content": "Why?"},
]


async def post(served: Served, asked: Any, **fields: Any) -> httpx2.Response:
    body = {"model": "echo", "input": asked} | fields
    return await served.client.post("/v1/responses", json=body)


def events(answer: httpx2.Response) -> list[Any]:
    values = []
    for block in answer.text.strip().split("\n\n"):
        name, data = block.split("\n")
        values.append(orjson.loads(data.removeprefix("data: ")))
        assert name == f"event: {values[-1]['type']}"
    assert [value["sequence_number"] for value in values] == list(range(len(values)))
    return values


async def test_an_image_is_answered_about(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = record_asked(monkeypatch)
    answer = await post(
        served, CONVERSATION, instructions="Be brief.", max_output_tokens=9, store=False
    )
    assert answer.status_code == 200
    [(messages, sampling)] = asked
    assert [message.role for message in messages] == ["system", "user", "assistant", "user"]
    assert [len(message.images) for message in messages] == [0, 1, 0, 0]
    assert sampling.max_tokens == 9
    [item] = answer.json()["output"]
    assert item["content"][0]["text"] == "Why?"
    assert answer.json()["status"] == "completed"
    assert answer.json()["usage"]["output_tokens"] == 1


async def test_reasoning_and_an_answer_that_was_cut_are_shown(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def generate(*_arguments: Any, **_others: Any) -> Reply:
        return Reply(
            text="A kite",
            reasoning="It flies.",
            finish="length",
            input_tokens=9,
            output_tokens=5,
            cached_tokens=4,
        )

    monkeypatch.setattr(FakeBackend, "generate", generate)
    info = (await post(served, "hello")).json()
    assert (info["status"], info["incomplete_details"]["reason"]) == (
        "incomplete",
        "max_output_tokens",
    )
    assert [item["type"] for item in info["output"]] == ["reasoning", "message"]
    assert info["usage"]["input_tokens_details"] == {"cached_tokens": 4}
    kinds = [event["type"] for event in events(await post(served, "hello", stream=True))]
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.reasoning_text.delta",
        "response.reasoning_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ]


@pytest.mark.parametrize(
    ("asked", "fields", "param"),
    [
        ("hi", {"store": True}, "store"),
        ("hi", {"previous_response_id": "resp_1"}, "previous_response_id"),
        ("hi", {"reasoning": {"effort": "high"}}, "reasoning.effort"),
        ("hi", {"text": {"format": {"type": "json_object"}}}, "text.format"),
        ("hi", {"max_output_tokens": 10**9}, "max_output_tokens"),
        ("hi", {"top_logprobs": False}, "top_logprobs"),
        ("hi", {"background": True}, "background"),
        ("hi", {"background": 0}, "background"),
        ("hi", {"tools": [{"type": "web_search"}]}, "tools"),
        (CONVERSATION[:3], {}, "input[2].role"),
        ([CONVERSATION[1]], {}, "input"),
        ([{"role": "system", "content": [SEEN]}], {}, "input"),
        ([{"role": "user", "content": [SEEN | {"image_url": "data:x"}]}], {}, None),
        ([{"type": "function_call"}], {}, "input[0]"),
    ],
)
async def test_what_cannot_be_honoured_is_refused_by_name(
    served: Served, asked: Any, fields: dict[str, Any], param: str | None
) -> None:
    answer = await post(served, asked, **fields)
    assert answer.status_code == 400
    if param is None:
        assert error(answer)["param"].startswith("input[0].content[0].image_url")
    else:
        assert error(answer)["param"] == param


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    servers = Servers(tmp_path_factory.mktemp("responses"))
    server = servers()
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as opened:
        yield opened
    servers.end()


def test_openais_client_reads_a_response_whole_and_streamed(client: openai.OpenAI) -> None:
    messages: Any = CONVERSATION
    whole = client.responses.create(model="echo", input=messages)
    assert whole.output_text == "Why?"
    with client.responses.stream(model="echo", input=messages) as stream:
        texts = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(texts) == final.output_text == "Why?"
    assert final.usage == whole.usage
    follow_up: Any = [*messages, *whole.output, {"role": "user", "content": "And then?"}]
    assert client.responses.create(model="echo", input=follow_up).output_text == "And then?"


def test_openais_client_raises_the_errors_of_a_stream(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="echo", input="hi", previous_response_id="resp_1")
    assert "keeps no responses" in refused.value.message
