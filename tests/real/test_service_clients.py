"""Clients as they are, against a real server with a real, tiny vision-language model.

Each holds the same conversation of three turns about an image, which the model's policy makes
smaller. What the model said and saw is the same through all of them, and the transcript shows it.
"""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest

from mmconv.core.keys import hash_bytes
from tests.mmconv.service.conftest import ServerProcess, Servers
from tests.pictures import picture
from tests.tiny_checkpoints import make_checkpoint

INSPECT_PYTHON = "MMCONV_TEST_INSPECT_PYTHON"

TURNS = ("What is shown?", "Why do you think so?", "Write a slogan for it.")

IMAGE = picture(1, (640, 640))

SIDE = 224
"""What is left of it."""

CHOSEN: dict[str, Any] = {"model": "tiny", "temperature": 0, "max_tokens": 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """An answer of the model: its text, the prompt's tokens, and images as the model saw them."""

    text: str
    prompt_tokens: int
    seen: tuple[tuple[str, int, int], ...]


def read_said(text: str, usage: Any, lines: Any) -> Said:
    seen = tuple((image["id"], image["width"], image["height"]) for image in lines["images"])
    return Said(text=text, prompt_tokens=usage["prompt_tokens"], seen=seen)


def read_completion(answer: Any) -> Said:
    return read_said(answer["choices"][0]["message"]["content"], answer["usage"], answer["mmconv"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("clients")
    tiny = {
        "provider": "hf",
        "model": str(make_checkpoint("llava", folder / "tiny")),
        "options": {"threads": 1, "max_pixels": SIDE * SIDE},
    }
    servers = Servers(folder)
    yield servers(models={"tiny": tiny})
    servers.end()


@pytest.fixture(scope="module")
def expected(server: ServerProcess) -> list[Said]:
    """The conversation through OpenAI's client, answers whole."""
    with open_openai(server) as client:
        said = []
        messages = [opening(data_uri())]
        for turn in (*TURNS[1:], ""):
            answer = client.chat.completions.create(**CHOSEN, messages=messages).model_dump()
            said.append(read_completion(answer))
            messages += follow(said[-1].text, turn)
    return said


def open_openai(server: ServerProcess) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0)


def data_uri() -> str:
    return f"data:image/png;base64,{base64.b64encode(IMAGE).decode()}"


def opening(image: str) -> Any:
    parts = [{"type": "image_url", "image_url": {"url": image}}, {"type": "text", "text": TURNS[0]}]
    return {"role": "user", "content": parts}


def follow(answer: str, turn: str) -> list[Any]:
    return [{"role": "assistant", "content": answer}, {"role": "user", "content": turn}]


def test_the_model_sees_the_image_and_every_turn_before(expected: list[Said]) -> None:
    assert [each.seen for each in expected] == [((hash_bytes(IMAGE), SIDE, SIDE),)] * 3
    tokens = [each.prompt_tokens for each in expected]
    assert tokens == sorted(set(tokens))
    assert len({each.text for each in expected}) == 3


def test_openai_streamed(server: ServerProcess, expected: list[Said]) -> None:
    said = []
    with open_openai(server) as client:
        messages = [opening(data_uri())]
        for turn in (*TURNS[1:], ""):
            chunks = client.chat.completions.create(
                **CHOSEN, messages=messages, stream=True, stream_options={"include_usage": True}
            )
            *parts, last, counted = [chunk.model_dump() for chunk in chunks]
            text = "".join(part["choices"][0]["delta"]["content"] for part in parts)
            said.append(read_said(text, counted["usage"], last["mmconv"]))
            messages += follow(text, turn)
    assert said == expected


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl(server: ServerProcess, expected: list[Said], tmp_path: Path) -> None:
    (tmp_path / "scene.png").write_bytes(IMAGE)
    uploaded = curl(f"{server.url}/v1/images", "-F", f"file=@{tmp_path / 'scene.png'}")
    assert (uploaded["id"], uploaded["width"]) == (hash_bytes(IMAGE), 640)
    said = []
    messages = [opening(f"image:{uploaded['id']}")]
    for turn in (*TURNS[1:], ""):
        body = tmp_path / "body.json"
        body.write_text(json.dumps({**CHOSEN, "messages": messages}))
        url = f"{server.url}/v1/chat/completions"
        kind = "Content-Type: application/json"
        said.append(read_completion(curl(url, "-H", kind, "--data-binary", f"@{body}")))
        messages += follow(said[-1].text, turn)
    assert said == expected


def curl(*arguments: str) -> Any:
    done = subprocess.run(
        ["curl", "--silent", "--show-error", "--fail-with-body", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.real
def test_inspect(server: ServerProcess, expected: list[Said], tmp_path: Path) -> None:
    python = os.environ.get(INSPECT_PYTHON)
    if not python:
        pytest.skip(f"{INSPECT_PYTHON} names no interpreter with Inspect (.ci/run sets it)")
    image, logs = tmp_path / "scene.png", tmp_path / "logs"
    image.write_bytes(IMAGE)
    script = Path(__file__).with_name("inspect_dialogue.py")
    done = subprocess.run(
        [python, str(script), str(image), str(logs), *TURNS],
        env=os.environ
        | {
            "MMCONV_BASE_URL": f"{server.url}/v1",
            "MMCONV_API_KEY": "any",
            "XDG_DATA_HOME": str(tmp_path / "home"),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [path] = logs.glob("*.json")
    [sample] = json.loads(path.read_text())["samples"]
    calls = [event["call"] for event in sample["events"] if event["event"] == "model"]
    assert [read_completion(call["response"]) for call in calls] == expected
    spoken = [each for each in sample["messages"] if each["role"] == "assistant"]
    assert [text_of(message) for message in spoken] == [each.text for each in expected]


def text_of(message: Any) -> str:
    """The text of a message of Inspect's log, which is a string or a list of parts."""
    content = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)
