"""The code of a user's benchmark or provider, and the error message if it fails.

It runs deep inside an evaluation; whoever wrote it needs to know what was asked of it and the lines
of their own file, and none of the machinery's.
"""

from __future__ import annotations

from asyncio import CancelledError, current_task
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from inspect import iscoroutinefunction, isroutine
from math import inf
from traceback import StackSummary, format_exception_only, walk_tb
from types import SimpleNamespace
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

_CALLERS = frozenset({"mmconv.benchmarks.base.benchmark", "mmconv.engine.setup", "judges.judging"})
"""The modules that call methods and parsers of benchmarks."""

RAISED = "raised for"
"""How a note of `noted` begins."""

_BACKEND = ("max_concurrency", "generate", "aclose")
"""What a backend must have."""

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
}
"""What the fields of a reply must be."""

_FAILURES = (
    "What fails this call alone, raise as Transient (retried) or Refused, of mmconv.core.errors: "
    'raise Transient("server", str(error)) from error.'
)


@contextmanager
def telling(what: str, advice: str = "") -> Iterator[None]:
    """Have what is raised here come out as a `UserCodeError`; mmconv's own errors stay.

    The message says that `what` fails, with the lines of the user's code and `advice` below them.
    Code that exits or cancels itself is treated the same.
    """
    try:
        yield
    except MmconvError:
        raise
    except (Exception, SystemExit, CancelledError) as error:
        if isinstance(error, CancelledError) and _is_cancelled():
            raise
        own = (each for each in walk_tb(error.__traceback__) if not _is_machinery(each[0]))
        lines = "".join(StackSummary.extract(own).format())
        raised = "".join(format_exception_only(error)).strip()
        told = f"{what} fails\n{lines}{raised}"
        raise UserCodeError("\n".join(filter(None, (told, advice)))) from error


@contextmanager
def noted(where: str) -> Iterator[None]:
    """Add to an exception where in a benchmark it was raised.

    Errors of mmconv say it in their message. Others get a note; their traceback stays as it is.
    """
    try:
        yield
    except (ConfigError, PlanError, PromptError) as error:
        raise type(error)(f"{where}: {error}") from error
    except Exception as error:
        error.add_note(f"{RAISED} {where}")
        raise


def user_traceback(error: Exception) -> str:
    """The traceback of an error that a benchmark's code raised or caused, with its notes.

    It begins at the first line that is not mmconv's, if there is one. It is empty for other errors.
    """
    frames = [*walk_tb(error.__traceback__)]
    callers = [str(frame.f_globals.get("__name__")) for frame, _ in frames]
    starts = [
        place
        for place, (frame, _) in enumerate(frames)
        if place and callers[place - 1] in _CALLERS and not _is_machinery(frame)
    ]
    notes = getattr(error, "__notes__", ())
    if not starts and not any(note.startswith(RAISED) for note in notes):
        return ""
    lines = StackSummary.extract(iter(frames[min(starts, default=0) :])).format()
    heading = "Traceback (most recent call last):\n"
    return "".join([heading, *lines, *format_exception_only(error)]).rstrip()


def checked(what: str, made: Any, kind: type) -> Any:
    """What one's own code has made; raises `UserCodeError` where it is not of this kind."""
    if not isinstance(made, kind):
        raise UserCodeError(f"{what} gives {made!r}, which is no {kind.__name__}")
    return made


def told_provider(name: str, provider: Any) -> Any:
    """A provider of one's own under its `name`, whose functions and backends are `telling`."""

    def fingerprint(spec: Any) -> str:
        what = f"{name}.fingerprint"
        with telling(what):
            made = provider.fingerprint(spec)
        return str(checked(what, made, str))

    async def open_backend(spec: Any, images: ImageSource) -> Backend:
        what = f"{name}.open_backend"
        with _without_key(spec), telling(what):
            backend = await _awaitable(what, provider.open_backend(spec, images))
        if lacking := [each for each in _BACKEND if not hasattr(backend, each)]:
            raise UserCodeError(
                f"{what} gives {backend!r}, which has no {' and no '.join(lacking)}"
            )
        return _OwnBackend(name, spec, backend)

    public = (each for each in dir(provider) if not each.startswith("_"))
    own = {each: getattr(provider, each) for each in public}
    functions = {each: found for each, found in own.items() if isroutine(found)}
    told = {each: _told(f"{name}.{each}", found) for each, found in functions.items()}
    if "metadata" in told:
        told["metadata"] = _texts(f"{name}.metadata", told["metadata"])
    openers = {"fingerprint": fingerprint, "open_backend": open_backend}
    return SimpleNamespace(**own | told | openers)


