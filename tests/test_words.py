"""STYLE.md's worst words are a test: the count per file in `words_budget.json` may only fall.

`python -m tests.test_words` lowers the budget to what is left after some words were replaced.
"""

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BUDGET = Path(__file__).with_name("words_budget.json")
PLACES = ("mmconv", "model_zoo", "judges", "images", "configs", "docker")
SUFFIXES = {".py", ".md", ".yaml"}

WORDS = re.compile(r"\b(told|tells?|whoever|anew|nobody)\b|\b(is|are)\s+no\s+[a-z]", re.IGNORECASE)

EXEMPT = {"judges/prompts": "prompts are sent to models to the byte"}
"""Folder or file -> why its strings may have these words."""


def files() -> list[str]:
    found = [path for place in PLACES for path in (ROOT / place).rglob("*")]
    found += ROOT.glob("*.md")
    names = [path.relative_to(ROOT).as_posix() for path in found if path.suffix in SUFFIXES]
    return sorted(name for name in names if not name.startswith(tuple(EXEMPT)))


def prose(name: str) -> Iterator[tuple[int, str]]:
    """The line and the text of each string, docstring and comment; a file of text is one."""
    text = (ROOT / name).read_text(encoding="utf-8")
    if not name.endswith(".py"):
        yield 1, text
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def places(name: str) -> list[str]:
    """Where the words are, as `file:line: words`; of a folded string the line may be near it."""
    return [
        f"{name}:{line + text.count(chr(10), 0, match.start())}: {' '.join(match[0].split())}"
        for line, text in prose(name)
        for match in WORDS.finditer(text)
    ]


def budget() -> dict[str, int]:
    counts: dict[str, int] = json.loads(BUDGET.read_text(encoding="utf-8"))
    return counts


@pytest.mark.parametrize("name", files())
def test_no_file_has_more_of_the_words_than_its_budget(name: str) -> None:
    found, allowed = places(name), budget().get(name, 0)
    listed = "\n".join(found)
    assert len(found) <= allowed, (
        f"{name} has {len(found)} of the words that STYLE.md bans, at most {allowed} are allowed; "
        f"use its plain words instead:\n{listed}"
    )


def test_every_budget_is_that_of_a_file() -> None:
    assert budget().keys() <= {*files()}, "run python -m tests.test_words"


if __name__ == "__main__":
    old = budget() if BUDGET.exists() else dict.fromkeys(files(), 10**9)
    new = {name: min(len(places(name)), old.get(name, 0)) for name in files()}
    left = {name: count for name, count in new.items() if count}
    BUDGET.write_text(json.dumps(left, indent=1) + "\n", encoding="utf-8")
    print(f"{sum(left.values())} words are left in {len(left)} files")  # noqa: T201
