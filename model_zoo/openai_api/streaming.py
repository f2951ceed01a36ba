"""A streamed chat completion, put together as the body of one that is not streamed.

So `replies` reads both, and a failure in a stream is found as any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from mmconv.core.errors import Transient
from mmconv.core.protocols import Listen
from model_zoo.openai_api.replies import load_json
from model_zoo.reasoning import ReplyPieces

_THOUGHTS = ("reasoning_content", "reasoning")

_ORIGIN = ("model", "provider", "system_fingerprint", "usage", "error")


class StreamedCompletion:
    """Reads the events of a stream; `listen` gets the text and the reasoning in them."""

    def __init__(self, listen: Listen) -> None:
        self._pieces = ReplyPieces(listen)
        self._rest = b""
        self._document: dict[str, Any] = {}
        self._choice: dict[str, Any] = {}
        self._content: list[Any] = []
        self._thoughts = ""
        self._refusal = ""
        self._logprobs: list[Any] = []
        self._is_ended = False

    def feed(self, data: bytes) -> None:
        """Read the next bytes; raises `Transient` if they are not JSON."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            name, _, value = line.partition(b":")
            if name == b"data" and value.strip() == b"[DONE]":
                self._is_ended = True
            elif name == b"data":
                self._read(value)

    def body(self) -> bytes:
        """The completion as JSON; raises `Transient` if the stream has ended too early."""
        if not (self._is_ended or self._choice.get("finish_reason") or "error" in self._document):
            raise Transient("connection", "the stream ended before the reply was complete")
        if not self._choice or "error" in self._document:
            return orjson.dumps(self._document)
        message: dict[str, Any] = {"content": _joined(self._content), "refusal": self._refusal}
        if self._thoughts:
            message["reasoning_content"] = self._thoughts
        logprobs = {"content": self._logprobs} if self._logprobs else None
        choice = self._choice | {"message": message, "logprobs": logprobs}
        return orjson.dumps(self._document | {"choices": [choice]})

    def _read(self, value: bytes) -> None:
        try:
            chunk = load_json(value)
            self._document |= {name: chunk[name] for name in _ORIGIN if chunk.get(name)}
            for choice in chunk.get("choices") or ():
                self._read_choice(choice)
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise Transient("malformed", "a chunk of the stream is not one of a reply") from error

    def _read_choice(self, choice: Mapping[str, Any]) -> None:
        self._choice |= {
            name: choice[name] for name in ("finish_reason", "error") if choice.get(name)
        }
        self._choice.setdefault("finish_reason", None)
        self._logprobs += (choice.get("logprobs") or {}).get("content") or ()
        delta = choice.get("delta") or {}
        thoughts = next((delta[name] for name in _THOUGHTS if delta.get(name)), "")
        content = delta.get("content")
        self._refusal += delta.get("refusal") or ""
        if isinstance(thoughts, str):
            self._thoughts += thoughts
        if content:
            self._content += [content] if isinstance(content, str) else content
        if thoughts or content:
            others = self._thoughts or None
            text = "".join([part for part in self._content if isinstance(part, str)])
            self._pieces.grow(text, others)


def _joined(content: list[Any]) -> Any:
    if not content:
        return None
    if all(isinstance(part, str) for part in content):
        return "".join(content)
    return [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
