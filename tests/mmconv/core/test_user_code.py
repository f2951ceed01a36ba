"""Custom providers: what they return is checked, what they raise shows the user's lines."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from mmconv.cli import commands
from mmconv.core.config import ModelSpec
from mmconv.core.errors import Refused, Transient, UserCodeError
from mmconv.core.protocols import Backend
from mmconv.core.types import Reply, Sampling
from mmconv.core.user_code import check_provider, user_traceback
from tests.drawn_data import write_scenes
from tests.messages import user

SPEC = ModelSpec(provider="mine.parrot", model="loud", api_key_env="PARROT_KEY")
MESSAGES = (user("Hi"),)


class Parrot:
    max_concurrency = 8

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def generate(self, messages: Any, sampling: Any, *, affinity: str) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def aclose(self) -> None: ...


class Plain(Parrot):
    def generate(self, messages: Any, sampling: Any, *, affinity: str) -> Any:
        return self.answer


async def opened(backend: Any) -> Backend:
    async def open_backend(spec: Any, images: Any) -> Any:
        if isinstance(backend, Exception):
            raise backend
        return backend

    provider = SimpleNamespace(fingerprint=None, open_backend=open_backend)
    _, checked = check_provider("mine.parrot", provider)
    return await checked(SPEC, None)  # type: ignore[arg-type]  # it uses no images


async def answer(backend: Any) -> Reply:
    return await (await opened(backend)).generate(MESSAGES, Sampling(), affinity="7/free")


async def test_the_functions_of_a_provider_return_the_right_types() -> None:
    wrong = SimpleNamespace(fingerprint=lambda spec: 3, open_backend=lambda spec, images: 3)
    fingerprint, open_backend = check_provider("mine.parrot", wrong)
    with pytest.raises(UserCodeError, match=r"^mine.parrot.fingerprint returned 3; expected a str"):
        fingerprint(SPEC)
    with pytest.raises(UserCodeError, match=r"open_backend returned 3; expected .*`async def`"):
        await open_backend(SPEC, None)  # type: ignore[arg-type]
    with pytest.raises(UserCodeError, match="returned None without max_concurrency and generate"):
        await opened(None)


@pytest.mark.parametrize("most", [0, -1, "4", 2.5, True, None])
async def test_a_backend_takes_a_whole_number_of_calls_at_once(most: Any) -> None:
    """Of 0 the run would wait for ever."""
    backend = Parrot(None)
    backend.max_concurrency = most
    message = f"mine.parrot: Parrot.max_concurrency is {most!r}; it must be an int of at least 1"
    with pytest.raises(UserCodeError, match=f"^{re.escape(message)}"):
        _ = (await opened(backend)).max_concurrency


@pytest.mark.parametrize("at", ["open_backend", "generate"])
async def test_errors_of_a_provider_hide_the_key(monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    monkeypatch.setenv("PARROT_KEY", "sk-1\n")
    refused = Refused("authentication", "bad key sk-1!")
    with pytest.raises(Refused, match=r"^bad key \[key\]!$"):
        await answer(refused if at == "open_backend" else Parrot(refused))


async def test_replies_and_failures_pass_and_other_errors_get_a_note() -> None:
    reply, busy, late = Reply(text="HI"), Transient("rate_limit", "busy"), TimeoutError("late")
    assert await answer(Parrot(reply)) is reply
    with pytest.raises(Transient) as passed:
        await answer(Parrot(busy))
    assert passed.value is busy
    with pytest.raises(TimeoutError) as noted:
        await answer(Parrot(late))
    assert noted.value.__notes__ == ["raised for mine.parrot: Parrot.generate for 7/free"]
    heading, line, code, *_, error, _ = user_traceback(noted.value).splitlines()
    assert heading == "Traceback (most recent call last):"
    assert line.startswith(f'  File "{__file__}", line ')
    assert (code.strip(), error) == ("raise self.answer", "TimeoutError: late")


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("HI", "'HI'; expected a Reply"),
        (Reply(text=None), "a Reply with an invalid text None"),  # type: ignore[arg-type]
        (Reply(text="HI", reasoning=3), "invalid reasoning 3"),  # type: ignore[arg-type]
        (Reply(text="HI", answered_by=3), "invalid answered_by 3"),  # type: ignore[arg-type]
        (Reply(text="HI", finish="eos"), "invalid finish 'eos'"),  # type: ignore[arg-type]
        (
            Reply(text="HI", input_tokens=1.5, seconds=None),  # type: ignore[arg-type]
            "invalid input_tokens 1.5, seconds None",
        ),
        (
            Reply(text="HI", input_tokens=-4, output_tokens=True, seconds=float("nan")),
            "invalid input_tokens -4, output_tokens True, seconds nan",
        ),
    ],
)
async def test_a_wrong_reply_never_reaches_the_cache(reply: Any, message: str) -> None:
    with pytest.raises(UserCodeError) as caught:
        await answer(Parrot(reply))
    assert str(caught.value).startswith("mine.parrot: Parrot.generate for 7/free returned ")
    assert str(caught.value).endswith(message)


async def test_a_generate_that_is_not_a_coroutine_is_refused() -> None:
    with pytest.raises(UserCodeError, match=r"generate for 7/free returned Reply.*`async def`$"):
        await answer(Plain(Reply(text="HI")))


PARROT = """
from mmconv.core.types import Reply


def fingerprint(spec):
    return "parrot"


async def open_backend(spec, images):
    return Parrot()


class Parrot:
    max_concurrency = 1

    async def generate(self, messages, sampling, *, affinity):
        return Reply(text=messages[0].parts[9].text)

    async def aclose(self): ...
"""


def test_a_run_ends_with_the_line_and_keeps_what_was_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "parrots" / "failing.py"
    module.parent.mkdir()
    module.write_text(PARROT, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    data, pictures = write_scenes(tmp_path / "data", 2)
    typed = ["run", "convbench", "--data", str(data), "--images", str(pictures), "--no-page"]
    typed += ["--out", str(tmp_path / "runs"), "--candidate", "fake/echo"]
    ended = CliRunner().invoke(commands, [*typed, "--judge", "parrots.failing/loud"])
    assert isinstance(ended.exception, IndexError)
    lines = user_traceback(ended.exception).splitlines()
    assert lines[1].startswith(f'  File "{module}", line 17, in generate')
    assert "IndexError: tuple index out of range" in lines
    assert lines[-1] == "All replies are cached. Fix the error and run the same command again."
