"""A run's folder: its records while it runs, and the files that are made from them at its end."""

from __future__ import annotations

import io
import os
import tempfile
from array import array
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from types import NoneType, TracebackType
from typing import IO, TYPE_CHECKING, Any, Self, get_args

from mmconv.core.atomic_writes import atomic_write
from mmconv.core.errors import DataError
from mmconv.run_folder.transcripts import Entry

if TYPE_CHECKING:
    import pyarrow
import asyncio
import fcntl
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from shutil import rmtree

import orjson

from mmconv.core.errors import ConfigError
from mmconv.core.plans import Finished
from mmconv.core.score_rows import ScoreRows
from mmconv.core.types import Score, Table
from mmconv.report.data_quality import Shortfall, tell_notable
from mmconv.report.tables.formats import all_to_markdown, in_markdown, remove_tables, write_tables
from mmconv.run_folder.layout import MANIFEST, REPORT, SCORES, TABLES, TRANSCRIPTS
from mmconv.run_folder.transcripts import (
    CallRecord,
    ScoreRecord,
    call_records,
    clustered,
    score_record,
)

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
                with atomic_write(self._path) as part, part.open("wb", buffering=_BUFFER) as target:
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


def columns_of(kind: type[Entry]) -> pyarrow.Schema:
    """The columns of a file of such records."""
    import pyarrow as pa

    return pa.schema(_fields(kind))


def write_parquet(
    lines: Path, target: Path, schema: pyarrow.Schema, *, group_bytes: int = 1 << 20
) -> None:
    """Turn a JSON Lines file into a Parquet file with this schema.

    Each of its columns may be null, and is where a record lacks the field. A row group is made of
    `group_bytes` of JSON and the rest of the line there. Whatever does not fit, a field unknown to
    the schema included, raises `DataError`. An empty file gives an empty table.
    """
    import pyarrow
    from pyarrow import parquet

    # Arrow's own allocator keeps what it has freed, tens of megabytes that this process lacks
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    done = 0
    with (
        atomic_write(target) as part,
        lines.open("rb") as source,
        parquet.ParquetWriter(part, schema, compression="zstd") as writer,
    ):
        # the reader's own streaming holds some thirty blocks at once: this holds one
        while block := source.read(group_bytes) + source.readline():
            try:
                writer.write_table(_parsed(block, schema))
            except pyarrow.ArrowInvalid as error:
                problem = _misfit(block, schema, done) or str(error)
                advice = "The records and the schema that the report asks for do not agree."
                raise DataError(str(lines), [problem], advice) from error
            done += block.count(b"\n")


def _fields(kind: type[Entry]) -> list[tuple[str, pyarrow.DataType]]:
    return [(name, _column(field.annotation)) for name, field in kind.model_fields.items()]


def _column(held: Any) -> pyarrow.DataType:
    """What holds values of a field's type; any of them may be null."""
    import pyarrow as pa

    plain = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    if held in plain:
        return plain[held]
    if isinstance(held, type) and issubclass(held, Entry):
        return pa.struct(_fields(held))
    inside, other = get_args(held)
    return _column(inside) if other is NoneType else pa.list_(_column(inside))


def _parsed(block: bytes, schema: pyarrow.Schema) -> pyarrow.Table:
    """The records of whole lines; raises `pyarrow.ArrowInvalid` for one that does not fit."""
    import pyarrow as pa
    from pyarrow import json

    return json.read_json(
        # a Python file would be read under the interpreter's lock, which the tables hold
        pa.BufferReader(block),
        json.ReadOptions(block_size=len(block) + 1, use_threads=False),
        json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
    )


def _misfit(block: bytes, schema: pyarrow.Schema, before: int) -> str | None:
    """The first line that does not fit and why: a block's error does not say which it was."""
    import pyarrow

    for number, line in enumerate(io.BytesIO(block), start=before + 1):
        try:
            _parsed(line, schema)
        except pyarrow.ArrowInvalid as error:
            return f"line {number}: {error}"
    return None


NEEDED_AT_THE_END = ("mmconv.stats", "pyarrow.json", "pyarrow.parquet")
"""What a run's folder is written with."""

NEEDED_FOR_A_PAGE = ("mmconv.report.page", "jinja2")
"""What its page is made with."""


def import_ahead(*, page: bool) -> None:
    """Import what the end of a run needs; while models answer, that costs no time."""
    for module in (*NEEDED_AT_THE_END, *(NEEDED_FOR_A_PAGE if page else ())):
        import_module(module)


