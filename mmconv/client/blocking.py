"""Blocking methods made of coroutines, so that each method of the clients is written once.

Over a transport that blocks, a coroutine ends without ever waiting for an event loop: one step
runs all of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

Handle = TypeVar("Handle")
Given = ParamSpec("Given")
Result = TypeVar("Result")
Wrapped = TypeVar("Wrapped")


class Blocking(Generic[Handle]):
    """An object whose methods are those of a handle with coroutines, without `await`."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle


@overload
def blocking(
    method: Callable[Concatenate[Any, Given], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Any, Given], Result]: ...


@overload
def blocking(
    method: Callable[Concatenate[Any, Given], Coroutine[Any, Any, Result]],
    wrap: Callable[[Result], Wrapped],
) -> Callable[Concatenate[Any, Given], Wrapped]: ...


def blocking(
    method: Callable[Concatenate[Any, Given], Coroutine[Any, Any, Result]],
    wrap: Callable[[Result], Any] = lambda result: result,
) -> Callable[Concatenate[Any, Given], Any]:
    """The handle's method without `await`; `wrap` makes a blocking handle of its result."""

    @wraps(method)
    def call(self: Blocking[Any], /, *args: Given.args, **fields: Given.kwargs) -> Any:
        return wrap(run(method(self._handle, *args, **fields)))

    return call


@overload
def iterating(
    method: Callable[Concatenate[Any, Given], AsyncIterator[Result]],
) -> Callable[Concatenate[Any, Given], Iterator[Result]]: ...


@overload
def iterating(
    method: Callable[Concatenate[Any, Given], AsyncIterator[Result]],
    wrap: Callable[[Result], Wrapped],
) -> Callable[Concatenate[Any, Given], Iterator[Wrapped]]: ...


def iterating(
    method: Callable[Concatenate[Any, Given], AsyncIterator[Result]],
    wrap: Callable[[Result], Any] = lambda item: item,
) -> Callable[Concatenate[Any, Given], Iterator[Any]]:
    """The handle's method as an ordinary iterator; `wrap` as in `blocking`."""

    @wraps(method)
    def call(self: Blocking[Any], /, *args: Given.args, **fields: Given.kwargs) -> Iterator[Any]:
        items = method(self._handle, *args, **fields)
        while True:
            try:
                item = run(anext(items))
            except StopAsyncIteration:
                return
            yield wrap(item)

    return call


def run(work: Awaitable[Result]) -> Result:
    """The result of a coroutine over a transport that blocks."""
    steps = work.__await__()
    try:
        next(steps)
    except StopIteration as end:
        result: Result = end.value
        return result
    raise AssertionError("a blocking transport waits for an event loop")
