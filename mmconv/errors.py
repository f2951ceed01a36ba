"""Every exception that mmconv raises on purpose.

::

    MmconvError
    ├── InputError          what the user gave is wrong: the command ends with exit code 2
    │   ├── ConfigError     a configuration file, an option, a model name
    │   ├── BenchmarkError  a benchmark of one's own: its code raises, or returns what it must not
    │   ├── DataError       a data file: names the file, the record and the field
    │   ├── ImageError      an image that cannot be read safely
    │   └── PromptError     a prompt file or what is filled into it
    ├── PlanError           a planned call graph that cannot run (a bug in a benchmark)
    ├── StoreError          the store cannot be opened, read, written, migrated or merged
    ├── Unparsed            a reply that holds no readable verdict
    └── BackendError        a model did not answer
        ├── Transient       worth asking again, after `retry_after` seconds where known
        └── Refused         asking again would bring the same answer

The runner turns `Unparsed` and `BackendError` into values; only where a model cannot be opened does
a `BackendError` reach the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

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
    "rejected",
    "memory",
    "image",
]


class MmconvError(Exception):
    """The root of all errors that mmconv raises on purpose."""


class InputError(MmconvError):
    """What the user gave cannot be used; the message says where it is and what to do."""


class ConfigError(InputError):
    """A configuration file, an option or a model name is wrong."""


class BenchmarkError(InputError):
    """The code of a benchmark of one's own raises, or returns what it must not.

    The message names the method, the sample and the condition, and shows the lines of that code.
    """


class ImageError(InputError):
    """An image cannot be read, or is larger than the limits allow."""


class PromptError(InputError):
    """A prompt file is malformed, or its slots are not the ones that are filled."""


class DataError(InputError):
    """One or more records of a data file are wrong.

    `problems` holds one line per problem, each naming the record and the field; the message shows
    the first `SHOWN` of them.
    """

    SHOWN: ClassVar[int] = 40

    def __init__(self, where: str, problems: Sequence[str], advice: str = "") -> None:
        self.where = where
        self.problems = tuple(problems)
        count = len(self.problems)
        lines = [f"{where}: {count} problem{'' if count == 1 else 's'}"]
        lines += [f"  {problem}" for problem in self.problems[: self.SHOWN]]
        if (more := count - self.SHOWN) > 0:
            lines.append(f"  ... and {more} more")
        if advice:
            lines.append(advice)
        super().__init__("\n".join(lines))


class PlanError(MmconvError):
    """A call graph names an unknown call, names one twice, or runs in a circle."""


class StoreError(MmconvError):
    """The store cannot be opened, read, written, migrated or merged."""


class Unparsed(MmconvError):
    """A reply holds no readable verdict; the message says what was looked for."""


class BackendError(MmconvError):
    """A model did not answer. `kind` says why, in one of a few words."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind: FailureKind = kind


class Transient(BackendError):
    """A failure that may pass: asked again after `retry_after` seconds, or after a backoff."""

    def __init__(
        self, kind: FailureKind, message: str, *, retry_after: float | None = None
    ) -> None:
        super().__init__(kind, message)
        self.retry_after = retry_after


class Refused(BackendError):
    """A failure that asking again will not mend: too long a prompt, a rejected request."""
