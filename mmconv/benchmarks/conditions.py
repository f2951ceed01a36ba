"""Which of a benchmark's conditions a run asks for. What a condition means, the benchmark says."""

from __future__ import annotations

from collections.abc import Sequence

from mmconv.errors import ConfigError


def named_conditions(
    benchmark: str, named: Sequence[str] | None, known: Sequence[str]
) -> tuple[str, ...]:
    """The conditions that a run names, in the order of `known`; none if it names none.

    Raises `ConfigError` for a name that is not known.
    """
    for condition in named or ():
        if condition not in known:
            raise ConfigError(
                f"{benchmark} has no condition {condition!r}; there are: {', '.join(known)}"
            )
    return tuple(condition for condition in known if condition in (named or ()))
