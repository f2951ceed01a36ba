"""JSON Lines in a fixed order, from records that come in any order.

Memory holds some bytes per line. What a record contains is for the caller to say. A file appears
under its name only when it is whole.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from mmconv.core.atomic_writes import whole

_BUFFER = 1 << 20


class OrderedLines:
    """Takes lines in any order and leaves a file of them in ascending order.

    A context manager. Lines wait in an unnamed file in the target's folder, which the system
    removes with the process; memory holds 16 bytes for each group that came together. Leaving the
    block writes the target at once and whole; leaving it by an exception writes nothing and keeps
    what was there before.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._orders = array("q")
        self._lengths = array("q")

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._spool: IO[bytes] = tempfile.TemporaryFile(buffering=_BUFFER, dir=self._path.parent)
        return self

    def append(self, order: int, *lines: bytes) -> None:
        """Take lines without their ends; those of equal order keep the order in which they came.

        Raises `ValueError` if one of them holds a line end.
        """
        if not lines:
            return
        if any(b"\n" in line for line in lines):
            raise ValueError(f"a record of order {order} is more than one line")
        block = b"\n".join((*lines, b""))
        self._spool.write(block)
        self._orders.append(order)
        self._lengths.append(len(block))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._spool:
            if kind is None:
                with whole(self._path) as part, part.open("wb", buffering=_BUFFER) as target:
                    for block in self._sorted():
                        target.write(block)

    def _sorted(self) -> Iterator[bytes]:
        self._spool.flush()
        spool = self._spool.fileno()
        offsets = array("q", accumulate(self._lengths, initial=0))
        for place in sorted(range(len(self._orders)), key=self._orders.__getitem__):
            # A buffered reader would throw its buffer away at every jump; mapping the file would
            # count all of it as this process's memory.
            yield os.pread(spool, self._lengths[place], offsets[place])
