"""Writes a run's folder: records while it runs, and tables, Parquet and the report at its end."""

from __future__ import annotations

import asyncio
import fcntl
import os
import tempfile
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from shutil import rmtree
from typing import IO, TYPE_CHECKING, Any

import orjson

from mmconv.benchmarks.base.judges import TAG
from mmconv.core.atomic_writes import atomic_write, write_file
from mmconv.core.errors import ConfigError, DataError
from mmconv.core.plans import Finished
from mmconv.core.score_rows import ScoreRows
from mmconv.core.types import Score, Table
from mmconv.report.data_quality import DataQuality, find_notable, write_notable
from mmconv.report.tables.formats import all_to_markdown, in_markdown, remove_tables, write_tables
from mmconv.run_folder.layout import (
    JUDGED,
    LABELS,
    MANIFEST,
    PROGRESS,
    REPORT,
    SCORES,
    TABLES,
    TRANSCRIPTS,
)
from mmconv.run_folder.saved_run import read_scores, read_spec
from mmconv.run_folder.transcripts import (
    CallRecord,
    ScoreRecord,
    call_records,
    clustered,
    columns_of,
    score_record,
)

if TYPE_CHECKING:
    import pyarrow

_BUFFER = 1 << 20

PROGRESS_SECONDS = 2.0


class OrderedLines:
    """Lines in a temporary file, appended in any order and read in ascending order.

    Memory holds 16 bytes for each group of lines.
    """

    def __init__(self, spool: IO[bytes]) -> None:
        self._spool = spool
        self._orders = array("q")
        self._lengths = array("q")
        self.is_discarded = False

    def append(self, order: int, *lines: bytes) -> None:
        """Append lines without their ends."""
        if not lines:
            return
        block = b"\n".join((*lines, b""))
        self._spool.write(block)
        self._orders.append(order)
        self._lengths.append(len(block))

    def sorted(self) -> Iterator[bytes]:
        """The groups of lines in ascending order."""
        self._spool.flush()
        offsets = array("q", accumulate(self._lengths, initial=0))
        for place in sorted(range(len(self._orders)), key=self._orders.__getitem__):
            # A buffered reader would throw its buffer away at every jump; mapping the file would
            # count all of it as this process's memory.
            yield os.pread(self._spool.fileno(), self._lengths[place], offsets[place])


