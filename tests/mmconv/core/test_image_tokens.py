"""The tokens that an image takes, as providers' pages work them out."""

from typing import Any

import pytest
from pydantic import ValidationError

from mmconv.core.config import ImageTokens, load_model


@pytest.mark.parametrize(
    ("model", "size", "tokens"),
    [
        ("gpt-4o", (1024, 1024), 765),
        ("gpt-4o", (2048, 4096), 1105),
        ("gpt-4o", (512, 512), 255),
        ("gpt-4o", (3000, 1000), 85 + 170 * 4 * 2),
        ("gpt-4o", (2184, 1092), 85 + 170 * 3 * 2),
        ("gpt-4o", (20_000, 100), 85 + 170 * 4),
        ("gpt-4o-mini", (1024, 1024), 25_501),
        ("claude-haiku-4.5", (200, 200), 64),
        ("claude-haiku-4.5", (1092, 1092), 1521),
        ("claude-haiku-4.5", (1568, 1176), 1568),
        ("claude-sonnet-5", (1920, 1080), 2691),
        ("claude-sonnet-5", (2576, 2576), 4784),
        ("qwen2.5-vl-7b", (1120, 840), 1200),
        ("qwen3-vl-8b", (1024, 1024), 1024),
        ("qwen2-vl-2b", (5000, 4000), 16_384),
        ("qwen2.5-vl-72b-vllm", (5000, 4000), 16_384),
        ("qwen3-vl-8b", (5000, 4000), 16_384),
        ("llava-1.5-7b", (4000, 3000), 576),
    ],
)
def test_models_count_as_their_files_say(model: str, size: tuple[int, int], tokens: int) -> None:
    rule = load_model(model).about.image_tokens
    assert rule is not None
    assert rule.count(*size) == tokens


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"each": 576}, "576"),
        ({"patch": 28, "most": 1568}, "one for each 28 x 28 pixels, at most 1,568"),
        ({"each": 2833, "tile": 5667}, "2,833 and 5,667 for each tile of 512 x 512 pixels"),
    ],
)
def test_a_rule_is_told(fields: dict[str, Any], message: str) -> None:
    assert str(ImageTokens(**fields)) == message


@pytest.mark.parametrize("fields", [{}, {"most": 9}, {"each": 0}])
def test_a_rule_that_counts_nothing_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="set each, patch or tile"):
        ImageTokens(**fields)
