"""Chat in OpenAI's protocol, by plain requests and by OpenAI's own client."""

import base64
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import orjson
import pytest

from mmconv.core.errors import ConfigError
from mmconv.core.keys import hash_bytes
from mmconv.service import streams
from tests.mmconv.service.conftest import MODELS, Serve, Served, Servers
from tests.pictures import picture
from tests.tiny_checkpoints import make_checkpoint

PNG = picture(1)
URI = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


def says(content: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "echo", "messages": [{"role": "user", "content": content}]} | fields


def shown(url: str) -> dict[str, Any]:
    return says([{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "hi"}])


def error(answer: httpx2.Response) -> dict[str, Any]:
    return dict(answer.json()["error"])


async def post(served: Served, body: Any) -> httpx2.Response:
    return await served.client.post("/v1/chat/completions", json=body)


def record_asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Messages and sampling of what fake models are asked from now on."""
    asked: list[Any] = []
    monkeypatch.setattr(
        "model_zoo.simulated.fake.FakeBackend._fail_sometimes",
        lambda self, messages, sampling: asked.append((messages, sampling)),
    )
    return asked


def events(answer: httpx2.Response) -> list[Any]:
    """The values of a stream, whose last line is the protocol's."""
    lines = [line for line in answer.text.split("\n\n") if line]
    assert lines.pop() == "data: [DONE]"
    return [orjson.loads(line.removeprefix("data: ")) for line in lines if line[0] != ":"]


async def test_an_answer_has_openais_shape(served: Served) -> None:
    answer = await post(served, says("hello there"))
    assert answer.status_code == 200
    info = answer.json()
    assert info["object"] == "chat.completion"
    assert info["choices"][0]["message"]["content"] == "hello there"
    assert info["choices"][0]["finish_reason"] == "stop"
    usage = {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}
    assert info["usage"] == usage | {"prompt_tokens_details": None}


@pytest.mark.parametrize("stream", [False, True])
async def test_an_assistants_message_at_the_end_is_refused(served: Served, stream: bool) -> None:
    begun = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "Hel"}]
    answer = await post(served, says("") | {"messages": begun, "stream": stream})
    assert (answer.status_code, error(answer)["param"]) == (400, "messages[1].role")
    further = [*begun, {"role": "user", "content": "Go on."}]
    assert (await post(served, says("") | {"messages": further})).status_code == 200


async def test_models_are_listed_and_told_one_by_one(served: Served) -> None:
    listed = (await served.client.get("/v1/models")).json()["data"]
    assert [model["id"] for model in listed] == list(MODELS)
    assert (await served.client.get("/v1/models/echo")).json() == listed[0]
    missing = await served.client.get("/v1/models/a/b")
    assert (missing.status_code, error(missing)["code"]) == (404, "model_not_found")


async def test_a_stream_brings_the_same_text_and_the_usage(served: Served) -> None:
    asked = says("hello there", stream=True, stream_options={"include_usage": True})
    answer = await post(served, asked)
    assert answer.headers["content-type"].startswith("text/event-stream")
    first, text, end, usage = events(answer)
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert text["choices"][0]["delta"] == {"content": "hello there"}
    assert end["choices"][0]["finish_reason"] == "stop"
    assert usage["usage"]["total_tokens"] == 4
    assert usage["choices"] == []


