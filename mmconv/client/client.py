"""`Client`: a method for each thing that scripts have a server do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias
from urllib.parse import quote
from uuid import uuid4

import httpx2

from mmconv.answers import (
    ComparedTables,
    DataSet,
    DialogueInfo,
    OwnImage,
    PromptInfo,
    QueuedDialogue,
    RunInfo,
    StoredImage,
)
from mmconv.benchmarks.shared.judgements import Judgement
from mmconv.client.dialogues import Dialogue
from mmconv.client.results import ChatReply, read
from mmconv.client.runs import Run, pages
from mmconv.client.transport import Transport
from mmconv.dialogues.results import DialogueResult

Picture: TypeAlias = str | Path | bytes | StoredImage | OwnImage
"""An image: a file's path, the bytes of one, or one that the server keeps already.

What the server keeps may also be named as requests name it: `image:` and its id.
"""


class Client:
    """Talks to the server at `url`, in the name of `token` where it wants one.

    A request may take `timeout` seconds. While the server is busy or not up yet, a request is sent
    again for `patience` seconds, and so is one that only reads where its connection breaks.
    `transport` replaces the network, in tests. All methods raise `ServiceError`.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = 600.0,
        patience: float = 60.0,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self._transport = Transport(url, token, timeout, patience, transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def models(self) -> tuple[str, ...]:
        """The names of the models that can be asked; those whose key the server lacks are none."""
        cards = self._transport.json("GET", "/v1/models")["data"]
        return tuple(card["id"] for card in cards if card.get("usable", True))

    def data(self) -> tuple[DataSet, ...]:
        """The data sets that runs may name, with their conditions and options."""
        return tuple(
            read(DataSet, each) for each in self._transport.json("GET", "/v1/data")["data"]
        )

    def prompts(self) -> tuple[PromptInfo, ...]:
        """The prompts that judges may be asked by, and the fields that each needs."""
        found = self._transport.json("GET", "/v1/prompts")["data"]
        return tuple(read(PromptInfo, each) for each in found)

    def upload(self, image: str | Path | bytes) -> StoredImage:
        """Have an image kept; the same image twice is one."""
        data = image if isinstance(image, bytes) else Path(image).read_bytes()
        headers = {"Content-Type": "application/octet-stream"}
        kept = self._transport.json("POST", "/v1/images", content=data, headers=headers)
        return read(StoredImage, kept)

    def image(self, image_id: str) -> bytes:
        """The file of an image that is kept."""
        return self._transport.request("GET", _path("images", image_id)).content

    def images(self) -> Iterator[OwnImage]:
        """The images of one's own that are kept, the newest first."""
        for record in pages(self._transport, "/v1/images", {}):
            yield read(OwnImage, record)

    def remove_image(self, image_id: str) -> None:
        """Remove an image of one's own; raises where a dialogue under way needs it."""
        self._transport.request("DELETE", _path("images", image_id))

    def chat(
        self,
        model: str,
        messages: str | Sequence[Mapping[str, Any]],
        *,
        images: Picture | Sequence[Picture] = (),
        **fields: Any,
    ) -> ChatReply:
        """Ask a model; `messages` are a user's words or OpenAI's messages.

        `images` go before the words. `fields` are those of a chat completion, such as
        `temperature`.
        """
        if isinstance(messages, str):
            parts: list[Mapping[str, Any]] = [
                {"type": "image_url", "image_url": {"url": name}} for name in self._names(images)
            ]
            parts.append({"type": "text", "text": messages})
            messages = [{"role": "user", "content": parts}]
        elif images:
            raise ValueError("images go with words; in messages they have a place of their own")
        body = {"model": model, "messages": list(messages), **fields}
        return ChatReply.of(self._transport.json("POST", "/v1/chat/completions", json=body))

    def dialogue(
        self,
        model: str,
        turns: str | Sequence[str | Mapping[str, Any]],
        *,
        images: Picture | Sequence[Picture] = (),
        progress: bool = True,
        **fields: Any,
    ) -> DialogueResult:
        """Hold a dialogue and wait for its result, also where the server makes a job of it.

        A turn is an instruction, or a mapping with `instruction`, `reference`, `focus_points` and
        `images`; a text alone is one turn. `images` beside the turns are shown with the first one.
        `fields` are those of `/v1/dialogues`, such as `conditions`, `judge` and `gradings`.
        """
        if isinstance(turns, str):
            turns = [turns]
        body = {
            "model": model,
            "turns": [self._turn(each) for each in turns],
            "images": self._names(images),
            **fields,
        }
        answer = self._transport.request("POST", "/v1/dialogues", json=body)
        if answer.status_code == httpx2.codes.OK:
            return read(DialogueResult, answer.json())
        job = Dialogue(self._transport, read(QueuedDialogue, answer.json()))
        return job.wait(progress=progress)

    def dialogue_by_id(self, dialogue_id: str) -> Dialogue:
        """A dialogue that became a job."""
        found = self._transport.json("GET", _path("dialogues", dialogue_id))
        return Dialogue(self._transport, read(QueuedDialogue, found))

    def dialogues(self, **chosen: str) -> Iterator[Dialogue]:
        """Dialogues that became jobs, the newest first: one's own, for an admin all.

        `chosen` are `state` and `model`.
        """
        for record in pages(self._transport, "/v1/dialogues", dict(chosen)):
            yield Dialogue(self._transport, read(DialogueInfo, record))

    def judge(self, judge: str, benchmark: str, prompt: str, **fields: Any) -> Judgement:
        """Have a finished dialogue judged by a prompt of a benchmark.

        `fields` are what that judge reads; an `image` may be a file or bytes.
        """
        if isinstance(fields.get("image"), Path | bytes | StoredImage | OwnImage):
            [fields["image"]] = self._names(fields["image"])
        body = {"judge": judge, "benchmark": benchmark, "prompt": prompt, **fields}
        return read(Judgement, self._transport.json("POST", "/v1/judgements", json=body))

    def start(
        self, data: str, seats: Mapping[str, str], *, key: str | None = None, **fields: Any
    ) -> Run:
        """Start a run of a benchmark over a data set, or find the one that it is.

        `seats` maps candidate and judge to models. `key` is an idempotency key, by default a new
        one. `fields` are those of `/v1/runs`, such as `options` and `limit`.
        """
        body = {"data": data, "seats": dict(seats), **fields}
        headers = {"Idempotency-Key": key or uuid4().hex}
        posted = self._transport.json("POST", "/v1/runs", json=body, headers=headers)
        return Run(self._transport, read(RunInfo, posted))

    def run(self, run_id: str) -> Run:
        """A run by its id."""
        found = self._transport.json("GET", _path("runs", run_id))
        return Run(self._transport, read(RunInfo, found))

    def runs(self, **chosen: str) -> Iterator[Run]:
        """Runs, the newest first; `chosen` are `state`, `benchmark` and `model`."""
        for record in pages(self._transport, "/v1/runs", dict(chosen)):
            yield Run(self._transport, read(RunInfo, record))

    def compare(self, *runs: str, despite: Sequence[str] = ()) -> ComparedTables:
        """Finished runs side by side, the baseline first; `despite` names what may differ."""
        params = {"runs": ",".join(runs), "despite": list(despite)}
        return read(ComparedTables, self._transport.json("GET", "/v1/compare", params=params))

    def _turn(self, turn: str | Mapping[str, Any]) -> Mapping[str, Any]:
        if isinstance(turn, str):
            return {"instruction": turn}
        return {**turn, "images": self._names(turn["images"])} if "images" in turn else turn

    def _names(self, images: Picture | Sequence[Picture]) -> list[str]:
        """What requests call the images; those that the server has not are uploaded."""
        if isinstance(images, str | Path | bytes | StoredImage | OwnImage):
            images = [images]
        return [self._name(each) for each in images]

    def _name(self, image: Picture) -> str:
        if isinstance(image, StoredImage | OwnImage):
            return image.name
        if isinstance(image, str) and image.startswith("image:"):
            return image
        return self.upload(image).name


def _path(kind: str, record_id: str) -> str:
    return f"/v1/{kind}/{quote(record_id, safe='')}"
