"""What models without weights share: counted replies, and that nothing needs closing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mmconv.core.types import Message, Reply, SeenImage


class Offline:
    """The base of backends without a connection."""

    async def aclose(self) -> None:
        """Nothing needs closing."""


def counted(
    text: str, prompt: Iterable[str], messages: Sequence[Message], seconds: float = 0.0
) -> Reply:
    """A reply whose tokens are words, and that has seen every image as it is."""
    return Reply(
        text=text,
        input_tokens=sum(len(line.split()) for line in prompt),
        output_tokens=len(text.split()),
        seconds=seconds,
        seen=tuple(
            SeenImage(sha256=image.sha256, width=image.width, height=image.height)
            for message in messages
            for image in message.images
        ),
    )