class RunFolder:
    """The folder of one run; files appear in it whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._is_new = not path.exists()
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot make {path}: {error.strerror or error}") from error

    def withdraw(self) -> None:
        """Take a new folder away again: its run has nothing to keep."""
        if self._is_new:
            rmtree(self.path)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until no other process writes results into the folder, and keep others out; blocks.

        Several processes can share the calls of one run, and each writes the results at its end.
        """
        folder = os.open(self.path, os.O_RDONLY)
        try:
            # some network filesystems have no locks: then the last one overwrites
            with suppress(OSError):
                fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def records(self) -> Records:
        """Take in scores and transcripts, to be written in the run's order at the end."""
        return Records(self.path)

    def write_json(self, name: str, content: Any) -> None:
        """Write a small file of JSON, readable by people."""
        text = orjson.dumps(content, option=orjson.OPT_INDENT_2, default=str)
        self._write(name, text + b"\n")

    def _write(self, name: str, content: bytes) -> None:
        with atomic_write(self.path / name) as part:
            part.write_bytes(content)

    async def conclude(
        self,
        tabulate: Callable[[Iterable[Score]], Sequence[Table]],
        records: Records,
        notes: Sequence[str],
        facts: Mapping[str, str],
    ) -> tuple[Table, ...]:
        """Make tables of the records' scores, and Parquet files of what they left in the folder.

        Arrow works without the interpreter's lock. `notes` come first below every table, `facts`
        stand at the report's head.
        """

        def make_tables() -> tuple[Table, ...]:
            # numpy comes with it, and only the end of a run needs it
            from mmconv.stats import ScoreFrame, note_intervals

            made = note_intervals(tabulate(ScoreFrame(records.scores)))
            tables = tuple(replace(table, notes=(*notes, *table.notes)) for table in made)
            warning = " ".join(tell_notable(records.shortfall, tables))
            self._write_tables(tables, ({"warning": warning} if warning else {}) | dict(facts))
            return tables

        tables, _ = await asyncio.gather(
            asyncio.to_thread(make_tables), asyncio.to_thread(self._write_parquet)
        )
        return tables

    def _write_tables(self, tables: Sequence[Table], facts: Mapping[str, str]) -> None:
        """Write every table as CSV, JSON, Markdown and LaTeX, and one report of those to read.

        `facts` stand at the report's head.
        """
        write_tables(self.path / TABLES, tables)
        head = [f"# {self.path.name}", ""]
        head += [f"- **{name}**: {in_markdown(value)}" for name, value in facts.items()]
        head += [
            f"- **more tables**: {', '.join(f'`{TABLES}/{table.name}.md`' for table in tables)}"
        ]
        head += [f"- **every call**: `{TRANSCRIPTS}`; **versions and hashes**: `{MANIFEST}`"]
        shown = all_to_markdown([table for table in tables if not table.detail], TABLES)
        self._write(REPORT, "\n".join([*head, "", shown]).encode())

    def _write_parquet(self) -> None:
        """Turn the records into Parquet files beside them."""
        for name, kind in ((SCORES, ScoreRecord), (TRANSCRIPTS, CallRecord)):
            lines = self.path / name
            write_parquet(lines, lines.with_suffix(".parquet"), columns_of(kind))


class Records:
    """Scores and transcripts on their way to files; a context manager.

    Leaving the block by an exception, or after `discard`, writes nothing and keeps what was there.
    Leaving it otherwise also removes the tables, which were made of other scores: the run is not
    finished until they are made again.
    `scores` are those taken in, at some tens of bytes each; `unscored` counts the ones without a
    value by reason, and `shortfall` counts the calls.
    """

    def __init__(self, folder: Path) -> None:
        self._scores = OrderedLines(folder / SCORES)
        self._transcripts = OrderedLines(folder / TRANSCRIPTS)
        self._tables = folder / TABLES
        self._stack = ExitStack()
        self._discarded = False
        self.scores = ScoreRows()
        self.unscored: Counter[str] = Counter()
        self.shortfall = Shortfall()

    def __enter__(self) -> Self:
        self._stack.enter_context(self._scores)
        self._stack.enter_context(self._transcripts)
        return self

    def add(self, finished: Finished, scores: Iterable[Score]) -> None:
        """Take in one finished plan and its scores."""
        order = finished.plan.order
        calls = list(call_records(finished))
        self.shortfall.add(calls)
        self._transcripts.append(order, *map(orjson.dumps, calls))
        self._scores.append(order, *map(orjson.dumps, self._taken(scores, order)))

    def _taken(self, scores: Iterable[Score], order: int) -> Iterator[dict[str, Any]]:
        for score in scores:
            self.scores.append(clustered(score), order)
            if score.why is not None:
                self.unscored[score.why] += 1
            yield score_record(score)

    def discard(self) -> None:
        """Write nothing at the end: the run was stopped before it was whole."""
        self._discarded = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._discarded and kind is None:
            kind, error = InterruptedError, InterruptedError()
        if kind is None:
            remove_tables(self._tables)
        self._stack.__exit__(kind, error, trace)
