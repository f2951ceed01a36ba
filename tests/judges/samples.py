"""The samples that fill the shipped prompts, and how a filled prompt is printed.

Each benchmark has a module `prompts_<name>` beside this one with `SLOTS` (folder -> prompt ->
slots) and `VALUES` (slot -> what fills it); they are found by their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from judges.template import Prompt, PromptSet, Slot
from mmconv.core.types import Image, Message, Part, Text

GOLDEN = Path(__file__).parent / "golden"

Slots = Mapping[str, Mapping[str, frozenset[str]]]


def samples() -> Iterator[tuple[Slots, Mapping[str, Slot]]]:
    """`SLOTS` and `VALUES` of every benchmark."""
    for path in sorted(Path(__file__).parent.glob("prompts_*.py")):
        module = import_module(f"tests.judges.{path.stem}")
        yield module.SLOTS, module.VALUES


SLOTS: dict[str, Mapping[str, frozenset[str]]] = {
    folder: names for slots, _ in samples() for folder, names in slots.items()
}
"""The slots that each shipped prompt has, and that a benchmark fills, by folder."""

_VALUES = {folder: values for slots, values in samples() for folder in slots}


def prompts() -> list[tuple[str, Prompt]]:
    """Every shipped prompt with its folder's name."""
    return [
        (benchmark, PromptSet(benchmark)[name])
        for benchmark, names in SLOTS.items()
        for name in names
    ]


def rendered(folder: str, prompt: Prompt) -> str:
    """The filled prompt as text, one block per message."""
    return printed(prompt.fill({name: _VALUES[folder][name] for name in prompt.slots}))


def printed(messages: Sequence[Message]) -> str:
    """Messages as text: their roles between rules, a picture or a reply to come in brackets."""
    blocks = (
        f"======== {message.role}\n{''.join(_shown(part) for part in message.parts)}"
        for message in messages
    )
    return "\n".join(blocks) + "\n"


def _shown(part: Part) -> str:
    if isinstance(part, Text):
        return part.text
    return f"[image {part.sha256[:8]}]" if isinstance(part, Image) else f"[reply of {part.call}]"
