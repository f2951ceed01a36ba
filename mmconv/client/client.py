"""`AsyncClient` and `Client`: a method for each use of a server by scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias
from urllib.parse import quote
from uuid import uuid4

import httpx2

from mmconv.api import (
    BatchResult,
    ComparedTables,
    DataSet,
    DialogueInfo,
    DialogueResult,
    Judgement,
    JudgingInfo,
    OwnImage,
    QueuedDialogue,
    RankedTables,
    RunInfo,
    StoredImage,
)
from mmconv.client.blocking import Blocking, blocking, iterating
from mmconv.client.jobs import AsyncDialogue, AsyncRun, Dialogue, Run
from mmconv.client.transport import (
    ServiceError,
    Transport,
    read,
    settings,
)

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


class Calls:
    """Each use of a server, as a coroutine over a transport that blocks or not."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def models(self) -> tuple[str, ...]:
        """The names of the models, without those whose key the server lacks."""
        cards = (await self._transport.json("GET", "/v1/models"))["data"]
        return tuple(card["id"] for card in cards if card.get("usable", True))

    async def data(self) -> tuple[DataSet, ...]:
        """The datasets that runs may name, with their conditions and options."""
        listed = await self._transport.json("GET", "/v1/data")
        return read(tuple[DataSet, ...], listed["data"])

    async def send_data(
        self,
        file: str | Path | bytes,
        benchmark: str,
        *,
        title: str | None = None,
        generate_only: bool = False,
    ) -> DataSet:
        """Send a dataset of the benchmark, which is checked; runs name it by its `name`.

        `file` is a .jsonl, .json, .xlsx, .parquet or .zip file. The files in a .zip are named after
        the benchmark's options: data.jsonl, images. With `generate_only` the data need nothing that
        only a judge reads. An equal file is the same dataset.
        """
        data = file if isinstance(file, bytes) else _read_file(file)
        params = {"benchmark": benchmark, "generate_only": generate_only}
        params |= {} if title is None else {"title": title}
        headers = {"Content-Type": "application/octet-stream"}
        sent = await self._transport.json(
            "POST", "/v1/data", params=params, content=data, headers=headers
        )
        return read(DataSet, sent)

    async def remove_data(self, name: str) -> None:
        """Remove a dataset that the token sent. Raises if an active run needs it."""
        await self._transport.request("DELETE", _path("data", name))

    async def prompts(self) -> tuple[JudgingInfo, ...]:
        """What can be judged: benchmarks with the fields of samples, options and prompts."""
        listed = await self._transport.json("GET", "/v1/prompts")
        return read(tuple[JudgingInfo, ...], listed["data"])

    async def upload(self, image: str | Path | bytes) -> StoredImage:
        """Store an image on the server. Equal files are one image."""
        data = image if isinstance(image, bytes) else _read_file(image)
        headers = {"Content-Type": "application/octet-stream"}
        stored = await self._transport.json("POST", "/v1/images", content=data, headers=headers)
        return read(StoredImage, stored)

    async def image(self, image_id: str) -> bytes:
        """The file of a stored image."""
        return (await self._transport.request("GET", _path("images", image_id))).content

    def images(self) -> AsyncIterator[OwnImage]:
        """The token's own stored images, newest first."""
        return self._transport.pages(OwnImage, "/v1/images", {})

    async def remove_image(self, image_id: str) -> None:
        """Remove one of the token's images. Raises if an active dialogue needs it."""
        await self._transport.request("DELETE", _path("images", image_id))

    async def chat(
        self,
        /,
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
                {"type": "image_url", "image_url": {"url": name}}
                for name in await self._names(images)
            ]
            parts.append({"type": "text", "text": messages})
            messages = [{"role": "user", "content": parts}]
        elif images:
            raise ValueError("images need a text; with messages put them into the messages")
        body = {"model": model, "messages": list(messages), **fields}
        completion = await self._transport.json("POST", "/v1/chat/completions", json=body)
        [choice] = completion["choices"]
        usage = completion["usage"] or {}
        return ChatReply(
            text=choice["message"]["content"],
            reasoning=choice["message"].get("reasoning_content"),
            finish=choice["finish_reason"],
            input_tokens=usage.get("prompt_tokens"),
            output_tokens=usage.get("completion_tokens"),
        )

    async def dialogue(
        self,
        /,
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
            "turns": [await self._turn(turn) for turn in turns],
            "images": await self._names(images),
            **fields,
        }
        response = await self._transport.request("POST", "/v1/dialogues", json=body)
        if response.status_code == httpx2.codes.OK:
            return read(DialogueResult, response.json())
        job = AsyncDialogue(self._transport, read(QueuedDialogue, response.json()))
        return await job.wait(progress=progress)

    async def batch(
        self,
        /,
        model: str,
        dialogues: Sequence[Mapping[str, Any]],
        *,
        progress: bool = True,
        **fields: Any,
    ) -> BatchResult:
        """Hold many dialogues as one run, and wait for their scores, deltas and attribution.

        A dialogue has `turns` and `images` as in `dialogue`, and optionally an `id` and a
        `caption`. `fields` are those of `/v1/dialogues:batch`, such as `conditions` and `judge`.
        Raises `ServiceError` if the run fails or is stopped.
        """
        said = [
            {**each, "turns": [await self._turn(turn) for turn in each["turns"]]}
            | ({"images": await self._names(each["images"])} if "images" in each else {})
            for each in dialogues
        ]
        body = {"model": model, "dialogues": said, **fields}
        posted = await self._transport.json("POST", "/v1/dialogues:batch", json=body)
        run = AsyncRun(self._transport, read(RunInfo, posted["run"]))
        info = await run.wait(progress=progress)
        if info.state != "done":
            raise ServiceError(f"{info.id} is {info.state}; batch() with the same resumes it")
        tables = {table.name: table for table in await run.tables()}
        return BatchResult(
            run=info,
            scores=tables.get("scores"),
            deltas=tables.get("deltas"),
            attribution=tables.get("attribution_net"),
        )

    async def dialogue_by_id(self, dialogue_id: str) -> AsyncDialogue:
        """A dialogue that became a job."""
        info = await self._transport.get(QueuedDialogue, _path("dialogues", dialogue_id))
        return AsyncDialogue(self._transport, info)

    async def dialogues(self, /, **chosen: str) -> AsyncIterator[AsyncDialogue]:
        """Dialogues that became jobs, newest first: the token's own, for an admin all.

        `chosen` are `state` and `model`.
        """
        async for info in self._transport.pages(DialogueInfo, "/v1/dialogues", chosen):
            yield AsyncDialogue(self._transport, info)

    async def judge(
        self,
        /,
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
            "sample": await self._uploaded(sample),
            "replies": {"turn_1": replies} if isinstance(replies, str) else dict(replies),
            **fields,
        }
        return read(Judgement, await self._transport.json("POST", "/v1/judgements", json=body))

    async def start(
        self, /, data: str, models: Mapping[str, str], *, key: str | None = None, **fields: Any
    ) -> AsyncRun:
        """Start a run of a benchmark over a dataset, or find the equal one.

        `models` maps candidate and judge to models. `key` is an idempotency key, by default a new
        one. `fields` are those of `/v1/runs`, such as `options` and `limit`.
        """
        body = {"data": data, "models": dict(models), **fields}
        headers = {"Idempotency-Key": key or uuid4().hex}
        info = await self._transport.json("POST", "/v1/runs", json=body, headers=headers)
        return AsyncRun(self._transport, read(RunInfo, info))

    async def run(self, run_id: str) -> AsyncRun:
        """A run by its id."""
        info = await self._transport.get(RunInfo, _path("runs", run_id))
        return AsyncRun(self._transport, info)

    async def runs(self, /, **chosen: str) -> AsyncIterator[AsyncRun]:
        """Runs, newest first; `chosen` are `state`, `benchmark` and `model`."""
        async for info in self._transport.pages(RunInfo, "/v1/runs", chosen):
            yield AsyncRun(self._transport, info)

    async def compare(self, *runs: str, despite: Sequence[str] = ()) -> ComparedTables:
        """Finished runs side by side, the baseline first; `despite` names what may differ."""
        params = {"runs": ",".join(runs), "despite": list(despite)}
        return await self._transport.get(ComparedTables, "/v1/compare", params=params)

    async def leaderboard(
        self, *runs: str, sort: str | None = None, despite: Sequence[str] = ()
    ) -> RankedTables:
        """Finished runs, the best first by the column `sort`; `despite` as in `compare`."""
        params = {"runs": ",".join(runs), "despite": list(despite)}
        params |= {} if sort is None else {"sort": sort}
        return await self._transport.get(RankedTables, "/v1/leaderboard", params=params)

    async def _turn(self, turn: str | Mapping[str, Any]) -> Mapping[str, Any]:
        if isinstance(turn, str):
            return {"instruction": turn}
        if "images" not in turn:
            return turn
        return {**turn, "images": await self._names(turn["images"])}

    async def _uploaded(self, value: Any) -> Any:
        """The value with names in the place of images."""
        if isinstance(value, Path | bytes | StoredImage | OwnImage):
            return await self._name(value)
        if isinstance(value, Mapping):
            return {name: await self._uploaded(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [await self._uploaded(item) for item in value]
        return value

    async def _names(self, images: ImageFile | Sequence[ImageFile]) -> list[str]:
        """The images' names in requests. Those that the server has not stored are uploaded."""
        if isinstance(images, str | Path | bytes | StoredImage | OwnImage):
            images = [images]
        return [await self._name(image) for image in images]

    async def _name(self, image: ImageFile) -> str:
        if isinstance(image, StoredImage | OwnImage):
            return image.name
        if isinstance(image, str) and image.startswith("image:"):
            return image
        return (await self.upload(image)).name


class AsyncClient(Calls):
    """`Client` for event loops: the same methods as coroutines and asynchronous iterators."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = 600.0,
        patience: float = 60.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        http = httpx2.AsyncClient(**settings(url, token, timeout), transport=transport)
        super().__init__(Transport(http, patience))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Client(Blocking[Calls]):
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
        http = httpx2.Client(**settings(url, token, timeout), transport=transport)
        super().__init__(Calls(Transport(http, patience)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    close = blocking(Calls.aclose)
    models = blocking(Calls.models)
    data = blocking(Calls.data)
    send_data = blocking(Calls.send_data)
    remove_data = blocking(Calls.remove_data)
    prompts = blocking(Calls.prompts)
    upload = blocking(Calls.upload)
    image = blocking(Calls.image)
    images = iterating(Calls.images)
    remove_image = blocking(Calls.remove_image)
    chat = blocking(Calls.chat)
    dialogue = blocking(Calls.dialogue)
    batch = blocking(Calls.batch)
    dialogue_by_id = blocking(Calls.dialogue_by_id, Dialogue)
    dialogues = iterating(Calls.dialogues, Dialogue)
    judge = blocking(Calls.judge)
    start = blocking(Calls.start, Run)
    run = blocking(Calls.run, Run)
    runs = iterating(Calls.runs, Run)
    compare = blocking(Calls.compare)
    leaderboard = blocking(Calls.leaderboard)


def _read_file(path: str | Path) -> bytes:
    return Path(path).read_bytes()


def _path(kind: str, record_id: str) -> str:
    return f"/v1/{kind}/{quote(record_id, safe='')}"
