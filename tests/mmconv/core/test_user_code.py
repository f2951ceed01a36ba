"""The code of a provider of one's own that fails: told with its name and its own lines."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from mmconv.benchmarks.convbench.scenes import write_scenes
from mmconv.cli import commands
from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, Refused, Transient, UserCodeError
from mmconv.core.types import Message, Reply, Sampling, Text
from mmconv.core.user_code import told_provider
from mmconv.engine.setup import find_benchmark
from model_zoo.providers import find_provider
from model_zoo.simulated import fake

SPEC = ModelSpec(provider="mine.parrot", model="loud", api_key_env="PARROT_KEY")
MESSAGES = (Message(role="user", parts=(Text(text="Hi"),)),)


class Parrot:
    max_concurrency = 8

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def generate(self, messages: Any, sampling: Any, *, affinity: str) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    async def aclose(self) -> None:
        raise LookupError("closed")


def provider(**functions: Any) -> Any:
    return told_provider("mine.parrot", SimpleNamespace(**functions))


async def opened(backend: Any) -> Any:
    async def open_backend(spec: Any, images: Any) -> Any:
        return backend

    return await provider(open_backend=open_backend).open_backend(SPEC, None)


def misspelt(spec: Any) -> Any:
    return spec["modle"]


async def misspelt_later(spec: Any, _images: Any = None) -> Any:
    return vars(spec)["modle"]


@pytest.mark.parametrize("name", ["fingerprint", "check_key", "metadata"])
def test_what_a_function_raises_is_told_with_its_line(name: str) -> None:
    with pytest.raises(UserCodeError) as caught:
        getattr(provider(**{name: misspelt}), name)({})
    first, line, code, raised = str(caught.value).splitlines()
    assert first == f"mine.parrot.{name} fails"
    assert line.startswith(f'  File "{__file__}", line ')
    assert (code.strip(), raised) == ('return spec["modle"]', "KeyError: 'modle'")
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(("name", "given"), [("open_backend", (SPEC, None)), ("probe", (SPEC,))])
async def test_so_is_what_one_raises_that_is_awaited(name: str, given: tuple[Any, ...]) -> None:
    with pytest.raises(UserCodeError, match=rf"^mine.parrot.{name} fails\n.*\n.*\nKeyError"):
        await getattr(provider(**{name: misspelt_later}), name)(*given)


def test_errors_of_mmconv_and_what_else_a_module_has_stay_as_they_are() -> None:
    def fingerprint(spec: Any) -> str:
        raise ConfigError("no such model")

    told = provider(fingerprint=fingerprint, ParrotOptions=ModelSpec)
    with pytest.raises(ConfigError, match=r"^no such model$"):
        told.fingerprint(None)
    assert vars(told)["ParrotOptions"] is ModelSpec
    assert not hasattr(told, "probe")
    assert find_provider("fake").fingerprint is fake.fingerprint


def test_a_fingerprint_is_a_text() -> None:
    for given in (3, None):
        told = rf"^mine.parrot.fingerprint gives {given}, which is no str$"
        with pytest.raises(UserCodeError, match=told):
            provider(fingerprint=lambda spec, given=given: given).fingerprint(None)


async def test_what_opens_is_awaited_and_a_backend() -> None:
    with pytest.raises(UserCodeError, match=r"open_backend gives 3 at once: write `async def`$"):
        await provider(open_backend=lambda spec, images: 3).open_backend(SPEC, None)
    with pytest.raises(UserCodeError, match="gives None, which has no max_concurrency and no gen"):
        await opened(None)


@pytest.mark.parametrize("most", [0, -1, "4", 2.5, True, None])
async def test_a_backend_takes_a_whole_number_of_calls_at_once(most: Any) -> None:
    """Of 0 the run would wait for ever."""
    backend = Parrot(None)
    backend.max_concurrency = most
    told = re.escape(f"mine.parrot: Parrot.max_concurrency is {most!r}; it must be an int of at")
    with pytest.raises(UserCodeError, match=f"^{told}"):
        _ = (await opened(backend)).max_concurrency


@pytest.mark.parametrize(
    ("fails", "told"),
    [
        (
            lambda: Refused("auth", "HTTP 401"),  # type: ignore[arg-type]
            "'auth' is not a kind of failure; there are: timeout, ",
        ),
        (
            lambda: Transient("rate_limit", "busy", retry_after="20"),  # type: ignore[arg-type]
            "retry_after is '20'; expected a number of seconds",
        ),
        (
            lambda: Transient("server", "busy", retry_after=float("nan")),
            "retry_after is nan; expected a number of seconds",
        ),
    ],
)
async def test_a_failure_that_the_run_could_not_act_on_is_told(fails: Any, told: str) -> None:
    class Failing(Parrot):
        async def generate(self, messages: Any, sampling: Any, *, affinity: str) -> Any:
            raise fails()

    with pytest.raises(UserCodeError, match=re.escape(f"ValueError: {told}")) as caught:
        await (await opened(Failing(None))).generate(MESSAGES, Sampling(), affinity="7/free")
    assert f'File "{__file__}"' in str(caught.value)


@pytest.mark.parametrize("raised", [SystemExit("bye"), asyncio.CancelledError("too slow")])
async def test_own_code_that_exits_or_is_cancelled_by_itself_is_told(raised: Any) -> None:
    backend = await opened(Parrot(raised))
    with pytest.raises(UserCodeError, match=rf"generate for 7/free fails\n(.*\n)+.*: {raised}\n"):
        await backend.generate(MESSAGES, Sampling(), affinity="7/free")


def test_so_it_is_in_no_event_loop() -> None:
    def check_ready(spec: Any) -> None:
        raise asyncio.CancelledError("too slow")

    with pytest.raises(UserCodeError, match=r"CancelledError: too slow$"):
        provider(check_ready=check_ready).check_ready(SPEC)


async def test_what_mmconv_cancels_is_cancelled() -> None:
    class Slow(Parrot):
        async def generate(self, messages: Any, sampling: Any, *, affinity: str) -> Any:
            await asyncio.sleep(60)

    backend = await opened(Slow(None))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(backend.generate(MESSAGES, Sampling(), affinity="7/free"), 0.01)


@pytest.mark.parametrize("raised", [Refused("authentication", "bad key sk-1!"), KeyError("sk-1")])
async def test_the_key_is_taken_out_of_what_a_provider_raises(
    monkeypatch: pytest.MonkeyPatch, raised: Exception
) -> None:
    async def open_backend(spec: Any, images: Any) -> Any:
        raise raised

    backend = await opened(Parrot(raised))
    own = provider(open_backend=open_backend)
    with pytest.raises((Refused, UserCodeError), match="sk-1"):
        await backend.generate(MESSAGES, Sampling(), affinity="7/free")
    monkeypatch.setenv("PARROT_KEY", "sk-1\n")
    for asked in (
        backend.generate(MESSAGES, Sampling(), affinity="7/free"),
        own.open_backend(SPEC, None),
    ):
        with pytest.raises((Refused, UserCodeError)) as caught:
            await asked
        assert "[key]" in str(caught.value)
        assert "sk-1" not in str(caught.value)


@pytest.mark.parametrize("facts", [{"layers": 3}, {1: "one"}])
def test_facts_are_texts(facts: Any) -> None:
    with pytest.raises(UserCodeError, match=r"^mine.parrot.metadata gives \{.*, of which not all"):
        provider(metadata=lambda spec: facts).metadata(SPEC)
    with pytest.raises(UserCodeError, match=r"^mine.parrot.metadata gives None, which is no Map"):
        provider(metadata=lambda spec: None).metadata(SPEC)
    assert provider(metadata=lambda spec: {"layers": "3"}).metadata(SPEC) == {"layers": "3"}


async def test_what_a_backend_raises_but_as_backends_may_is_told() -> None:
    async def answer(given: Any) -> Any:
        backend = await opened(Parrot(given))
        assert backend.max_concurrency == 8
        return await backend.generate(MESSAGES, Sampling(), affinity="7/free")

    reply = Reply(text="HI")
    assert await answer(reply) is reply
    busy = Transient("rate_limit", "busy")
    with pytest.raises(Transient) as passed:
        await answer(busy)
    assert passed.value is busy
    with pytest.raises(UserCodeError) as caught:
        await answer(TimeoutError("too slow"))
    first, line, *_, raised, advice = str(caught.value).splitlines()
    assert first == "mine.parrot: Parrot.generate for 7/free fails"
    assert line.startswith(f'  File "{__file__}", line ')
    assert raised == "TimeoutError: too slow"
    assert "Transient" in advice
    assert "Refused" in advice
    with pytest.raises(UserCodeError, match=r"generate for 7/free gives 'HI', which is no Reply$"):
        await answer("HI")
    with pytest.raises(UserCodeError, match=r"^mine.parrot: Parrot.aclose fails\n"):
        await (await opened(Parrot(reply))).aclose()


NO_UNICODE = (
    "no Unicode ('utf-8' codec can't encode character '\\ud83d' in position 0: "
    "surrogates not allowed)"
)


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply(text=None), "text is None"),  # type: ignore[arg-type]
        (Reply(text="HI", reasoning=3), "reasoning is 3"),  # type: ignore[arg-type]
        (Reply(text="HI", answered_by=3), "answered_by is 3"),  # type: ignore[arg-type]
        (Reply(text="HI", finish="eos"), "finish is 'eos'"),  # type: ignore[arg-type]
        (
            Reply(text="HI", input_tokens=1.5, seconds=None),  # type: ignore[arg-type]
            "input_tokens is 1.5, seconds is None",
        ),
        (
            Reply(text="HI", input_tokens=-4, output_tokens=True, seconds=float("nan")),
            "input_tokens is -4, output_tokens is True, seconds is nan",
        ),
        (Reply(text="\ud83d"), f"text is {NO_UNICODE}"),
        (Reply(text="HI", answered_by="\ud83d"), f"answered_by is {NO_UNICODE}"),
    ],
)
async def test_a_reply_that_cannot_be_kept_never_reaches_the_store(reply: Reply, told: str) -> None:
    backend = await opened(Parrot(reply))
    with pytest.raises(UserCodeError) as caught:
        await backend.generate(MESSAGES, Sampling(), affinity="7/free")
    where = "mine.parrot: Parrot.generate for 7/free gives a Reply that cannot be kept"
    assert str(caught.value) == f"{where}: {told}"


class Plain(Parrot):
    def generate(self, messages: Any, sampling: Any, *, affinity: str) -> Any:
        return self.answer


class Detached(Parrot):
    async def generate(self, messages: Any, sampling: Any) -> Any:  # type: ignore[override]
        return self.answer


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Plain, "Plain.generate for 7/free gives Reply(text='HI', "),
        (Detached, "Detached.generate() got an unexpected keyword argument 'affinity'"),
    ],
)
async def test_a_generate_that_is_not_as_it_must_be_is_told(kind: type[Parrot], told: str) -> None:
    backend = await opened(kind(Reply(text="HI")))
    with pytest.raises(UserCodeError, match=re.escape(told)):
        await backend.generate(MESSAGES, Sampling(), affinity="7/free")


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
    assert isinstance(ended.exception, UserCodeError)
    told = str(ended.exception).splitlines()
    assert told[0].startswith("parrots.failing: Parrot.generate for ")
    assert told[1].startswith(f'  File "{module}", line 17, in generate')
    assert "IndexError: tuple index out of range" in told
    assert told[-1] == "What was answered is kept. Mend it, and give the same command again."


@pytest.mark.parametrize(
    ("code", "told"), [("x = = 1", "SyntaxError: "), ("x = {}['a']", "KeyError: 'a'")]
)
@pytest.mark.parametrize(
    ("what", "find"), [("provider", find_provider), ("benchmark", find_benchmark)]
)
def test_a_module_that_cannot_be_imported_is_told_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, find: Any, code: str, told: str
) -> None:
    name = f"failing_{what}_{len(code)}"
    (tmp_path / name).mkdir()
    (tmp_path / name / "own.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    path = f"{name}.own{':Mine' if what == 'benchmark' else ''}"
    with pytest.raises(UserCodeError) as caught:
        find(path)
    message = str(caught.value)
    assert message.startswith(f"{what} {path!r}: importing {name}.own fails\n")
    assert f'File "{tmp_path / name / "own.py"}", line 1' in message
    assert told in message
    assert "importlib" not in message