class _OwnBackend:
    """A backend of one's own. What fails in it, but as backends may, ends a run."""

    def __init__(self, provider: str, spec: Any, backend: Backend) -> None:
        self._spec = spec
        self._backend = backend
        self._named = f"{provider}: {type(backend).__name__}"

    @property
    def max_concurrency(self) -> int:
        what = f"{self._named}.max_concurrency"
        with telling(what):
            most = self._backend.max_concurrency
        if not _is_count(most) or most < 1:
            raise UserCodeError(f"{what} is {most!r}; it must be an int of at least 1")
        return most

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        what = f"{self._named}.generate for {affinity}"
        with _without_key(self._spec), telling(what, _FAILURES):
            coming = self._backend.generate(messages, sampling, affinity=affinity)
            reply = await _awaitable(what, coming)
        return _checked_reply(what, reply)

    async def aclose(self) -> None:
        with telling(f"{self._named}.aclose"):
            await self._backend.aclose()


def _awaitable(what: str, made: Any) -> Any:
    if not isinstance(made, Awaitable):
        raise UserCodeError(f"{what} gives {made!r} at once: write `async def`")
    return made


def _checked_reply(what: str, made: Any) -> Reply:
    """The reply; raises `UserCodeError` for one that the store could not keep, or a report read."""
    reply: Reply = checked(what, made, Reply)
    given = {name: getattr(reply, name) for name in _REPLY}
    wrong = [f"{name} is {given[name]!r}" for name, fits in _REPLY.items() if not fits(given[name])]
    if not wrong:
        texts = ("text", "reasoning", "answered_by")
        wrong = [told for name in texts for told in _not_unicode(name, given[name])]
    if wrong:
        raise UserCodeError(f"{what} gives a Reply that cannot be kept: {', '.join(wrong)}")
    return reply


def _not_unicode(name: str, text: str | None) -> Iterator[str]:
    """What is wrong with a text that no file can hold, as JSON with half a character gives it."""
    try:
        (text or "").encode()
    except UnicodeEncodeError as error:
        yield f"{name} is no Unicode ({error})"


def _is_count(given: Any) -> bool:
    return type(given) is int and given >= 0


def _texts(what: str, function: Callable[[Any], Any]) -> Callable[[Any], Mapping[str, str]]:
    """The function, which raises `UserCodeError` where it does not give a mapping of texts."""

    def told(spec: Any) -> Mapping[str, str]:
        made: Mapping[str, str] = checked(what, function(spec), Mapping)
        if not all(isinstance(text, str) for item in made.items() for text in item):
            raise UserCodeError(f"{what} gives {made!r}, of which not all are texts")
        return made

    return told


@contextmanager
def _without_key(spec: Any) -> Iterator[None]:
    """Have mmconv's errors come out without the model's key: they are printed and stored."""
    try:
        yield
    except MmconvError as error:
        with suppress(ConfigError):
            if key := (spec.key or "").strip():
                error.args = (str(error).replace(key, "[key]"),)
        raise


def _is_cancelled() -> bool:
    """Whether mmconv cancels the task in which this runs; in no event loop there is none."""
    with suppress(RuntimeError):
        task = current_task()
        return task is not None and task.cancelling() > 0
    return False


def _told(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
    async def told_later(*given: Any) -> Any:
        with telling(what):
            return await function(*given)

    def told(*given: Any) -> Any:
        with telling(what):
            return function(*given)

    return told_later if iscoroutinefunction(function) else told


def _is_machinery(frame: Any) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _MACHINERY
