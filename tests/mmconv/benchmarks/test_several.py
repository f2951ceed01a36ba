"""Options that hold several values, as they are written in run files and on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import TypeAdapter, ValidationError

from mmconv.benchmarks.several import Several

NAMES: TypeAdapter[tuple[str, ...]] = TypeAdapter(Several[Literal["a", "b"]])


@pytest.mark.parametrize("written", ["a,b", "a, b", ["a", "b"], ("a", "b")])
def test_a_list_may_be_written_with_commas(written: Any) -> None:
    assert NAMES.validate_python(written) == ("a", "b")


def test_one_value_may_stand_alone() -> None:
    assert NAMES.validate_python("a") == ("a",)
    assert TypeAdapter(Several[int]).validate_python(8) == (8,)
    assert TypeAdapter(Several[int]).validate_python("8,16") == (8, 16)
    assert TypeAdapter(Several[Path]).validate_python("runs/x") == (Path("runs/x"),)


def test_another_value_is_refused() -> None:
    with pytest.raises(ValidationError, match="'a' or 'b'"):
        NAMES.validate_python("a,c")
