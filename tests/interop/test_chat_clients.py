"""LangChain, LiteLLM and the `llm` command as clients of a real server, streaming and not."""

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.interop.conftest import Python, interpreter
from tests.mmconv.service.conftest import ServerProcess, Servers

LANGCHAIN = """
import json, sys
from langchain_openai import ChatOpenAI
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
url, responses = sys.argv[1], sys.argv[2] == "responses"
image = "data:image/gif;base64,R0lGODdhAQABAIAAAP8AAAAAACwAAAAAAQABAAACAkQBADs="
model = ChatOpenAI(model="echo", base_url=url, api_key="any", use_responses_api=responses,
    stream_usage=True, temperature=0.5, max_retries=0)
shown = [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": image}}]
messages = [SystemMessage("Be brief."), HumanMessage(shown), AIMessage("Hello."),
    HumanMessage("good morning to you")]
whole = model.invoke(messages)
chunks = list(model.stream([*messages, whole, HumanMessage("and good night")]))
total = chunks[0]
for chunk in chunks[1:]:
    total += chunk
def text(message):
    if isinstance(message.content, str):
        return message.content
    return "".join(part.get("text", "") for part in message.content)
print(json.dumps([text(whole), text(total), total.usage_metadata["output_tokens"]]))
"""

LITELLM = """
import json, sys
import litellm
asked = dict(model="openai/echo", api_base=sys.argv[1], api_key="any", num_retries=0,
    messages=[{"role": "user", "name": "ada", "content": [{"type": "text", "text": "good morning",
        "cache_control": {"type": "ephemeral"}}]}])
whole = litellm.completion(**asked, n=2)
streamed = litellm.completion(**asked, stream=True, stream_options={"include_usage": True})
texts = [chunk.choices[0].delta.content or "" for chunk in streamed if chunk.choices]
place = dict(api_base=sys.argv[1], api_key="any")
response = litellm.responses(model="openai/echo", input="hello", **place)
print(json.dumps([[choice.message.content for choice in whole.choices], "".join(texts),
    response.output[-1].content[0].text]))
"""

LLM = """
import sys
from llm.cli import cli
cli(sys.argv[1:])
"""

MODELS_OF_LLM = """
- model_id: echo
  model_name: echo
  api_base: {url}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    servers = Servers(tmp_path_factory.mktemp("clients"))
    yield servers()
    servers.end()


@pytest.fixture
def python(tmp_path: Path) -> Python:
    return interpreter("MMCONV_TEST_CLIENTS_PYTHON", tmp_path)


@pytest.mark.parametrize("protocol", ["chat", "responses"])
def test_langchain(server: ServerProcess, python: Python, protocol: str) -> None:
    said = orjson.loads(python("-c", LANGCHAIN, f"{server.url}/v1", protocol))
    assert said == ["good morning to you", "and good night", 3]


def test_litellm(server: ServerProcess, python: Python) -> None:
    said = orjson.loads(python("-c", LITELLM, f"{server.url}/v1", LITELLM_LOCAL_MODEL_COST_MAP="1"))
    assert said == [["good morning", "good morning"], "good morning", "hello"]


@pytest.mark.parametrize("stream", [(), ("--no-stream",)])
def test_llm(
    server: ServerProcess, python: Python, tmp_path: Path, stream: tuple[str, ...]
) -> None:
    models = MODELS_OF_LLM.format(url=f"{server.url}/v1")
    (tmp_path / "extra-openai-models.yaml").write_text(models)
    printed = python(
        *("-c", LLM, "-m", "echo", "good morning", *stream, "-o", "temperature", "0.5"),
        LLM_USER_PATH=str(tmp_path),
        OPENAI_API_KEY="any",
    )
    assert printed.strip() == "good morning"
