"""A model for tests that says something new each time: words drawn by a hash of what it reads.

`model` names it; `forgetful` has room for 60 words of conversation only, beside the prompt.
"""

from __future__ import annotations

from dataclasses import dataclass

from judges import PromptSet
from mmconv.core.config import ModelSpec
from mmconv.core.errors import Refused
from mmconv.core.keys import content_key
from mmconv.core.protocols import ImageSource
from mmconv.core.types import Message, Reply, Sampling, Text
from tests.messages import Messages

WORDS = ("rain", "bread", "train", "music", "friend", "garden", "letter", "summer", "coffee", "map")
ROOM = 60

[_MESSAGE] = PromptSet("botchat")["generate"].fill({})
PROMPT = _MESSAGE.text


def fingerprint(spec: ModelSpec) -> str:
    return f"speaker {spec.model}"


async def open_backend(spec: ModelSpec, images: ImageSource) -> Speaker:
    return Speaker(name=spec.model)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    name: str
    max_concurrency: int = 16

    async def generate(self, messages: Messages, sampling: Sampling, *, affinity: str) -> Reply:
        if self.name == "forgetful":
            begun = messages[0].parts[0]
            if not (isinstance(begun, Text) and begun.text.startswith(PROMPT)):
                raise Refused("rejected", "what am I to do?")
            if sum(map(_words, messages)) - len(PROMPT.split()) > ROOM:
                raise Refused("context", "more than I can keep in mind")
        drawn = content_key(self.name, messages, sampling)
        return Reply(text=" ".join(WORDS[int(drawn[place], 16) % 10] for place in range(8)))

    async def aclose(self) -> None:
        pass


def _words(message: Message) -> int:
    return sum(len(part.text.split()) for part in message.parts if isinstance(part, Text))
