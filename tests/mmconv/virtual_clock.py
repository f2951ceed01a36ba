"""An event loop on a clock of its own: whoever sleeps is woken at once, when his time has come."""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class _Selector(selectors.DefaultSelector):
    """Lets the time pass that it would have waited."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += timeout or 0.0
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.selector = _Selector()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.now


def run_virtually(main: Coroutine[Any, Any, Result]) -> tuple[Result, float]:
    """What it returns, and the seconds that it took by its own clock, which begins at 0."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        result = runner.run(main)
        return result, runner.get_loop().time()


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on the virtual clock."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        run_virtually(test(*arguments, **named))

    return run
