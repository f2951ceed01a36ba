"""A loopback server with the batch APIs of OpenAI and Anthropic, and a clock of its own.

It keeps to the published protocols as far as mmconv uses them. A batch of OpenAI's is checked for a
minute; a batch ends after `hours`, or after 24 hours if a request in it takes longer. What happens
to a request is named in its prompt: `fail`, `refuse` or `expire`, else it is answered.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import time
from typing import Any

import orjson
from aiohttp import web
from aiohttp.test_utils import TestServer

CHECKED, EXPIRED = 60.0, 86_400.0


@dataclass
class Batch:
    id: str
    created: float
    requests: dict[str, Any]
    metadata: Any = None
    size: int = 0
    cancelled: bool = False
    full: bool = False
    wrong: str = ""


@dataclass
class BatchServer:
    """`paid` counts the answers by prompt; `most` bounds the requests in open batches."""

    now: float = field(default_factory=time)
    hours: float = 1.0
    most: int = 1_000_000
    batches: list[Batch] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    paid: Counter[str] = field(default_factory=Counter)
    refusals: list[int] = field(default_factory=list)
    """Statuses that the next requests for a new batch get."""
    looks_refused: int = 0
    """How many of the next looks at a batch are refused, as with a key that was revoked."""
    drop_answer: bool = False
    """Whether the connection breaks after a new batch was created."""
    wrong: str = ""
    """An error's code that makes every new batch of OpenAI's fail."""
    say: Callable[[Mapping[str, Any]], str] = lambda body: f"to {_prompt(body)}"
    """Writes the answer to a request."""
    hits: int = 0
    created: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    def time(self) -> float:
        return self.now

    @web.middleware
    async def _count(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.hits += 1
        answer: web.StreamResponse = await handler(request)
        return answer

    def cancel(self) -> None:
        self.batches[-1].cancelled = True

    def _is_open(self, batch: Batch) -> bool:
        return not batch.full and not batch.wrong and self._status(batch) not in ENDS

    def _status(self, batch: Batch) -> str:
        age = self.time() - batch.created
        slow = any(_fate(body) == "expire" for body in batch.requests.values())
        if age < CHECKED:
            return "validating"
        if batch.full or batch.wrong:
            return "failed"
        if batch.cancelled:
            return "cancelled"
        if age < (EXPIRED if slow else 3600 * self.hours):
            return "in_progress"
        return "expired" if slow else "completed"

    async def create(self, requests: dict[str, Any], metadata: Any = None) -> Batch:
        if self.refusals:
            status = self.refusals.pop(0)
            body = orjson.dumps({"error": {"type": "x", "message": "later"}}).decode()
            raise {429: web.HTTPTooManyRequests, 400: web.HTTPBadRequest}[status](
                text=body, content_type="application/json"
            )
        taken = sum(len(batch.requests) for batch in self.batches if self._is_open(batch))
        batch = Batch(f"batch_{len(self.batches)}", self.time(), requests, metadata, len(requests))
        batch.full, batch.wrong = taken + batch.size > self.most, self.wrong
        self.batches.append(batch)
        self.created.set()
        if not batch.full and not batch.wrong:
            self.paid.update(_prompt(body) for body in requests.values() if not _fate(body))
        return batch

    def _find(self, request: web.Request) -> Batch:
        if self.looks_refused:
            self.looks_refused -= 1
            raise web.HTTPUnauthorized(text='{"error": {"message": "no such key"}}')
        for batch in self.batches:
            if batch.id == request.match_info["id"]:
                return batch
        raise web.HTTPNotFound(text='{"error": {"message": "no such batch"}}')

    def _page(self, request: web.Request, after: str) -> tuple[list[Batch], bool]:
        ordered = self.batches[::-1]
        ids = [batch.id for batch in ordered]
        start = ids.index(request.query[after]) + 1 if after in request.query else 0
        end = start + min(2, int(request.query["limit"]))  # short, so that there are several
        return ordered[start:end], end < len(ordered)

    async def _break_off(self, request: web.Request) -> None:
        if self.drop_answer:
            self.drop_answer = False
            assert request.transport is not None
            request.transport.close()

    # OpenAI

    async def upload(self, request: web.Request) -> web.Response:
        # aiohttp's own parser of forms warns of itself
        boundary = request.headers["content-type"].split("boundary=")[1].encode()
        parts = (await request.read()).split(b"--" + boundary)[1:-1]
        form = {
            head: data[:-2] for head, _, data in (part.partition(b"\r\n\r\n") for part in parts)
        }
        [purpose] = [data for head, data in form.items() if b'name="purpose"' in head]
        [lines] = [data for head, data in form.items() if b'name="file"' in head]
        assert purpose == b"batch"
        name = f"file-{len(self.files)}"
        self.files[name] = lines
        return web.json_response({"id": name, "object": "file", "purpose": "batch"})

    async def create_openai(self, request: web.Request) -> web.Response:
        document = await request.json()
        assert document["completion_window"] == "24h"
        lines = [orjson.loads(line) for line in self.files[document["input_file_id"]].splitlines()]
        assert {(line["method"], line["url"]) for line in lines} == {("POST", document["endpoint"])}
        bodies = {line["custom_id"]: line["body"] for line in lines}
        assert len(bodies) == len(lines)
        batch = await self.create(bodies, document["metadata"])
        await self._break_off(request)
        return web.json_response(self._openai(batch))

    async def get_openai(self, request: web.Request) -> web.Response:
        return web.json_response(self._openai(self._find(request)))

    async def list_openai(self, request: web.Request) -> web.Response:
        page, more = self._page(request, "after")
        data = [self._openai(batch) for batch in page]
        return web.json_response({"object": "list", "data": data, "has_more": more})

    def _openai(self, batch: Batch) -> dict[str, Any]:
        status = self._status(batch)
        code = "token_limit_exceeded" if batch.full else batch.wrong
        problem = {"code": code, "message": f"it failed: {code}", "line": None, "param": None}
        errors = {"object": "list", "data": [problem]} if status == "failed" else None
        has_files = status in {"completed", "expired", "cancelled"}
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "created_at": int(batch.created),
            "input_file_id": "file-0",
            "status": status,
            "errors": errors,
            "metadata": batch.metadata,
            "output_file_id": f"out-{batch.id}" if has_files else None,
            "error_file_id": f"err-{batch.id}" if has_files else None,
        }

    async def content(self, request: web.Request) -> web.Response:
        kind, _, name = request.match_info["id"].partition("-")
        [batch] = [batch for batch in self.batches if batch.id == name]
        lines = []
        for key, body in batch.requests.items():
            fate = "cancel" if batch.cancelled else _fate(body)
            line: dict[str, Any] = {"id": "x", "custom_id": key, "response": None, "error": None}
            match fate:
                case "expire":
                    line["error"] = {"code": "batch_expired", "message": "not executed in time"}
                case "cancel":
                    line["error"] = {"code": "batch_cancelled", "message": "cancelled"}
                case _:
                    line["response"] = _completion(body, fate, self.say(body))
            if (kind == "out") == (fate == ""):
                lines.append(orjson.dumps(line))
        return web.Response(body=b"\n".join(lines))

    # Anthropic

    async def create_anthropic(self, request: web.Request) -> web.Response:
        document = await request.json()
        entries = document["requests"]
        bodies = {entry["custom_id"]: entry["params"] for entry in entries}
        assert len(bodies) == len(entries)
        batch = await self.create(bodies)
        await self._break_off(request)
        return web.json_response(self._anthropic(batch))

    async def get_anthropic(self, request: web.Request) -> web.Response:
        return web.json_response(self._anthropic(self._find(request)))

    async def list_anthropic(self, request: web.Request) -> web.Response:
        page, more = self._page(request, "after_id")
        ids = {"first_id": page[0].id, "last_id": page[-1].id} if page else {}
        data = [self._anthropic(batch) for batch in page]
        return web.json_response({"data": data, "has_more": more, **ids})

    def _anthropic(self, batch: Batch) -> dict[str, Any]:
        ended = self._status(batch) in ENDS
        # all requests are `processing` until the whole batch has ended
        kinds = ("processing", "succeeded", "errored", "canceled", "expired")
        counts = dict.fromkeys(kinds, 0) | {"succeeded" if ended else "processing": batch.size}
        moment = datetime.fromtimestamp(batch.created, UTC).isoformat()
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": counts,
            "created_at": moment,
            "expires_at": moment,
            "results_url": f"{self.url}v1/messages/batches/{batch.id}/results" if ended else None,
        }

    async def results(self, request: web.Request) -> web.Response:
        batch = self._find(request)
        lines = []
        for key, body in batch.requests.items():
            fate = "cancel" if batch.cancelled else _fate(body)
            kind = {"": "succeeded", "cancel": "canceled", "expire": "expired"}.get(fate, "errored")
            result: dict[str, Any] = {"type": kind}
            if kind == "succeeded":
                result["message"] = _message(body, self.say(body))
            elif kind == "errored":
                name = "api_error" if fate == "fail" else "invalid_request_error"
                error = {"type": name, "message": fate}
                result["error"] = {"type": "error", "request_id": "x", "error": error}
            lines.append(orjson.dumps({"custom_id": key, "result": result}))
        return web.Response(body=b"\n".join(lines), content_type="application/x-jsonl")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Serve; gives the URL."""
        app = web.Application(client_max_size=2**28, middlewares=[self._count])
        app.add_routes(
            [
                web.post("/v1/files", self.upload),
                web.get("/v1/files/{id}/content", self.content),
                web.post("/v1/batches", self.create_openai),
                web.get("/v1/batches", self.list_openai),
                web.get("/v1/batches/{id}", self.get_openai),
                web.post("/v1/messages/batches", self.create_anthropic),
                web.get("/v1/messages/batches", self.list_anthropic),
                web.get("/v1/messages/batches/{id}", self.get_anthropic),
                web.get("/v1/messages/batches/{id}/results", self.results),
            ]
        )
        async with TestServer(app, host="127.0.0.1") as server:
            self.url = str(server.make_url("/"))
            yield self.url


ENDS = frozenset({"completed", "expired", "cancelled", "failed"})


def _prompt(body: Mapping[str, Any]) -> str:
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else str(content[-1]["text"])


def _fate(body: Mapping[str, Any]) -> str:
    words = _prompt(body).split()
    return words[0] if words[0] in {"fail", "refuse", "expire"} else ""


def _completion(body: Mapping[str, Any], fate: str, text: str) -> dict[str, Any]:
    if fate:
        status = 500 if fate == "fail" else 400
        return {"status_code": status, "request_id": "x", "body": {"error": {"message": fate}}}
    message = {"role": "assistant", "content": text}
    document = {
        "id": "x",
        "object": "chat.completion",
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100},
    }
    return {"status_code": 200, "request_id": "x", "body": document}


def _message(body: Mapping[str, Any], text: str) -> dict[str, Any]:
    return {
        "id": "x",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1000, "output_tokens": 100},
    }
