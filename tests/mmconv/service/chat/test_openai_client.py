"""OpenAI's own client against a real server with a real, tiny vision-language model."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.mmconv.service.conftest import Servers
from tests.pictures import picture
from tests.tiny_checkpoints import make_checkpoint

PNG = picture(1)
URI = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


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
    assert [model.id for model in client.models.list()] == ["tiny"]
    first: Any = [
        {"type": "image_url", "image_url": {"url": URI, "detail": "auto"}},
        {"type": "text", "text": "What is shown?"},
    ]
    messages: Any = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": first},
    ]
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
    assert "".join(texts) == whole.choices[0].message.content
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    assert chunks[-1].usage == whole.usage


def test_errors_are_the_clients_own(client: openai.OpenAI) -> None:
    hello: Any = [{"role": "user", "content": "hello"}]
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gpt-9", messages=hello)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="tiny", messages=hello, n=2)
    assert refused.value.param == "n"
    with pytest.raises(openai.BadRequestError) as long:
        client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "hello " * 20_000}]
        )
    assert long.value.code == "context_length_exceeded"
