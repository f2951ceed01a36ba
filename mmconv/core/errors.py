"""Every exception that mmconv raises on purpose.

::

    MmconvError
    ├── InputError          what the user gave is wrong: the command ends with exit code 2
    │   ├── ConfigError     a configuration file, an option, a model name
    │   │   └── EngineDied  what runs a model has ended; it must be opened again
    │   ├── DataError       a data file: names the file, the record and the field
    │   ├── ImageError      an image that cannot be read safely
    │   └── PromptError     a prompt file or what is filled into it
    ├── UserCodeError       user code (a provider, a checkpoint's code) returns a wrong value
    ├── PlanError           a planned call graph that cannot run (a bug in a benchmark)
    ├── StoreError          the store cannot be opened, read, written, migrated or merged
    │   ├── StoreFull       its disk is full
    │   └── StoreAway       its database server does not answer
    ├── Unparsed            a reply that holds no readable verdict
    └── BackendError        a model did not answer
        ├── Transient       worth a retry, after `retry_after` seconds if known
        └── Refused         a retry would get the same answer

The runner turns `Unparsed` and `BackendError` into values. A `BackendError` reaches the user only
if a model cannot be opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Literal

FailureKind = Literal[
    "timeout",
    "connection",
    "rate_limit",
    "server",
    "malformed",
    "authentication",
    "forbidden",
    "quota",
    "not_found",
    "context",
    "filter",
    "rejected",
    "memory",
    "image",
]


class MmconvError(Exception):
    """The root of all errors that mmconv raises on purpose. All can be pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        # by default a copy is made of `args`, which not every subclass takes
        return _copy_error, (type(self), self.args), self.__dict__


def _copy_error(kind: type[MmconvError], args: tuple[Any, ...]) -> MmconvError:
    return kind.__new__(kind, *args)


class InputError(MmconvError):
    """Input that cannot be used; the message says where it is and what to do."""


class ConfigError(InputError):
    """A configuration file, an option or a model name is wrong."""


class EngineDied(ConfigError):
    """What runs a model has ended. It answers again once it is opened again."""


class ImageError(InputError):
    """An image cannot be read, or is larger than the limits allow."""


class PromptError(InputError):
    """A prompt file is malformed, or its slots do not match the values that fill them."""


class DataError(InputError):
    """One or more records of a data file are wrong.

    `problems` has one line per problem, each with the record and the field. The message shows all,
    or if there are more than `SHOWN`, the first `ALIKE` of each kind. Rare kinds come first, so
    that one truncated file is not lost among many missing ones. `in_full` is the message with all
    problems.
    """

    SHOWN: ClassVar[int] = 40
    ALIKE: ClassVar[int] = 5

    def __init__(self, where: str, problems: Sequence[str], advice: str = "") -> None:
        self.where = where
        self.problems = tuple(problems)
        self._advice = advice
        super().__init__(self._format(self._shown()) if self.is_cut else self.in_full)

    @property
    def is_cut(self) -> bool:
        """Whether the message leaves problems out."""
        return len(self.problems) > self.SHOWN

    @property
    def in_full(self) -> str:
        """The message with every problem, in the order of the file."""
        return self._format(self.problems)

    def _format(self, lines: Iterable[str]) -> str:
        count = len(self.problems)
        head = f"{self.where}: {count:,} problem{'' if count == 1 else 's'}"
        advice = [self._advice] if self._advice else []
        return "\n".join([head, *(f"  {line}" for line in lines), *advice])

    def _shown(self) -> Iterator[str]:
        kinds: dict[str, list[str]] = {}
        for problem in self.problems:
            kinds.setdefault(_DETAILS.sub("", problem), []).append(problem)
        left, lines = len(self.problems), 0
        for alike in sorted(kinds.values(), key=len):
            if lines >= self.SHOWN:
                yield f"... and {left} more"
                return
            yield from alike[: self.ALIKE]
            if (more := len(alike) - self.ALIKE) > 0:
                yield f"... and {more} more of this kind"
            left -= len(alike)
            lines += min(len(alike), self.ALIKE)


_DETAILS = re.compile(r"""'[^']*'|"[^"]*"|\([^()]*\)|\bimage .+?\.\w+|\S*[\d./\\]\S*""")
"""The parts of a line that differ between problems of one kind: quotes, numbers, files."""


class UserCodeError(MmconvError):
    """User code (a provider, a checkpoint's code) returns a wrong value, or cannot be run.

    What it raises otherwise is raised as it is, with a note (`mmconv.core.user_code.noted`).
    """


class PlanError(MmconvError):
    """A call graph names an unknown call, names one twice, or runs in a circle."""


class StoreError(MmconvError):
    """The store cannot be opened, read, written, migrated or merged."""


class StoreFull(StoreError):
    """The store cannot be written, since its disk is full."""


class StoreAway(StoreError):
    """The store's database server does not answer; it may come back."""


class Unparsed(MmconvError):
    """A reply without a readable verdict; the message says what was expected."""


class BackendError(MmconvError):
    """A model did not answer; `kind` is the reason.

    `input_tokens` and `output_tokens` are those that the attempt used all the same, if the server
    says so: they are paid.
    """

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: FailureKind = kind
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens


class Transient(BackendError):
    """A failure that may pass: the call is retried after `retry_after` seconds, or a backoff.

    `overloaded`: the server has too much to do, as with every `rate_limit`; then all calls of the
    model wait.
    """

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        retry_after: float | None = None,
        overloaded: bool = False,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
    ) -> None:
        super().__init__(kind, message, input_tokens=input_tokens, output_tokens=output_tokens)
        self.retry_after = retry_after
        self.overloaded = overloaded or kind == "rate_limit"


class Refused(BackendError):
    """A failure that a retry does not fix: too long a prompt, a rejected request."""
