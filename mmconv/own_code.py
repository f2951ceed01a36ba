"""Code of one's own, of a benchmark or a provider, and what is told where it fails.

It runs deep inside an evaluation; whoever wrote it needs to know what was asked of it and the lines
of their own file, and none of the machinery's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import iscoroutinefunction, isroutine
from traceback import StackSummary, format_exception_only, walk_tb
from types import SimpleNamespace
from typing import Any, get_args

from mmconv.errors import MmconvError, OwnCodeError
from mmconv.protocols import Backend, ImageSource
from mmconv.values import Finish, Message, Reply, Sampling

_MACHINERY = frozenset({"mmconv", "judges", "images", "model_zoo", "importlib"})

_BACKEND = ("max_concurrency", "generate", "aclose")
"""What a backend must have."""

_REPLY: Mapping[str, Any] = {
    "text": str,
    "reasoning": str | None,
    "input_tokens": int | None,
    "output_tokens": int | None,
    "seconds": int | float,
    "dropped": int,
    "seen": tuple,
}
"""The types of a reply's fields; `finish` is one of a few words."""

_FAILURES = (
    "What fails this call alone, raise as Transient (asked again) or Refused, of mmconv.errors: "
    'raise Transient("server", str(error)) from error.'
)


@contextmanager
def telling(what: str, advice: str = "") -> Iterator[None]:
    """Have what is raised here come out as an `OwnCodeError`; mmconv's own errors stay as they are.

    `what` is told to fail, with the lines of one's own code; `advice` stands below them.
    """
    try:
        yield
    except MmconvError:
        raise
    except Exception as error:
        own = (each for each in walk_tb(error.__traceback__) if not _is_machinery(each[0]))
        lines = "".join(StackSummary.extract(own).format())
        raised = "".join(format_exception_only(error)).strip()
        told = f"{what} fails\n{lines}{raised}"
        raise OwnCodeError("\n".join(filter(None, (told, advice)))) from error


def checked(what: str, made: Any, kind: type) -> Any:
    """What one's own code has made; raises `OwnCodeError` where it is not of this kind."""
    if not isinstance(made, kind):
        raise OwnCodeError(f"{what} gives {made!r}, which is no {kind.__name__}")
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
        with telling(what):
            backend = await _awaitable(what, provider.open_backend(spec, images))
        if lacking := [each for each in _BACKEND if not hasattr(backend, each)]:
            raise OwnCodeError(f"{what} gives {backend!r}, which has no {' and no '.join(lacking)}")
        return _OwnBackend(name, backend)

    public = (each for each in dir(provider) if not each.startswith("_"))
    own = {each: getattr(provider, each) for each in public}
    functions = {each: found for each, found in own.items() if isroutine(found)}
    told = {each: _told(f"{name}.{each}", found) for each, found in functions.items()}
    openers = {"fingerprint": fingerprint, "open_backend": open_backend}
    return SimpleNamespace(**own | told | openers)


class _OwnBackend:
    """A backend of one's own. What fails in it, but as backends may, ends a run."""

    def __init__(self, provider: str, backend: Backend) -> None:
        self._backend = backend
        self._named = f"{provider}: {type(backend).__name__}"

    @property
    def max_concurrency(self) -> int:
        return self._backend.max_concurrency

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        what = f"{self._named}.generate for {affinity}"
        with telling(what, _FAILURES):
            coming = self._backend.generate(messages, sampling, affinity=affinity)
            reply = await _awaitable(what, coming)
        return _checked_reply(what, reply)

    async def aclose(self) -> None:
        with telling(f"{self._named}.aclose"):
            await self._backend.aclose()


def _awaitable(what: str, made: Any) -> Any:
    if not isinstance(made, Awaitable):
        raise OwnCodeError(f"{what} gives {made!r} at once: write `async def`")
    return made


def _checked_reply(what: str, made: Any) -> Reply:
    """The reply; raises `OwnCodeError` for one that the store could not keep, or a report read."""
    reply: Reply = checked(what, made, Reply)
    wrong = [name for name, kind in _REPLY.items() if not isinstance(getattr(reply, name), kind)]
    if reply.finish not in get_args(Finish):
        wrong.append("finish")
    if wrong:
        told = (f"{name} is {getattr(reply, name)!r}" for name in wrong)
        raise OwnCodeError(f"{what} gives a Reply that cannot be kept: {', '.join(told)}")
    return reply


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