async def test_a_long_stream_stays_alive(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PATIENCE_SECONDS", 0.1)
    answer = await post(served, says("hello", stream=True, model="slow"))
    assert answer.text.count(": at work\n\n") >= 2
    assert events(answer)[1]["choices"][0]["delta"]["content"] == "hello"


async def test_a_stream_that_failed_in_time_has_a_status(serve: Serve) -> None:
    answer = await post(await serve(models=SCRIPTED), says("other", model="scripted", stream=True))
    assert answer.status_code == 400
    assert "no pattern" in error(answer)["message"]


async def test_a_late_failure_is_streamed(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PATIENCE_SECONDS", 0.01)
    served = await serve(models=SCRIPTED)
    answer = await post(served, says("other", model="scripted", stream=True))
    assert answer.status_code == 200
    assert events(answer)[-1]["error"]["code"] == "rejected"


SCRIPTED = {
    "scripted": {
        "provider": "fake",
        "model": "scripted",
        "options": {"script": {"^hello": "good day"}, "seconds": 0.1},
    }
}


async def test_an_image_by_uri_or_id_is_seen_and_a_held_one_goes(
    served: Served,
) -> None:
    sha256 = hash_bytes(PNG)
    by_uri = await post(served, shown(URI))
    assert by_uri.json()["mmconv"]["images"] == [{"id": sha256, "width": 320, "height": 160}]
    assert not served.shared.uploads.holds(sha256)
    missing = await post(served, shown(f"image:{sha256}"))
    assert (missing.status_code, error(missing)["code"]) == (404, "image_not_found")
    await served.client.post("/v1/images", content=PNG)
    by_id = await post(served, shown(f"image:{sha256}"))
    assert by_id.json()["mmconv"]["images"] == by_uri.json()["mmconv"]["images"]


async def test_an_image_with_a_wrong_label_is_taken_for_what_it_is(served: Served) -> None:
    assert (await post(served, shown(URI.replace("png", "jpeg", 1)))).status_code == 200


async def test_what_clients_send_to_ask_for_nothing_is_taken(served: Served) -> None:
    nothing = {
        "n": 1,
        "tools": [],
        "functions": [],
        "tool_choice": "auto",
        "logprobs": False,
        "frequency_penalty": 0.0,
        "presence_penalty": 0,
        "logit_bias": {},
        "top_k": -1,
        "chat_template_kwargs": {},
        "stream": False,
        "store": False,
        "response_format": {"type": "text"},
        "service_tier": "auto",
        "top_p": None,
        "stop": None,
        "user": "ada",
    }
    assert (await post(served, says("hello") | nothing)).status_code == 200


async def test_fields_beyond_the_common_ones_go_to_models_that_take_them(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"top_k": 5, "reasoning_effort": "low", "chat_template_kwargs": {"think": False}}
    monkeypatch.setattr(
        "model_zoo.simulated.fake.extra_fields", lambda _spec: (*fields, "logprobs"), raising=False
    )
    asked = record_asked(monkeypatch)
    message = {"role": "user", "content": "hi", "name": "ada", "cache_control": {"type": "any"}}
    answer = await post(served, says("") | {"messages": [message]} | fields)
    assert answer.status_code == 200
    [([sent], sampling)] = asked
    assert (sent.name, sampling.extra) == ("ada", fields)
    sizes = served.shared.settings.sizes
    huge = {"chat_template_kwargs": {"x": "y" * sizes.text_length}}
    refused = await post(served, says("hi", **huge))
    assert (refused.status_code, error(refused)["param"]) == (413, "chat_template_kwargs")


@pytest.mark.parametrize("stream", [False, True])
async def test_several_answers_are_several_calls(serve: Serve, stream: bool) -> None:
    served = await serve(models={"echo": {"provider": "fake", "model": "judge"}})
    body = says("Give a rating: [[x]] of 1 to 10", n=6, seed=1, stream=stream)
    answer = await post(served, body | {"stream_options": {"include_usage": True}})
    assert answer.status_code == 200
    if stream:
        *chunks, last = events(answer)
        usage = last["usage"]
        choices = [chunk["choices"][0] for chunk in chunks]
        texts = [choice["delta"]["content"] for choice in choices if choice["delta"].get("content")]
        assert {choice["index"] for choice in choices} == set(range(6))
    else:
        texts = [choice["message"]["content"] for choice in answer.json()["choices"]]
        usage = answer.json()["usage"]
    assert len(texts) == 6
    assert len(set(texts)) > 1
    assert usage["prompt_tokens"] == 6 * len(body["messages"][0]["content"].split())


async def test_forbidden_tools_and_an_answer_without_words_are_taken(
    served: Served,
) -> None:
    before = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": None}]
    body = says("hello", tools=[{"type": "function"}], tool_choice="none", function_call="none")
    body["messages"] = [*before, *body["messages"]]
    assert (await post(served, body)).status_code == 200


async def test_clients_of_azure_and_a_wrong_base_url_are_understood(served: Served) -> None:
    client = served.client
    azure = await client.post("/v1/chat/completions?api-version=2024-10-21", json=says("hello"))
    assert azure.status_code == 200
    wrong = await client.post("/chat/completions", json=says("hello"))
    assert wrong.status_code == 404
    assert "use /v1/chat/completions" in error(wrong)["message"]


@pytest.mark.parametrize(
    ("sizes", "body", "param"),
    [
        (
            {"turns": 1},
            says("x") | {"messages": [{"role": "user", "content": "x"}] * 2},
            "messages",
        ),
        ({"text_length": 5}, says("123456"), "messages[0].content"),
        (
            {"text_length": 5},
            {"model": "echo", "messages": [{"role": "user", "content": "12345"}] * 6},
            None,
        ),
        ({"images": 1}, says([shown(URI)["messages"][0]["content"][0]] * 2), None),
        ({"image_bytes": 999}, shown(URI), "messages[0].content[0].image_url.url"),
        ({"body_bytes": 50}, says("x" * 50), None),
        ({"json_values": 5}, says("hello", metadata={str(n): "x" for n in range(6)}), None),
    ],
)
async def test_what_is_too_large_is_refused(
    serve: Serve, sizes: dict[str, int], body: Any, param: str | None
) -> None:
    answer = await post(await serve(sizes=sizes), body)
    assert answer.status_code == 413
    if param is not None:
        assert error(answer)["param"] == param


async def test_a_schema_binds_models_that_can_be_bound(serve: Serve) -> None:
    schema = {
        "type": "object",
        "properties": {"score": {"type": "integer", "minimum": 1, "maximum": 3}},
        "required": ["score"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "grade", "schema": schema}}
    loose = {"provider": "openai", "model": "x", "base_url": "http://127.0.0.1:9/v1"}
    served = await serve(models={"loose": loose})
    bound = await post(served, says("grade", model="judge", response_format=wanted))
    assert 1 <= orjson.loads(bound.json()["choices"][0]["message"]["content"])["score"] <= 3
    refused = await post(served, says("grade", model="loose", response_format=wanted))
    assert (refused.status_code, error(refused)["param"]) == (400, "response_format")


async def test_json_mode_takes_any_object(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = record_asked(monkeypatch)
    wanted = {"type": "json_object"}
    answer = await post(served, says("grade", model="judge", response_format=wanted))
    assert orjson.loads(answer.json()["choices"][0]["message"]["content"]) == {}
    [(_, sampling)] = asked
    assert orjson.loads(sampling.schema) == {"type": "object", "additionalProperties": True}


@pytest.mark.parametrize(
    ("kind", "status"),
    [("timeout", 504), ("connection", 502), ("server", 502), ("rate_limit", 503)],
)
async def test_a_failed_models_address_is_hidden(serve: Serve, kind: str, status: int) -> None:
    failing = {
        "provider": "fake",
        "model": "failing",
        "attempts": 1,
        "options": {"rate": 1, "kinds": [kind]},
    }
    answer = await post(await serve(models={"echo": failing}), says("hello"))
    assert answer.status_code == status
    assert error(answer)["type"] == "server_error"
    assert error(answer)["code"] == kind
    assert ("Retry-After" in answer.headers) == (status == 503)


async def test_unloadable_models_are_a_503(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_given: object) -> None:
        raise ConfigError("/checkpoints/x holds no checkpoint")

    monkeypatch.setattr("model_zoo.simulated.fake.open_backend", fail)
    answer = await post(served, says("hello"))
    assert (answer.status_code, error(answer)["code"]) == (503, "model_unusable")
    assert "/checkpoints" not in answer.text


async def test_without_a_seed_every_answer_is_drawn_anew(serve: Serve) -> None:
    served = await serve(models={"echo": {"provider": "fake", "model": "judge"}})

    async def text(**fields: Any) -> str:
        answer = await post(served, says("Give a rating: [[x]] of 1 to 10", **fields))
        return str(answer.json()["choices"][0]["message"]["content"])

    assert await text() != await text()
    assert await text(seed=3) == await text(seed=3)
    assert await text(temperature=0) == await text(temperature=0)


async def test_the_request_goes_before_files(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"temperature": 0.5, "max_tokens": 7}
    served = await serve(models={"echo": MODELS["echo"] | {"system": "Be kind.", "sampling": own}})
    asked = record_asked(monkeypatch)
    await post(served, says("hello"))
    await post(served, says("hello", temperature=0.0, max_completion_tokens=9, stop="x", seed=4))
    (messages, default), (_, chosen) = asked
    assert [message.role for message in messages] == ["system", "user"]
    assert (default.temperature, default.max_tokens) == (0.5, 7)
    assert (chosen.temperature, chosen.max_tokens, chosen.stop, chosen.seed) == (0.0, 9, ("x",), 4)


async def test_an_empty_nucleus_is_greedy(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Task files of lmms-eval hold `top_p: 0`, which no backend takes."""
    served = await serve(models={"echo": MODELS["echo"] | {"sampling": {"top_p": 0.9}}})
    asked = record_asked(monkeypatch)
    assert (await post(served, says("x", temperature=0.7, top_p=0))).status_code == 200
    [(_, sampling)] = asked
    assert (sampling.temperature, sampling.top_p, sampling.seed) == (0.0, 1.0, None)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    folder = tmp_path_factory.mktemp("tiny")
    tiny = {
        "provider": "hf",
        "model": str(make_checkpoint("llava", folder / "tiny")),
        "options": {"threads": 1},
    }
    servers = Servers(folder)
    server = servers(models={"tiny": tiny})
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as opened:
        yield opened
    servers.end()


def test_three_turns_about_an_image(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == sorted([*MODELS, "tiny"])
    first: Any = [
        {"type": "image_url", "image_url": {"url": URI, "detail": "auto"}},
        {"type": "text", "text": "What is shown?"},
    ]
    messages: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": first}]
    counted = []
    for question in ("Why?", "And then?", None):
        answer = client.chat.completions.create(
            model="tiny", messages=messages, max_tokens=8, temperature=0
        )
        assert answer.usage is not None
        counted.append(answer.usage.prompt_tokens)
        assert answer.choices[0].finish_reason in ("stop", "length")
        seen = (answer.model_extra or {})["mmconv"]["images"]
        assert [(image["width"], image["height"]) for image in seen] == [(320, 160)]
        messages += [answer.choices[0].message, {"role": "user", "content": question}]
    assert counted == sorted(set(counted))


def test_a_stream_says_what_the_whole_answer_says(client: openai.OpenAI) -> None:
    asked: Any = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "Tell me a story."}],
        "max_tokens": 12,
        "temperature": 0,
    }
    whole = client.chat.completions.create(**asked)
    chunks = list(
        client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert sum(map(bool, texts)) > 2  # as they come, not all at once
    assert "".join(texts) == whole.choices[0].message.content
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    assert chunks[-1].usage == whole.usage


def test_errors_are_the_clients_own(client: openai.OpenAI) -> None:
    hello: Any = [{"role": "user", "content": "hello"}]
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gpt-9", messages=hello)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="tiny", messages=hello, logprobs=True)
    assert refused.value.param == "logprobs"
    with pytest.raises(openai.BadRequestError) as long:
        client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "hello " * 20_000}]
        )
    assert long.value.code == "context_length_exceeded"
