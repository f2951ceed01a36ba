"""A run on the server, as a handle: how it is, waiting for it, and what it brought."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from mmconv.answers import RunInfo, SampleInfo, SampleTranscript
from mmconv.client.errors import ServiceError
from mmconv.client.results import read
from mmconv.client.transport import Transport
from mmconv.client.waiting import naming, wait
from mmconv.core.types import Score, Table
from mmconv.run_folder.transcripts import ScoreRecord, score_of


@dataclass(slots=True)
class Run:
    """A run; `info` is how it was when the server was last asked."""

    transport: Transport
    info: RunInfo

    @property
    def id(self) -> str:
        """Its name on the server."""
        return self.info.id

    @property
    def path(self) -> str:
        """Its address on the server."""
        return f"/v1/runs/{self.id}"

    def refresh(self) -> RunInfo:
        """Ask how it is."""
        self.info = read(RunInfo, self.transport.json("GET", self.path))
        return self.info

    def wait(self, *, progress: bool = True) -> RunInfo:
        """Wait until it is done or stopped, with a bar on a terminal.

        Raises `ServiceError` if it fails. It goes on where the waiting ends before, by Ctrl-C or
        because the server is away; a note to the exception then names it.
        """
        with naming(self.id, "run"):
            info = wait(self.refresh, progress=progress)
        if info.state == "failed":
            raise ServiceError(f"{self.id} failed: {info.error}")
        return info

    def stop(self) -> RunInfo:
        """Have it stopped; what is answered is kept, and starting it again goes on."""
        self.info = read(RunInfo, self.transport.json("DELETE", self.path))
        return self.info

    def remove(self) -> None:
        """Have it removed, with its scores and report; it must have ended or been stopped.

        Its replies stay in the store: started again, it costs nothing.
        """
        self.transport.request("DELETE", self.path, params={"purge": True})

    def scores(self, **chosen: str) -> Iterator[Score]:
        """Its scores, page by page; `chosen` are `sample`, `condition` and `metric`.

        Trials of a sample are one cluster, as they are where a run's own tables are made.
        """
        for record in self._pages("scores", chosen):
            yield score_of({name: record[name] for name in ScoreRecord.model_fields})

    def tables(self) -> tuple[Table, ...]:
        """Its tables."""
        found = self.transport.json("GET", f"{self.path}/tables", params={"format": "json"})
        return tuple(read(Table, each) for each in found)

    def tables_as(self, form: Literal["json", "csv", "md", "tex"], table: str | None = None) -> str:
        """Its tables, or one of them, as text."""
        params = {"format": form} | ({} if table is None else {"table": table})
        return self.transport.request("GET", f"{self.path}/tables", params=params).text

    def samples(self) -> Iterator[SampleInfo]:
        """Its samples and how far their calls are, page by page."""
        for record in self._pages("samples", {}):
            yield read(SampleInfo, record)

    def sample(self, name: str, *, prompts: bool = False) -> SampleTranscript:
        """What the models were sent and said of a sample; `prompts` adds judges' filled prompts."""
        path = f"{self.path}/samples/{quote(name, safe='')}"
        found = self.transport.json("GET", path, params={"prompts": prompts})
        return read(SampleTranscript, found)

    def transcripts(self, path: Path) -> None:
        """Write all its calls to a file: JSON Lines, or Parquet where the path ends in .parquet."""
        params = {"format": "parquet" if path.suffix == ".parquet" else "jsonl"}
        found = self.transport.request("GET", f"{self.path}/transcripts", params=params)
        path.write_bytes(found.content)

    def manifest(self) -> dict[str, Any]:
        """With what it was made: models, data and prompts by their hashes, versions."""
        found: dict[str, Any] = self.transport.json("GET", f"{self.path}/manifest")
        return found

    def report(self, path: Path) -> None:
        """Write its report to a file: one HTML page, or an archive where the path ends in .zip.

        Only the archive has all: of a run with more than 64 MB of texts and pictures the samples
        beyond that, and of one with more than 2 MB of larger pictures those.
        """
        params = {"format": "zip" if path.suffix == ".zip" else "html"}
        found = self.transport.request("GET", f"{self.path}/report", params=params)
        path.write_bytes(found.content)

    def _pages(self, what: str, chosen: dict[str, Any]) -> Iterator[Any]:
        return pages(self.transport, f"{self.path}/{what}", chosen)


def pages(transport: Transport, path: str, chosen: dict[str, Any]) -> Iterator[Any]:
    """The records of a list, however many pages it has."""
    params = dict(chosen)
    while True:
        page = transport.json("GET", path, params=params)
        yield from page["data"]
        if page["next"] is None:
            return
        params["after"] = page["next"]
