"""The code of a user's benchmark or provider: checks of what it returns, and its tracebacks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from math import inf
from traceback import StackSummary, format_exception_only, walk_tb
from typing import Any, get_args

from mmconv.core.errors import (
    ConfigError,
    MmconvError,
    PlanError,
    PromptError,
    UserCodeError,
)
from mmconv.core.protocols import Backend, ImageSource
from mmconv.core.types import Finish, Message, Reply, Sampling

_MACHINERY = frozenset({"mmconv", "judges", "images", "model_zoo", "importlib"})

_CALLERS = frozenset(
    {
        "importlib._bootstrap",
        "judges.judging",
        "mmconv.benchmarks.base.benchmark",
        "mmconv.core.user_code",
        "mmconv.engine.setup",
    }
)

RAISED = "raised for"

_BACKEND = ("max_concurrency", "generate", "aclose")

_REPLY: Mapping[str, Callable[[Any], bool]] = {
    "text": lambda text: isinstance(text, str),
    "reasoning": lambda text: text is None or isinstance(text, str),
    "finish": lambda word: word in get_args(Finish),
    "input_tokens": lambda count: count is None or _is_count(count),
    "output_tokens": lambda count: count is None or _is_count(count),
    "seconds": lambda number: isinstance(number, int | float) and 0 <= number < inf,
    "dropped": lambda count: _is_count(count),
    "seen": lambda images: isinstance(images, tuple),
    "answered_by": lambda name: name is None or isinstance(name, str),
    "cached_tokens": lambda count: count is None or _is_count(count),
    "batched": lambda flag: isinstance(flag, bool),
}
"""What the fields of a reply must be, so that it can be cached and read by reports."""


@contextmanager
def noted(where: str) -> Iterator[None]:
    """Add to an exception where in a benchmark or provider it was raised.

    Errors of mmconv say it in their message. Others get a note; their traceback stays as it is.
    """
    try:
        yield
    except (ConfigError, PlanError, PromptError) as error:
        raise type(error)(f"{where}: {error}") from error
    except MmconvError:
        raise
    except Exception as error:
        error.add_note(f"{RAISED} {where}")
        raise


def user_traceback(error: Exception) -> str:
    """The traceback of an error in user code, from the user's first line; else empty."""
    frames = [*walk_tb(error.__traceback__)]
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in frames]
    is_ours = [module.partition(".")[0] in _MACHINERY for module in modules]
    starts = [
        place
        for place in range(1, len(frames))
        if modules[place - 1] in _CALLERS and not is_ours[place]
    ]
    notes = getattr(error, "__notes__", ())
    if not starts and not any(note.startswith(RAISED) for note in notes):
        return ""
    lines = StackSummary.extract(iter(frames[min(starts, default=0) :])).format()
    heading = "Traceback (most recent call last):\n"
    return "".join([heading, *lines, *format_exception_only(error)]).rstrip()


def check_provider(
    name: str, provider: Any
) -> tuple[Callable[[Any], str], Callable[[Any, ImageSource], Awaitable[Backend]]]:
    """A custom provider's functions; `UserCodeError` if they return a value of a wrong type."""

    def fingerprint(spec: Any) -> str:
        return str(_require(f"{name}.fingerprint", provider.fingerprint(spec), str))

    async def open_backend(spec: Any, images: ImageSource) -> Backend:
        where = f"{name}.open_backend"
        with _without_key(spec):
            pending = provider.open_backend(spec, images)
            backend = await _require(where, pending, Awaitable)
        if missing := [field for field in _BACKEND if not hasattr(backend, field)]:
            raise UserCodeError(f"{where} returned {backend!r} without {' and '.join(missing)}")
        return _CheckedBackend(name, spec, backend)

    return fingerprint, open_backend


class _CheckedBackend:
    """A custom backend. Its replies are checked, and the key is removed from its errors."""

    def __init__(self, provider: str, spec: Any, backend: Backend) -> None:
        self._spec = spec
        self._backend = backend
        self._name = f"{provider}: {type(backend).__name__}"
        self.aclose = backend.aclose
        if hasattr(backend, "stream"):
            self.stream = partial(self._answer, "stream")

    @property
    def max_concurrency(self) -> int:
        number = self._backend.max_concurrency
        if not _is_count(number) or number < 1:
            raise UserCodeError(
                f"{self._name}.max_concurrency is {number!r}; it must be an int of at least 1"
            )
        return number

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        return await self._answer("generate", messages, sampling, affinity=affinity)

    async def _answer(self, method: str, *arguments: Any, affinity: str, **others: Any) -> Reply:
        where = f"{self._name}.{method} for {affinity}"
        with _without_key(self._spec), noted(where):
            answer = getattr(self._backend, method)
            pending = answer(*arguments, affinity=affinity, **others)
            reply: Reply = await _require(where, pending, Awaitable)
        _require(where, reply, Reply)
        fields = {name: getattr(reply, name) for name in _REPLY}
        wrong = [name for name, is_valid in _REPLY.items() if not is_valid(fields[name])]
        if wrong:
            values = ", ".join(f"{name} {fields[name]!r}" for name in wrong)
            raise UserCodeError(f"{where} returned a Reply with an invalid {values}")
        return reply


def _require(where: str, value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        hint = "; write `async def`" if kind is Awaitable else ""
        article = "an" if kind is Awaitable else "a"
        raise UserCodeError(f"{where} returned {value!r}; expected {article} {kind.__name__}{hint}")
    return value


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


@contextmanager
def _without_key(spec: Any) -> Iterator[None]:
    """Remove the model's key from mmconv's errors, since they are printed and cached."""
    try:
        yield
    except MmconvError as error:
        with suppress(ConfigError):
            if key := (spec.key or "").strip():
                error.args = (str(error).replace(key, "[key]"),)
        raise
