"""The shipped prompts: their slots, what they send, and what their verdict lines are read as."""

from importlib import resources

import pytest

from judges.parsers import extracted_choice, extracted_rating
from judges.template import Prompt, PromptSet
from mmconv.core.errors import Unparsed
from mmconv.core.types import Parser, Text
from tests.judges.samples import GOLDEN, VALUES, prompts, rendered

PROMPTS = [
    pytest.param(folder, prompt, id=f"{folder}/{prompt.name}") for folder, prompt in prompts()
]


@pytest.mark.parametrize(("folder", "prompt"), PROMPTS)
def test_golden(folder: str, prompt: Prompt) -> None:
    golden = (GOLDEN / folder / f"{prompt.name}.txt").read_text(encoding="utf-8")
    assert rendered(folder, prompt) == golden, (
        "run `python -m tests.judges.regenerate` and read the diff"
    )


def test_every_prompt_has_a_golden_file() -> None:
    written = {f"{file.parent.name}/{file.stem}" for file in GOLDEN.glob("*/*.txt")}
    assert written == {f"{folder}/{prompt.name}" for folder, prompt in prompts()}
    folders = (path for path in (resources.files("judges") / "prompts").iterdir() if path.is_dir())
    assert {path.name for path in folders} == VALUES.keys()


@pytest.mark.parametrize(
    ("name", "parser", "expected"),
    [
        ("pairwise_extract", extracted_choice, ["A", "B", None]),
        ("direct_extract", extracted_rating, [8, 4, None]),
    ],
)
def test_the_examples_are_read_as_they_are_meant(
    name: str, parser: Parser, expected: list[str | float | None]
) -> None:
    shown = [
        "".join(part.text for part in message.parts if isinstance(part, Text))
        for message in PromptSet("convbench")[name].messages
        if message.role == "assistant"
    ]
    assert [_read(parser, text) for text in shown] == expected


def _read(parser: Parser, text: str) -> str | float | None:
    try:
        verdict = parser(text)
    except Unparsed:
        return None
    return verdict.label or verdict.scores["rating"]
