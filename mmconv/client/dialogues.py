"""A dialogue that became a job, as a handle: how it is, and waiting for its result."""

from __future__ import annotations

from dataclasses import dataclass

from mmconv.answers import DialogueInfo, QueuedDialogue
from mmconv.client.errors import ServiceError
from mmconv.client.results import read
from mmconv.client.transport import Transport
from mmconv.client.waiting import naming, wait
from mmconv.dialogues.results import DialogueResult


@dataclass(slots=True)
class Dialogue:
    """A dialogue that became a job; `info` is how it was when the server was last asked."""

    transport: Transport
    info: DialogueInfo

    @property
    def id(self) -> str:
        """Its name on the server."""
        return self.info.id

    @property
    def path(self) -> str:
        """Its address on the server."""
        return self.info.location

    def refresh(self) -> QueuedDialogue:
        """Ask how it is; its result is there once it was done."""
        return self._told("GET")

    def wait(self, *, progress: bool = True) -> DialogueResult:
        """Wait for its result, with a bar on a terminal.

        Raises `ServiceError` if it fails or is stopped. It goes on where the waiting ends before,
        by Ctrl-C or because the server is away; a note to the exception then names it.
        """
        with naming(self.id, "dialogue_by_id"):
            ended = wait(self.refresh, progress=progress)
        if ended.state != "done" or ended.result is None:
            raise ServiceError(f"{ended.id} is {ended.state}: {ended.error or 'no result'}")
        return ended.result

    def stop(self) -> QueuedDialogue:
        """Have it stopped; what is answered is kept, and the same dialogue again goes on."""
        return self._told("DELETE")

    def remove(self) -> None:
        """Have it removed; it must have ended or been stopped.

        Its replies stay in the store: held again, it costs nothing.
        """
        self.transport.request("DELETE", self.path, params={"purge": True})

    def _told(self, method: str) -> QueuedDialogue:
        found = read(QueuedDialogue, self.transport.json(method, self.path))
        self.info = found
        return found