@contextmanager
def ordered_lines(path: Path) -> Iterator[OrderedLines]:
    """Lines in ascending order; the file is unchanged after an error, or if discarded."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(buffering=_BUFFER, dir=path.parent) as spool:
        lines = OrderedLines(spool)
        yield lines
        if lines.is_discarded:
            return
        with atomic_write(path) as part, part.open("wb", buffering=_BUFFER) as target:
            target.writelines(lines.sorted())


def write_parquet(
    lines: Path, target: Path, schema: pyarrow.Schema, *, group_bytes: int = 1 << 20
) -> None:
    """Turn a JSON Lines file into a Parquet file with this schema; missing fields are null.

    A row group has `group_bytes` of JSON and the rest of its last line. Raises `DataError` for a
    record that does not fit the schema, also by an unknown field.
    """
    import pyarrow
    from pyarrow import json, parquet

    # Arrow's own allocator keeps what it has freed, tens of megabytes that this process lacks
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    options = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    with (
        atomic_write(target) as part,
        lines.open("rb") as source,
        parquet.ParquetWriter(part, schema, compression="zstd") as writer,
    ):
        # the reader's own streaming holds some thirty blocks at once: this holds one
        while block := source.read(group_bytes) + source.readline():
            reading = json.ReadOptions(block_size=len(block) + 1, use_threads=False)
            try:
                # a Python file would be read under the interpreter's lock, which the tables hold
                table = json.read_json(pyarrow.BufferReader(block), reading, options)
            except pyarrow.ArrowInvalid as error:
                advice = (
                    "Its records do not fit the columns; `mmconv score` of the run rewrites it."
                )
                raise DataError(str(lines), [str(error)], advice) from error
            writer.write_table(table)


def import_ahead(*, page: bool) -> None:
    """Import what the end of a run needs; while models answer, that costs no time."""
    page_modules = ("mmconv.report.page", "jinja2") if page else ()
    for module in ("mmconv.stats", "pyarrow.json", "pyarrow.parquet", *page_modules):
        import_module(module)


class Records:
    """Scores and transcripts of a run, until they are written.

    `scores` take some tens of bytes each, `judged` are those of each of several judges. `unscored`
    counts scores without a value by reason, and `quality` the calls.
    """

    def __init__(self, scores: OrderedLines, transcripts: OrderedLines) -> None:
        self._scores = scores
        self._transcripts = transcripts
        self.scores = ScoreRows()
        self.judged = ScoreRows()
        self.unscored: Counter[str] = Counter()
        self.quality = DataQuality()

    def add(self, finished: Finished, scores: Iterable[Score]) -> None:
        """Add one finished plan and its scores."""
        order = finished.plan.order
        calls = list(call_records(finished))
        self.quality.add(calls)
        self._transcripts.append(order, *map(orjson.dumps, calls))
        own = []
        for score in map(clustered, scores):
            if TAG in score.tags:
                self.judged.append(score, order)
                continue
            self.scores.append(score, order)
            own.append(orjson.dumps(score_record(score)))
            if score.why is not None:
                self.unscored[score.why] += 1
        self._scores.append(order, *own)

    def discard(self) -> None:
        """Write nothing at the end: the run was stopped before it was complete."""
        self._scores.is_discarded = self._transcripts.is_discarded = True


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
        """Remove the folder if it is new: its run has nothing to keep."""
        if self._is_new:
            rmtree(self.path)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until no other process writes results into the folder, and lock it; blocks.

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

    @asynccontextmanager
    async def progress(self, measure: Callable[[], object]) -> AsyncIterator[None]:
        """Write what `measure` returns into `PROGRESS` every few seconds, for other processes."""
        ended = asyncio.Event()

        async def report() -> None:
            # a full disk ends only this; the run itself says so where it writes its results
            with suppress(OSError):
                while not ended.is_set():
                    await asyncio.to_thread(self.write_json, PROGRESS, measure())
                    with suppress(TimeoutError):
                        async with asyncio.timeout(PROGRESS_SECONDS):
                            await ended.wait()

        reporting = asyncio.create_task(report())
        try:
            yield
        finally:
            ended.set()
            await reporting

    @contextmanager
    def records(self) -> Iterator[Records]:
        """Records that are written at the end, in the run's order.

        After an exception, or if they are discarded, the folder is unchanged. Otherwise its tables
        are removed, which were made of other scores: the run is unfinished until they are written.
        """
        with (
            ordered_lines(self.path / SCORES) as scores,
            ordered_lines(self.path / TRANSCRIPTS) as transcripts,
        ):
            yield Records(scores, transcripts)
            if not scores.is_discarded:
                remove_tables(self.path / TABLES)

    def write_json(self, name: str, content: Any) -> None:
        """Write a small file of JSON, readable by people."""
        text = orjson.dumps(content, option=orjson.OPT_INDENT_2, default=str)
        write_file(self.path / name, text + b"\n")

    async def conclude(
        self,
        tabulate: Callable[[Iterable[Score]], Sequence[Table]],
        records: Records,
        notes: Sequence[str],
        facts: Mapping[str, str],
    ) -> tuple[Table, ...]:
        """Make tables (`notes` below each), the report (`facts` as its head) and Parquet files."""

        def make_tables() -> tuple[Table, ...]:
            # numpy comes with it, and only the end of a run needs it
            from mmconv.stats import ScoreFrame, note_intervals

            frame = ScoreFrame(records.scores)
            judged = ScoreFrame(records.judged)
            if len(judged):
                frame.judges = judged.split(TAG)
                lines = (orjson.dumps(score_record(score)) + b"\n" for score in judged)
                write_file(self.path / JUDGED, b"".join(lines))
            tables = tuple(
                replace(table, notes=(*notes, *table.notes))
                for table in note_intervals(tabulate(frame))
            )
            notable = find_notable(records.quality, tables)
            write_notable(self.path, notable)
            if (labels := self.path / LABELS).exists():
                from mmconv.report.corrections import correct_tables

                frame.people = ScoreFrame(read_scores(labels))
                tables = correct_tables(read_spec(self.path), frame, tables)
            write_tables(self.path / TABLES, tables)
            warning = " ".join(notable)
            self._write_report(tables, ({"warning": warning} if warning else {}) | dict(facts))
            return tables

        def write_parquet_files() -> None:
            for name, kind in ((SCORES, ScoreRecord), (TRANSCRIPTS, CallRecord)):
                lines = self.path / name
                write_parquet(lines, lines.with_suffix(".parquet"), columns_of(kind))

        # Arrow works without the interpreter's lock
        tables, _ = await asyncio.gather(
            asyncio.to_thread(make_tables), asyncio.to_thread(write_parquet_files)
        )
        return tables

    def _write_report(self, tables: Sequence[Table], facts: Mapping[str, str]) -> None:
        files = ", ".join(f"`{TABLES}/{table.name}.md`" for table in tables)
        head = [
            f"# {self.path.name}",
            "",
            *(f"- **{name}**: {in_markdown(value)}" for name, value in facts.items()),
            f"- **more tables**: {files}",
            f"- **every call**: `{TRANSCRIPTS}`; **versions and hashes**: `{MANIFEST}`",
            "",
        ]
        printed = all_to_markdown([table for table in tables if not table.detail])
        write_file(self.path / REPORT, "\n".join([*head, printed]))
