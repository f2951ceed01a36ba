"""The code of a benchmark of one's own, and what is told where it fails.

`plan` and `score` run deep inside an evaluation; whoever wrote them needs the sample that they
failed on, and the lines of their own file, and none of the machinery's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from traceback import StackSummary, format_exception_only, walk_tb
from typing import Any, TypeVar

from mmconv.errors import BenchmarkError, MmconvError
from mmconv.values import Call, Score

Made = TypeVar("Made", Call, Score)

_MACHINERY = frozenset({"mmconv", "judges", "images", "model_zoo"})


def telling_plan(plan: Callable[..., Iterable[Call]]) -> Callable[..., tuple[Call, ...]]:
    """The method `plan`; whatever it raises comes out as a `BenchmarkError`."""

    @wraps(plan)
    def told(self: Any, sample: Any, condition: str) -> tuple[Call, ...]:
        where = f"{self.name}: plan of sample {self.key(sample)!r} under {condition}"
        return _made(where, Call, lambda: plan(self, sample, condition))

    return told


def telling_score(score: Callable[..., Iterable[Score]]) -> Callable[..., tuple[Score, ...]]:
    """The method `score`; a score of another sample or condition is refused too.

    The scores come out as `FileBenchmark.clustered` has them.
    """

    @wraps(score)
    def told(self: Any, sample: Any, condition: str, calls: Any, outcomes: Any) -> Any:
        key = self.key(sample)
        where = f"{self.name}: score of sample {key!r} under {condition}"
        scores = _made(where, Score, lambda: score(self, sample, condition, calls, outcomes))
        for each in scores:
            if (each.sample, each.condition) != (key, condition):
                raise BenchmarkError(
                    f"{where}: {each.metric!r} is scored for sample {each.sample!r} "
                    f"under {each.condition}"
                )
        return self.clustered(sample, scores)

    return told


def _made(where: str, kind: type[Made], make: Callable[[], Iterable[Made]]) -> tuple[Made, ...]:
    """What is made, all of it of this kind; mmconv's own errors come out as they are."""
    try:
        made = tuple(make())
    except MmconvError:
        raise
    except Exception as error:
        own = (each for each in walk_tb(error.__traceback__) if not _is_machinery(each[0]))
        lines = StackSummary.extract(own).format()
        raised = "".join(format_exception_only(error)).strip()
        raise BenchmarkError(f"{where} fails\n{''.join(lines)}{raised}") from error
    for each in made:
        if not isinstance(each, kind):
            raise BenchmarkError(f"{where} gives {each!r}, which is no {kind.__name__}")
    return made


def _is_machinery(frame: Any) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _MACHINERY
