"""The size of the code is a test: files of at most 500 lines, functions of at most 50."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("mmconv", "model_zoo", "judges", "images", "tests")
FILE_LINES = 500
FUNCTION_LINES = 50

LONGER: dict[str, str] = {}
"""`path` or `path::function` -> why it may be longer."""


def files() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def long_functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield node.name, lines


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_are_short(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    length = len(path.read_text(encoding="utf-8").splitlines())
    assert length <= FILE_LINES or name in LONGER, f"{name} has {length} lines"
    for function, lines in long_functions(path):
        assert f"{name}::{function}" in LONGER, f"{name}: {function} has {lines} lines"


def test_every_exception_is_still_needed() -> None:
    for name in LONGER:
        path, _, function = name.partition("::")
        lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
        if function:
            assert function in dict(long_functions(ROOT / path)), f"{name} is short now"
        else:
            assert len(lines) > FILE_LINES, f"{name} is short now"
