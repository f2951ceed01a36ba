"""What calls ask, as texts, for tests of plans."""

from mmconv.core.types import Message, Ref, Text


def text(message: Message) -> str:
    """A message without its pictures, `<id>` where the text of a call will stand."""
    return "".join(
        part.text if isinstance(part, Text) else f"<{part.call}>"
        for part in message.parts
        if isinstance(part, Text | Ref)
    )
