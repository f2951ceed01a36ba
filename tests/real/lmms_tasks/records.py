"""What lmms-eval calls to turn a record into a prompt; it runs in an environment of its own."""

from typing import Any

from PIL import Image


def pictures(record: dict[str, Any]) -> list[Image.Image]:
    """The record's picture, in the colours of its file."""
    with Image.open(record["image"]) as picture:
        picture.load()
        return [picture]


def question(record: dict[str, Any]) -> str:
    """The first turn's text."""
    return str(record["question"])


def dialogue(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages up to the second turn."""
    [picture] = pictures(record)
    shown = [{"type": "image", "url": picture}, {"type": "text", "text": question(record)}]
    return [
        {"role": "user", "content": shown},
        {"role": "assistant", "content": [{"type": "text", "text": record["answer"]}]},
        {"role": "user", "content": [{"type": "text", "text": record["next"]}]},
    ]


def measure(record: dict[str, Any], answers: list[str]) -> dict[str, float]:
    """lmms-eval wants a metric; the test reads the answers themselves."""
    return {"characters": float(len(answers[0]))}
