"""lmms-eval as it is, started as its users start it, against a real server with a bearer token.

Each of its clients that speaks OpenAI's protocol asks about the same pictures, and what it writes
down must be what OpenAI's own client is told for the same messages: texts and counted tokens.
"""

import base64
import hashlib
import io
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest
from PIL import Image

from tests.mmconv.service.conftest import ServerProcess, Servers
from tests.pictures import picture
from tests.tiny_checkpoints import make_checkpoint

LMMS_PYTHON = "MMCONV_TEST_LMMS_PYTHON"

TASKS = Path(__file__).with_name("lmms_tasks")

TOKEN = "sesame"

MAX_TOKENS = 12
"""As in the tasks' files."""

COLOURS = ("RGB", "RGBA", "P", "LA", "1")
"""lmms-eval sends a picture in the colours that its file has."""

QUESTION = "What is shown?"

ANSWER = "a red circle."

NEXT = "What colour is the shape?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One of lmms-eval's clients, and what it makes of a record.

    `text_first` says that the question stands before the picture, `system` what opens the messages.
    """

    name: str
    arguments: str
    model: str
    simple: bool = False
    tasks: tuple[str, ...] = ("mmconv_scene", "mmconv_dialogue")
    text_first: bool = False
    system: str | None = None


CLIENTS: Mapping[str, Client] = {
    "chat": Client(name="openai", arguments="model=pocket,num_concurrent=1", model="pocket"),
    "simple": Client(
        name="openai",
        arguments="model=tiny,num_concurrent=1",
        model="tiny",
        simple=True,
        tasks=("mmconv_scene",),
        text_first=True,
    ),
    "async": Client(
        name="async_openai",
        arguments="model_version=tiny,num_cpus=1,system_prompt=Be brief.",
        model="tiny",
        system="Be brief.",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """An answer, and the tokens of prompt and answer as counted."""

    text: str
    read: int
    written: int


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter that has lmms-eval; skips where there is none."""
    found = os.environ.get(LMMS_PYTHON)
    if not found:
        pytest.skip(f"{LMMS_PYTHON} names no interpreter with lmms-eval (.ci/run sets it)")
    return found


@pytest.fixture(scope="module")
def server(python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("lmms")
    tiny = {
        "provider": "hf",
        "model": str(make_checkpoint("llava", folder / "tiny")),
        "options": {"threads": 1},
    }
    sha256 = hashlib.sha256(TOKEN.encode()).hexdigest()
    servers = Servers(folder)
    yield servers(
        models={"tiny": tiny, "pocket": "pocket"},
        tokens=[{"name": "lmms", "sha256": sha256, "scopes": ["chat"]}],
    )
    servers.end()


@pytest.fixture(scope="module")
def pictures() -> list[bytes]:
    return [recolour(picture(seed), colours) for seed, colours in enumerate(COLOURS)]


def recolour(png: bytes, colours: str) -> bytes:
    file = io.BytesIO()
    with Image.open(io.BytesIO(png)) as opened:
        opened.convert(colours).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def results(
    python: str,
    server: ServerProcess,
    pictures: list[bytes],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The samples of every client, made by one process, which takes half a minute to start."""
    folder = tmp_path_factory.mktemp("results")
    write_records(pictures, folder)
    run(python, server, folder)
    return folder


@pytest.mark.real
@pytest.mark.parametrize("name", CLIENTS)
def test_lmms_eval(server: ServerProcess, pictures: list[bytes], name: str, results: Path) -> None:
    client = CLIENTS[name]
    for task in client.tasks:
        expected = [tell(server, client, messages(client, task, png)) for png in pictures]
        assert read_samples(results / name, task) == expected
        assert len({said.text for said in expected}) > 1


def write_records(pictures: Sequence[bytes], folder: Path) -> None:
    records = []
    for number, png in enumerate(pictures):
        path = folder / f"{number}.png"
        path.write_bytes(png)
        record = {"image": str(path), "question": QUESTION, "answer": ANSWER, "next": NEXT}
        records.append(json.dumps(record))
    (folder / "records.jsonl").write_text("\n".join(records))


def run(python: str, server: ServerProcess, folder: Path) -> None:
    """Run lmms-eval once for all clients; their samples go into folders of their names."""
    config = [
        {
            "model": client.name,
            "model_args": client.arguments,
            "force_simple": client.simple,
            "tasks": ",".join(client.tasks),
            "include_path": str(TASKS),
            "batch_size": "1",
            "log_samples": True,
            "output_path": name,
        }
        for name, client in CLIENTS.items()
    ]
    # JSON is YAML
    (folder / "config.yaml").write_text(json.dumps(config))
    done = subprocess.run(
        [python, "-m", "lmms_eval", "--config", "config.yaml"],
        env=os.environ
        | {
            "OPENAI_API_BASE": f"{server.url}/v1",
            "OPENAI_API_KEY": TOKEN,
            "HF_HOME": str(folder / "home"),
            "HF_HUB_OFFLINE": "1",
        },
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def read_samples(folder: Path, task: str) -> list[Said]:
    [path] = folder.glob(f"*/*_samples_{task}.jsonl")
    # not splitlines: a model may well say what Python takes for the end of a line
    samples = [json.loads(line) for line in path.read_text().split("\n") if line]
    samples.sort(key=lambda sample: int(sample["doc_id"]))
    return [read_sample(sample["filtered_resps"], *sample["token_counts"]) for sample in samples]


def read_sample(text: str, counted: Any) -> Said:
    return Said(text=text, read=counted["input_tokens"], written=counted["output_tokens"])


def messages(client: Client, task: str, png: bytes) -> list[Any]:
    """What the client makes of a picture's record."""
    uri = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    parts: list[Any] = [
        {"type": "image_url", "image_url": {"url": uri}},
        {"type": "text", "text": QUESTION},
    ]
    made: list[Any] = [{"role": "user", "content": parts[::-1] if client.text_first else parts}]
    if task == "mmconv_dialogue":
        made += [{"role": "assistant", "content": ANSWER}, {"role": "user", "content": NEXT}]
    if client.system is not None:
        made.insert(0, {"role": "system", "content": client.system})
    return made


def tell(server: ServerProcess, client: Client, asked: list[Any]) -> Said:
    """What OpenAI's own client is told."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=TOKEN, max_retries=0) as opened:
        answer = opened.chat.completions.create(
            model=client.model, messages=asked, temperature=0, max_tokens=MAX_TOKENS
        )
    assert answer.usage is not None
    return Said(
        text=answer.choices[0].message.content or "",
        read=answer.usage.prompt_tokens,
        written=answer.usage.completion_tokens,
    )
