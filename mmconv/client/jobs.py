"""Runs and queued dialogues on the server, as handles.

`AsyncRun` and `AsyncDialogue` have the methods as coroutines; `Run` and `Dialogue` are the same
handles without `await`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar
from urllib.parse import quote

from mmconv.api import (
    AgreementTables,
    DialogueInfo,
    DialogueResult,
    QueuedDialogue,
    RunInfo,
    SampleInfo,
    SampleTranscript,
)
from mmconv.client.blocking import Blocking, blocking, iterating
from mmconv.client.transport import ServiceError, Transport, read
from mmconv.core.types import Score, Table
from mmconv.run_folder.transcripts import ScoreRecord, score_of

FIRST_LOOK, LONGEST_LOOK = 0.1, 2.0
"""Seconds until the first request for a job's state, and at most between two of them."""


Info = TypeVar("Info", RunInfo, QueuedDialogue)


@dataclass(slots=True)
class AsyncJob(Generic[Info]):
    """A job at the server; `info` is its last known state."""

    transport: Transport
    info: RunInfo | DialogueInfo

    _kind: ClassVar[Any]
    _group: ClassVar[str]
    _method: ClassVar[str]

    @property
    def id(self) -> str:
        """Its id on the server."""
        return self.info.id

    @property
    def path(self) -> str:
        """Its address on the server."""
        return f"/v1/{self._group}/{self.id}"

    async def refresh(self) -> Info:
        """Get its current state; a dialogue's with its result once it is done."""
        return await self._request("GET")

    async def stop(self) -> Info:
        """Stop it. Its replies are kept, and starting it again resumes it."""
        return await self._request("DELETE")

    async def remove(self) -> None:
        """Remove it with its results. It must have ended.

        Its replies stay cached: starting it again costs nothing.
        """
        await self.transport.request("DELETE", self.path, params={"purge": True})

    async def _request(self, method: str) -> Info:
        info: Info = read(self._kind, await self.transport.json(method, self.path))
        self.info = info
        return info

    async def _end(self, *, progress: bool) -> Info:
        """Wait until it is neither queued nor running; `progress` shows a bar on a terminal."""
        pause = FIRST_LOOK
        try:
            info = await self.refresh()
            with _bar(info, shown=progress and sys.stderr.isatty()) as show:
                while info.state in ("queued", "running"):
                    await self.transport.sleep(pause)
                    pause = min(1.5 * pause, LONGEST_LOOK)
                    info = await self.refresh()
                    show(info)
            return info
        except (KeyboardInterrupt, asyncio.CancelledError, ServiceError) as error:
            error.add_note(
                f"{self.id} may go on at the server: Client.{self._method}({self.id!r}) can "
                "wait() for it or stop() it"
            )
            raise


class AsyncRun(AsyncJob[RunInfo]):
    """A run."""

    info: RunInfo
    _kind = RunInfo
    _group, _method = "runs", "run"

    async def wait(self, *, progress: bool = True) -> RunInfo:
        """Wait until it is done or stopped, with a progress bar on a terminal.

        Raises `ServiceError` if it fails. If the waiting ends early, by Ctrl-C or because the
        server is away, the run continues, and a note to the exception names it.
        """
        info = await self._end(progress=progress)
        if info.state == "failed":
            raise ServiceError(f"{self.id} failed: {info.error}")
        return info

    async def annotate(
        self, *, note: str | None = None, tags: Sequence[str] | None = None
    ) -> RunInfo:
        """Set its note or its tags, which lists of runs show. None leaves them as they are."""
        asked = {"note": note, "tags": None if tags is None else [*tags]}
        info = await self.transport.json("PATCH", self.path, json=asked)
        self.info = read(RunInfo, info)
        return self.info

    async def scores(self, /, **chosen: str) -> AsyncIterator[Score]:
        """Its scores, page by page, optionally of one `sample`, `condition` or `metric`.

        Trials of a sample are one cluster, as in the run's own tables.
        """
        async for record in self.transport.pages(dict[str, Any], f"{self.path}/scores", chosen):
            yield score_of({name: record[name] for name in ScoreRecord.model_fields})

    async def tables(self) -> tuple[Table, ...]:
        """Its tables."""
        return await self.transport.get(tuple[Table, ...], f"{self.path}/tables")

    async def tables_as(
        self, form: Literal["json", "csv", "md", "tex"], table: str | None = None
    ) -> str:
        """Its tables, or one of them, as text."""
        params = {"format": form} | ({} if table is None else {"table": table})
        response = await self.transport.request("GET", f"{self.path}/tables", params=params)
        return response.text

    def samples(self) -> AsyncIterator[SampleInfo]:
        """Its samples with the numbers of their calls, page by page."""
        return self.transport.pages(SampleInfo, f"{self.path}/samples", {})

    async def sample(self, name: str, *, prompts: bool = False) -> SampleTranscript:
        """The messages and replies of a sample; `prompts` adds judges' filled prompts."""
        path = f"{self.path}/samples/{quote(name, safe='')}"
        return await self.transport.get(SampleTranscript, path, params={"prompts": prompts})

    async def transcripts(self, path: Path) -> None:
        """Write all its calls to a file: JSON Lines, or Parquet if the path ends in .parquet."""
        await self._save("transcripts", "parquet" if path.suffix == ".parquet" else "jsonl", path)

    async def agreement(
        self, ratings: Sequence[Mapping[str, Any]], /, **fields: Any
    ) -> AgreementTables:
        """Compare the judge's scores with people's ratings.

        A rating has `sample` and `value`, and may have `turn`, `metric`, `condition` and `rater`.
        `fields` are those of `/v1/runs/{run}/agreement`, such as `metric`.
        """
        body = {"ratings": [*ratings], **fields}
        tables = await self.transport.json("POST", f"{self.path}/agreement", json=body)
        return read(AgreementTables, tables)

    async def manifest(self) -> dict[str, Any]:
        """Its provenance: models, data and prompts by their hashes, versions."""
        return await self.transport.get(dict[str, Any], f"{self.path}/manifest")

    async def report(self, path: Path) -> None:
        """Write its report to a file: one HTML page, or an archive if the path ends in .zip.

        Only the archive is always complete: the page leaves out samples beyond 64 MB of texts and
        images, and larger images beyond 2 MB.
        """
        await self._save("report", "zip" if path.suffix == ".zip" else "html", path)

    async def _save(self, name: str, form: str, path: Path) -> None:
        response = await self.transport.request(
            "GET", f"{self.path}/{name}", params={"format": form}
        )
        path.write_bytes(response.content)  # noqa: ASYNC240  # quick, compared with the request


