"""A run's folder: its records while it runs, and the files that are made from them at its end."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from shutil import rmtree
from types import TracebackType
from typing import Any, Self

import orjson

from mmconv.core.atomic_writes import whole
from mmconv.core.errors import ConfigError
from mmconv.core.plans import Finished
from mmconv.core.score_rows import ScoreRows
from mmconv.core.types import Score, Table
from mmconv.report.shortfalls import Shortfall, tell_notable
from mmconv.report.tables.formats import remove_tables, write_tables
from mmconv.report.tables.markdown import all_to_markdown, in_markdown
from mmconv.report.writing.ordered_lines import OrderedLines
from mmconv.report.writing.parquet import columns_of, write_parquet
from mmconv.run_folder.layout import MANIFEST, REPORT, SCORES, TABLES, TRANSCRIPTS
from mmconv.run_folder.records import CallRecord, ScoreRecord
from mmconv.run_folder.transcripts import call_records, clustered, score_record

NEEDED_AT_THE_END = ("mmconv.stats", "pyarrow.json", "pyarrow.parquet")
"""What a run's folder is written with."""

NEEDED_FOR_A_PAGE = ("mmconv.report.page", "jinja2", "matplotlib.backends.backend_svg")
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
        with whole(self.path / name) as part:
            part.write_bytes(content)

    async def conclude(
        self,
        tabulate: Callable[[Iterable[Score]], Sequence[Table]],
        records: Records,
        told: Sequence[str],
        facts: Mapping[str, str],
    ) -> tuple[Table, ...]:
        """Make tables of the records' scores, and Parquet files of what they left in the folder.

        Arrow works without the interpreter's lock. `told` is noted first below every table, `facts`
        stand at the report's head.
        """

        def make_tables() -> tuple[Table, ...]:
            # numpy comes with it, and only the end of a run needs it
            from mmconv.stats import ScoreFrame, tell_intervals

            made = tell_intervals(tabulate(ScoreFrame(records.scores)))
            tables = tuple(replace(table, notes=(*told, *table.notes)) for table in made)
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
    finished until they are made anew.
    `scores` are those taken in, at some tens of bytes each; `unscored` counts the ones without a
    value by reason, and `shortfall` tells of the calls.
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
