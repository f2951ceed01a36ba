"""The operator's limits on what a request holds: long texts, long lists, many tokens.

What types cannot tell, since the limits are settings. Images are bounded where they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import BaseModel

from mmconv.dialogues.request import DialogueRequest
from mmconv.service.errors.problems import Problem
from mmconv.service.settings import Sizes

HOTTEST = 2.0
"""The highest temperature that may be asked for."""

LONG_TEXTS = 10
"""All texts of a request together may be so many times as long as one."""

MOST_PLANNED = 500_000_000
"""Characters of all prompts that a dialogue may lead to, as far as the request tells."""

IMAGES = frozenset({"image", "images", "image_url"})
"""The fields that hold images, as `image:<id>`, data URIs or addresses."""


def check_bounds(request: BaseModel, sizes: Sizes) -> None:
    """Raise `Problem` 413 for a text or list that is too long, 400 for too many tokens or too hot.

    Only what the client has set is looked at: defaults are ours.
    """
    total = 0
    for param, value in _values("", request):
        if isinstance(value, str):
            total += len(value)
            if len(value) > sizes.text_length:
                raise Problem(
                    413, f"{param}: at most {sizes.text_length:,} characters", param=param
                )
        elif isinstance(value, tuple | list):
            if len(value) > sizes.turns:
                raise Problem(413, f"{param}: at most {sizes.turns} are read", param=param)
        elif param.endswith("temperature"):
            check_temperature(value, param)
        elif param.endswith(("max_tokens", "max_completion_tokens")):
            check_tokens(value, sizes, param)
    if total > LONG_TEXTS * sizes.text_length:
        raise Problem(413, f"all texts together: at most {LONG_TEXTS * sizes.text_length:,}")


def check_tokens(value: object, sizes: Sizes, param: str) -> None:
    """Raise `Problem` 400 for more tokens than a client may ask for."""
    if isinstance(value, int) and value > sizes.max_tokens:
        raise Problem(400, f"{param}: at most {sizes.max_tokens:,} may be asked for", param=param)


def check_temperature(value: float, param: str) -> None:
    """Raise `Problem` 400 for a temperature that hosted models refuse."""
    if value > HOTTEST:
        raise Problem(400, f"{param}: at most {HOTTEST:g} may be asked for", param=param)


def check_volume(request: DialogueRequest) -> None:
    """Raise `Problem` 413 where the prompts would be too long: a judge of each turn reads all."""
    length = sum(
        len(turn.instruction) + len(turn.reference or "") + len(turn.focus_points or "")
        for turn in request.turns
    )
    judged = 0 if request.judge is None else len(request.gradings) + (request.order == "both")
    prompts = len(request.given) * len(request.turns) * (1 + judged)
    if length * prompts > MOST_PLANNED:
        raise Problem(413, "turns: too much text for so many turns and conditions", param="turns")


def refuse_faults(faults: Iterable[tuple[str, str]]) -> None:
    """Raise `Problem` 400 for the first of a request's faults: a field, and what is wrong."""
    for param, message in faults:
        raise Problem(400, f"{param}: {message}", param=param)


def _values(
    param: str, value: object
) -> Iterator[tuple[str, str | float | tuple[object, ...] | list[object]]]:
    """Every text, list and number that a request sets, with its field."""
    if isinstance(value, str | int | float | tuple | list):
        yield param, value
    if isinstance(value, tuple | list):
        for place, each in enumerate(value):
            yield from _values(f"{param}[{place}]", each)
    elif isinstance(value, BaseModel):
        for name, each in value:
            if name in value.model_fields_set - IMAGES:
                yield from _values(f"{param}.{name}" if param else name, each)