class AsyncDialogue(AsyncJob[QueuedDialogue]):
    """A dialogue that became a job."""

    info: DialogueInfo
    _kind = QueuedDialogue
    _group, _method = "dialogues", "dialogue_by_id"

    async def wait(self, *, progress: bool = True) -> DialogueResult:
        """Wait for its result, with a progress bar on a terminal.

        Raises `ServiceError` if it fails or is stopped. If the waiting ends early, by Ctrl-C or
        because the server is away, the dialogue continues, and a note to the exception names it.
        """
        ended = await self._end(progress=progress)
        if ended.state != "done" or ended.result is None:
            raise ServiceError(f"{ended.id} is {ended.state}: {ended.error or 'no result'}")
        return ended.result


class Job(Blocking[Any]):
    """A job at the server, without `await`."""

    @property
    def id(self) -> str:
        """Its id on the server."""
        job_id: str = self._handle.id
        return job_id


class Run(Job):
    """A run. `info` is its last known state."""

    _handle: AsyncRun

    @property
    def info(self) -> RunInfo:
        """Its last known state."""
        return self._handle.info

    refresh = blocking(AsyncRun.refresh)
    stop = blocking(AsyncRun.stop)
    remove = blocking(AsyncRun.remove)
    wait = blocking(AsyncRun.wait)
    annotate = blocking(AsyncRun.annotate)
    scores = iterating(AsyncRun.scores)
    tables = blocking(AsyncRun.tables)
    tables_as = blocking(AsyncRun.tables_as)
    samples = iterating(AsyncRun.samples)
    sample = blocking(AsyncRun.sample)
    transcripts = blocking(AsyncRun.transcripts)
    agreement = blocking(AsyncRun.agreement)
    manifest = blocking(AsyncRun.manifest)
    report = blocking(AsyncRun.report)


class Dialogue(Job):
    """A dialogue that became a job."""

    _handle: AsyncDialogue

    @property
    def info(self) -> DialogueInfo:
        """Its last known state."""
        return self._handle.info

    refresh = blocking(AsyncDialogue.refresh)
    stop = blocking(AsyncDialogue.stop)
    remove = blocking(AsyncDialogue.remove)
    wait = blocking(AsyncDialogue.wait)


@contextmanager
def _bar(
    job: RunInfo | DialogueInfo, *, shown: bool
) -> Iterator[Callable[[RunInfo | DialogueInfo], None]]:
    """Show a job's progress on standard error until the block ends."""
    if not shown:
        yield lambda job: None
        return
    # rich takes a tenth of a second to import, which a script without a terminal need not pay
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} calls"),
    )
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(job.id, total=job.progress.planned or None)

        def show(job: RunInfo | DialogueInfo) -> None:
            current = job.progress
            text = f"{job.id}: {job.state}, {current.replies} replies, {current.rate:.1f}/s"
            if current.seconds_left:
                text += f", about {current.seconds_left:.0f} s left"
            total = current.planned or None
            bar.update(task, completed=current.calls, total=total, description=text)

        yield show
