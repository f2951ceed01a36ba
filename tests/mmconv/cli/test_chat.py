"""`mmconv chat` with a model that notes how it is asked; this module is its provider."""

import asyncio
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from mmconv.cli.chat import HELP
from mmconv.cli.chat import chat_command as command
from mmconv.core.config import ModelSpec
from mmconv.core.errors import Refused
from mmconv.core.protocols import ImageSource
from mmconv.core.types import Image, Message, Reply, Sampling, Text
from tests.images.pictures import encode, halves
from tests.messages import Messages

asked: list[tuple[tuple[Message, ...], Sampling]] = []


class Noting:
    max_concurrency = 1

    async def generate(self, messages: Messages, sampling: Sampling, *, affinity: str) -> Reply:
        asked.append((tuple(messages), sampling))
        if messages[-1].parts[-1] == Text(text="fail"):
            raise Refused("rejected", "not \x1b[2Jthat")
        if messages[-1].parts[-1] == Text(text="interrupt"):
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60)
        if messages[-1].parts[-1] == Text(text="title"):
            return Reply(text="\x1b]0;mine\aWell.", reasoning="\u202emy\x1b[2J")
        return Reply(text="Well.", finish="length", input_tokens=1, output_tokens=1)

    async def aclose(self) -> None:
        pass


def fingerprint(spec: ModelSpec) -> str:
    return spec.model


async def open_backend(spec: ModelSpec, images: ImageSource) -> Noting:
    return Noting()


@pytest.fixture(autouse=True)
def nothing_asked() -> Iterator[None]:
    yield
    asked.clear()


def chat(folder: Path, said: str, *options: str, **fields: object) -> Result:
    model = folder / "noting.yaml"
    model.write_text(yaml.safe_dump({"provider": __name__, "model": "noting", **fields}))
    return CliRunner().invoke(command, [str(model), *options], input=said)


def test_the_model_file_says_how_it_is_asked(tmp_path: Path) -> None:
    sampling = {"temperature": None, "max_tokens": 8192}
    chat(tmp_path, "hello\n", sampling=sampling, system="Be short.")
    (messages, used), *_ = asked
    assert (used.temperature, used.max_tokens) == (None, 8192)
    assert [message.role for message in messages] == ["system", "user"]


def test_what_is_not_typed_by_a_person_is_not_prompted_for(tmp_path: Path) -> None:
    result = chat(tmp_path, "hello\r\nand more", "--max-tokens", "7")
    assert result.exit_code == 0, result.output
    assert result.stdout == "Well.\nWell.\n"
    assert [messages[-1].parts for messages, _ in asked] == [
        (Text(text="hello"),),
        (Text(text="and more"),),
    ]


def test_a_model_does_not_command_the_terminal(tmp_path: Path) -> None:
    result = chat(tmp_path, "title\n")
    assert result.stdout == "\\u202emy\\x1b[2J\n\\x1b]0;mine\\x07Well.\n"


def test_an_empty_line_ends_it(tmp_path: Path) -> None:
    chat(tmp_path, "hello\n\nnot said\n")
    assert len(asked) == 1


def test_a_person_is_prompted() -> None:
    master, terminal = pty.openpty()
    os.write(master, b"hello\n\n")
    command = [sys.executable, "-m", "mmconv", "chat", "fake/echo"]
    result = subprocess.run(command, stdin=terminal, capture_output=True, text=True, check=True)
    assert result.stdout.count("you> ") == 2


def test_the_command_line_goes_before_the_file(tmp_path: Path) -> None:
    sampling = {"temperature": None, "max_tokens": 8192}
    result = chat(tmp_path, "hello\n", "--max-tokens", "7", sampling=sampling)
    assert (asked[0][1].temperature, asked[0][1].max_tokens) == (None, 7)
    assert "cut off after 7 tokens" in result.output


def test_a_failure_is_told_and_no_part_of_the_conversation(tmp_path: Path) -> None:
    picture = tmp_path / "halves.png"
    picture.write_bytes(encode(halves(), "PNG"))
    result = chat(tmp_path, "fail\nagain\nmore\n", "--image", str(picture))
    assert r"(rejected: not \x1b[2Jthat)" in result.output
    assert [len(messages) for messages, _ in asked] == [1, 1, 3]
    assert [isinstance(messages[-1].parts[0], Image) for messages, _ in asked] == [
        True,
        True,
        False,
    ]


def test_a_picture_is_shown_from_within(tmp_path: Path) -> None:
    picture = tmp_path / "halves.png"
    picture.write_bytes(encode(halves(), "PNG"))
    result = chat(tmp_path, f"/image {tmp_path}/gone.png\n/image {picture}\nhello\n")
    assert "gone.png" in result.output
    [(messages, _)] = asked
    assert [type(part) for part in messages[-1].parts] == [Image, Text]


@pytest.mark.parametrize("line", ["/imagine x.png", "/image", "/image ", "/quit"])
def test_a_command_that_there_is_not_is_told_and_not_said(tmp_path: Path, line: str) -> None:
    result = chat(tmp_path, f"{line}\n /quit is a word\n")
    assert f"({line!r} is not a command and was not sent" in result.output
    [(messages, _)] = asked
    assert messages[-1].parts == (Text(text=" /quit is a word"),)


def test_help_tells_the_commands(tmp_path: Path) -> None:
    result = chat(tmp_path, "/help\n")
    assert result.stderr == f"{HELP}\n"
    assert not asked


def test_ctrl_c_stops_a_reply_and_the_chat_goes_on(tmp_path: Path) -> None:
    result = chat(tmp_path, "interrupt\nhello\n")
    assert result.exit_code == 0, result.output
    assert "(stopped" in result.stderr
    assert result.stdout == "Well.\n"
    assert [len(messages) for messages, _ in asked] == [1, 1]


def test_a_model_that_takes_no_images_refuses_them_before_it_is_opened(tmp_path: Path) -> None:
    picture = tmp_path / "halves.png"
    picture.write_bytes(encode(halves(), "PNG"))
    blind = {"about": {"images": False}}
    result = chat(tmp_path, "hello\n", "--image", str(picture), **blind)
    assert str(result.exception).startswith("model noting: its model file says that it takes no im")
    assert not asked
    result = chat(tmp_path, f"/image {picture}\nhello\n", **blind)
    assert "(model noting: its model file says" in result.stderr
    [(messages, _)] = asked
    assert [type(part) for part in messages[-1].parts] == [Text]


def test_a_missing_key_is_named_before_anything_is_typed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    result = CliRunner().invoke(command, ["gpt-4o"], input="")
    assert "OPENAI_API_KEY is not set" in str(result.exception)
