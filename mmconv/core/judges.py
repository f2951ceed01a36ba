"""The judges of a run: the role `judge`, and `judge_2`, `judge_3`, ... if there are several.

A run file may list them: `models: {judge: [gpt-4o, claude-sonnet-4-5]}`. All judge all answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeVar

JUDGE = "judge"

_FURTHER = re.compile(rf"{JUDGE}_(?:[2-9]|[1-9]\d+)")

Text = TypeVar("Text", bound=str)


def base_role(role: str) -> str:
    """The role that a benchmark declares: `judge` for `judge_2`, else the role itself."""
    return JUDGE if _FURTHER.fullmatch(role) else role


def split_call(call: str) -> tuple[str, str]:
    """The id of a judge's call without the role of a further judge, and that role or ""."""
    role, slash, name = call.partition("/")
    return (name, role) if slash and _FURTHER.fullmatch(role) else (call, "")


def judge_roles(roles: Iterable[Text]) -> list[Text]:
    """The roles of judges among these, `judge` first."""
    judges = [role for role in roles if base_role(role) == JUDGE]
    return sorted(judges, key=lambda role: int(role.partition("_")[2] or 1))


def list_judges(models: Mapping[str, Any]) -> str:
    """The labels of a run's judges: `a`, `a and b`, `a, b and c`; empty without any."""
    return list_labels([models[role].label for role in judge_roles(models)])


def list_labels(labels: Sequence[str]) -> str:
    """Names as a text lists them."""
    return " and ".join(filter(None, (", ".join(labels[:-1]), *labels[-1:])))


def spread_judges(document: Any) -> Any:
    """A run with a role for each judge of a list; `ValueError` if one of them has a role too."""
    models = document.get("models") if isinstance(document, Mapping) else None
    judges = models.get(JUDGE) if isinstance(models, Mapping) else None
    if models is None or not isinstance(judges, list) or not judges:
        return document
    roles = [JUDGE, *(f"{JUDGE}_{number}" for number in range(2, len(judges) + 1))]
    others = {role: model for role, model in models.items() if role != JUDGE}
    if twice := judge_roles(others):
        raise ValueError(
            f"models.{twice[0]}: set twice, since models.{JUDGE} is a list; use one of them"
        )
    fields = {**document, "models": {**others, **dict(zip(roles, judges, strict=True))}}
    sampling = document.get("sampling")
    if isinstance(sampling, Mapping) and JUDGE in sampling:
        shared = {role: deepcopy(sampling[JUDGE]) for role in roles}
        fields["sampling"] = {**shared, **sampling}
    return fields
