"""What lmms-eval calls for the task; it runs in an environment of its own."""

from typing import Any


def images(record: dict[str, Any]) -> list[Any]:
    """The question has none."""
    return []


def question(record: dict[str, Any]) -> str:
    """The text of the only turn."""
    return str(record["turns"][0]["instruction"])


def measure(record: dict[str, Any], answers: list[str]) -> dict[str, Any]:
    """A metric, and the sample's id for mmconv."""
    return {"characters": float(len(answers[0])), "id": record["id"]}


def nothing(values: list[Any]) -> float:
    """Ids have no mean."""
    return 0.0
