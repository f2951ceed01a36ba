"""`Client`: a method for each use of a server by scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias
from urllib.parse import quote
from uuid import uuid4

import httpx2

from mmconv.api import (
    ComparedTables,
    DataSet,
    DialogueInfo,
    DialogueResult,
    Judgement,
    JudgingInfo,
    OwnImage,
    QueuedDialogue,
    RunInfo,
    StoredImage,
)
from mmconv.client.jobs import Dialogue, Run
from mmconv.client.transport import Transport, read

ImageFile: TypeAlias = str | Path | bytes | StoredImage | OwnImage
"""An image: a file's path, its bytes, or one that the server has stored.

A stored image may also be named as in requests: `image:` and its id.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """A model's answer; tokens are None if its backend does not count them."""

    text: str
    reasoning: str | None
    finish: str
    input_tokens: int | None
    output_tokens: int | None


class Client:
    """Talks to the server at `url`, with a `token` if it needs one.

    A request may take `timeout` seconds. While the server is busy or not up yet, requests are
    retried for `patience` seconds; so are reading requests whose connection breaks. `transport`
    replaces the network, in tests. All methods raise `ServiceError`.
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

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def models(self) -> tuple[str, ...]:
        """The names of the models, without those whose key the server lacks."""
        cards = self._transport.json("GET", "/v1/models")["data"]
        return tuple(card["id"] for card in cards if card.get("usable", True))

    def data(self) -> tuple[DataSet, ...]:
        """The datasets that runs may name, with their conditions and options."""
        return read(tuple[DataSet, ...], self._transport.json("GET", "/v1/data")["data"])

    def prompts(self) -> tuple[JudgingInfo, ...]:
        """What can be judged: benchmarks with the fields of samples, options and prompts."""
        return read(tuple[JudgingInfo, ...], self._transport.json("GET", "/v1/prompts")["data"])

    def upload(self, image: str | Path | bytes) -> StoredImage:
        """Store an image on the server. Equal files are one image."""
        data = image if isinstance(image, bytes) else Path(image).read_bytes()
        headers = {"Content-Type": "application/octet-stream"}
        stored = self._transport.json("POST", "/v1/images", content=data, headers=headers)
        return read(StoredImage, stored)

    def image(self, image_id: str) -> bytes:
        """The file of a stored image."""
        return self._transport.request("GET", _path("images", image_id)).content

    def images(self) -> Iterator[OwnImage]:
        """The token's own stored images, newest first."""
        return self._transport.pages(OwnImage, "/v1/images", {})

    def remove_image(self, image_id: str) -> None:
        """Remove one of the token's images. Raises if an active dialogue needs it."""
        self._transport.request("DELETE", _path("images", image_id))

    def chat(
        self,
        model: str,
        messages: str | Sequence[Mapping[str, Any]],
        *,
        images: ImageFile | Sequence[ImageFile] = (),
        **fields: Any,
    ) -> ChatReply:
        """Call a model; `messages` are a user's text or OpenAI's messages.

        `images` go before the text. `fields` are those of a chat completion, such as
        `temperature`.
        """
        if isinstance(messages, str):
            parts: list[Mapping[str, Any]] = [
                {"type": "image_url", "image_url": {"url": name}} for name in self._names(images)
            ]
            parts.append({"type": "text", "text": messages})
            messages = [{"role": "user", "content": parts}]
        elif images:
            raise ValueError("images need a text; with messages put them into the messages")
        body = {"model": model, "messages": list(messages), **fields}
        completion = self._transport.json("POST", "/v1/chat/completions", json=body)
        [choice] = completion["choices"]
        usage = completion["usage"] or {}
        return ChatReply(
            text=choice["message"]["content"],
            reasoning=choice["message"].get("reasoning_content"),
            finish=choice["finish_reason"],
            input_tokens=usage.get("prompt_tokens"),
            output_tokens=usage.get("completion_tokens"),
        )

    def dialogue(
        self,
        model: str,
        turns: str | Sequence[str | Mapping[str, Any]],
        *,
        images: ImageFile | Sequence[ImageFile] = (),
        progress: bool = True,
        **fields: Any,
    ) -> DialogueResult:
        """Hold a dialogue and wait for its result, even if the server queues it.

        A turn is an instruction, or a mapping with `instruction`, `reference`, `focus_points` and
        `images`; a text alone is one turn. `images` are shown with the first turn. `fields` are
        those of `/v1/dialogues`, such as `conditions`, `judge` and `gradings`.
        """
        if isinstance(turns, str):
            turns = [turns]
        body = {
            "model": model,
            "turns": [self._turn(turn) for turn in turns],
            "images": self._names(images),
            **fields,
        }
        response = self._transport.request("POST", "/v1/dialogues", json=body)
        if response.status_code == httpx2.codes.OK:
            return read(DialogueResult, response.json())
        job = Dialogue(self._transport, read(QueuedDialogue, response.json()))
        return job.wait(progress=progress)

    def dialogue_by_id(self, dialogue_id: str) -> Dialogue:
        """A dialogue that became a job."""
        info = self._transport.get(QueuedDialogue, _path("dialogues", dialogue_id))
        return Dialogue(self._transport, info)

    def dialogues(self, **chosen: str) -> Iterator[Dialogue]:
        """Dialogues that became jobs, newest first: the token's own, for an admin all.

        `chosen` are `state` and `model`.
        """
        for info in self._transport.pages(DialogueInfo, "/v1/dialogues", chosen):
            yield Dialogue(self._transport, info)

    def judge(
        self,
        judge: str,
        benchmark: str,
        sample: Mapping[str, Any],
        replies: str | Mapping[str, str],
        **fields: Any,
    ) -> Judgement:
        """Judge replies to a sample as a run of the benchmark does.

        `replies` are texts by call, such as `turn_1`; a text alone is `turn_1`. An image of the
        sample may be a path, bytes, or one that the server has stored. `fields` are those of
        `/v1/judgements`, such as `condition` and `options`.
        """
        body = {
            "judge": judge,
            "benchmark": benchmark,
            "sample": self._uploaded(sample),
            "replies": {"turn_1": replies} if isinstance(replies, str) else dict(replies),
            **fields,
        }
        return read(Judgement, self._transport.json("POST", "/v1/judgements", json=body))

    def start(
        self, data: str, models: Mapping[str, str], *, key: str | None = None, **fields: Any
    ) -> Run:
        """Start a run of a benchmark over a dataset, or find the equal one.

        `models` maps candidate and judge to models. `key` is an idempotency key, by default a new
        one. `fields` are those of `/v1/runs`, such as `options` and `limit`.
        """
        body = {"data": data, "models": dict(models), **fields}
        headers = {"Idempotency-Key": key or uuid4().hex}
        info = self._transport.json("POST", "/v1/runs", json=body, headers=headers)
        return Run(self._transport, read(RunInfo, info))

    def run(self, run_id: str) -> Run:
        """A run by its id."""
        return Run(self._transport, self._transport.get(RunInfo, _path("runs", run_id)))

    def runs(self, **chosen: str) -> Iterator[Run]:
        """Runs, newest first; `chosen` are `state`, `benchmark` and `model`."""
        for info in self._transport.pages(RunInfo, "/v1/runs", chosen):
            yield Run(self._transport, info)

    def compare(self, *runs: str, despite: Sequence[str] = ()) -> ComparedTables:
        """Finished runs side by side, the baseline first; `despite` names what may differ."""
        params = {"runs": ",".join(runs), "despite": list(despite)}
        return self._transport.get(ComparedTables, "/v1/compare", params=params)

    def _turn(self, turn: str | Mapping[str, Any]) -> Mapping[str, Any]:
        if isinstance(turn, str):
            return {"instruction": turn}
        return {**turn, "images": self._names(turn["images"])} if "images" in turn else turn

    def _uploaded(self, value: Any) -> Any:
        """The value with names in the place of images."""
        if isinstance(value, Path | bytes | StoredImage | OwnImage):
            return self._name(value)
        if isinstance(value, Mapping):
            return {name: self._uploaded(item) for name, item in value.items()}
        return [*map(self._uploaded, value)] if isinstance(value, list | tuple) else value

    def _names(self, images: ImageFile | Sequence[ImageFile]) -> list[str]:
        """The images' names in requests. Those that the server has not stored are uploaded."""
        if isinstance(images, str | Path | bytes | StoredImage | OwnImage):
            images = [images]
        return [self._name(image) for image in images]

    def _name(self, image: ImageFile) -> str:
        if isinstance(image, StoredImage | OwnImage):
            return image.name
        if isinstance(image, str) and image.startswith("image:"):
            return image
        return self.upload(image).name


def _path(kind: str, record_id: str) -> str:
    return f"/v1/{kind}/{quote(record_id, safe='')}"
