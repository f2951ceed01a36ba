"""Provider `scenes`: an offline judge of answers about drawn scenes, which knows what is true.

It reads the machine-readable prompts of `judges/prompts/convbench_reference`, as the provider
`reference` does, and compares answers with the truth fact by fact (`images.scenes.check`). It
judges data sets that `mmconv scenes` wrote and nothing else, and looks at no picture.

- Direct grading holds an answer against the reference: 10 where its facts are exact, else 1 plus 9
  times the share of right facts among all that were wanted or told, rounded, at most 9. The whole
  conversation is rated so by the mean share of its turns, and 10 only where every turn is exact.
- Pairwise grading must choose and is not told which side is the human's. The true answers are
  worked out from the description and the instructions; the side with the higher share of right
  facts wins. A tie (two exact answers, above all) is drawn by the SHA-256 of both texts, so that
  swapping the sides swaps the verdict and neither side is favoured: an exact model wins half.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from pydantic import BaseModel, ConfigDict

from images.scenes import Check, answer, check
from mmconv.config import ModelSpec, validate
from mmconv.errors import ConfigError
from mmconv.keys import hash_json
from mmconv.protocols import ImageSource
from mmconv.values import Message, Reply, Sampling
from model_zoo.judge_prompts import Task, draw_side, foreign, read_task, refuse_foreign

MODEL = "facts"
"""The one model of this provider."""

_REVISION = 1
"""Raised when the same messages would get another reply, so that keys change too."""

_TURNS = (1, 2, 3)
_JUDGE = "the judge of scenes"
_ADVICE = "It judges data sets that `mmconv scenes` wrote, with the prompts shipped for it"


class SceneJudgeOptions(BaseModel):
    """The provider has no options."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def fingerprint(spec: ModelSpec) -> str:
    """Hash of what decides a reply: the revision of this judge."""
    _check_spec(spec)
    return hash_json(["scenes", _REVISION, MODEL])


def check_prompt(messages: Sequence[Message]) -> None:
    """Raise `ConfigError` for messages that are no prompt of this judge's own, filled or not."""
    refuse_foreign(messages, _JUDGE, _ADVICE)


async def open_backend(spec: ModelSpec, images: ImageSource) -> SceneJudge:
    """The judge `scenes/facts`; `ConfigError` for any other model and for options."""
    _check_spec(spec)
    return SceneJudge(max_concurrency=spec.max_concurrency or 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneJudge:
    """A backend that judges by facts."""

    max_concurrency: int

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        """Judge once; the sampling is without effect.

        Raises `Refused` for messages that are no filled prompt of this judge's own, and for
        pairwise ones whose description or instructions are not in the language of scenes.
        """
        start = time.perf_counter()
        try:
            task = read_task(messages)
            text = _rate(task) if task.grading == "direct" else _choose(task)
        except KeyError as error:
            raise foreign(_JUDGE, f"slot {error} is missing", _ADVICE) from error
        except ValueError as error:
            raise foreign(_JUDGE, str(error), _ADVICE) from error
        return Reply(text=text, seconds=time.perf_counter() - start)

    async def aclose(self) -> None:
        """Nothing is held open."""


def rating(checks: Sequence[Check]) -> int:
    """The rating 1-10 of one or several turns, as the module's docstring tells it."""
    if all(each.exact for each in checks):
        return 10
    return min(int(1 + 9 * fmean(each.share for each in checks) + 0.5), 9)


def _rate(task: Task) -> str:
    references = {turn: task.texts[f"reference_{turn}"] for turn in task.turns}
    checks = _checks("answer", references, task)
    told = [_told(turn, each) for turn, each in zip(task.turns, checks, strict=True)]
    return "\n".join([*told, "", f"Rating: {rating(checks)}"])


def _choose(task: Task) -> str:
    first, second, third = (task.texts[f"instruction_{turn}"] for turn in _TURNS)
    true = answer(task.texts["caption"], (first, second, third))
    wanted = {turn: true[turn - 1] for turn in task.turns}
    sides = {side: _checks(side.lower(), wanted, task) for side in "AB"}
    a, b = (fmean(each.share for each in sides[side]) for side in "AB")
    winner, how = ("A" if a > b else "B", "") if a != b else (draw_side(task), _TIE)
    told = [
        f"Assistant {side}, {_told(turn, each)}"
        for side, checks in sides.items()
        for turn, each in zip(task.turns, checks, strict=True)
    ]
    return "\n".join([*told, "", f"{how}Overall, Response {winner} is better."])


_TIE = "Both are equally right, so this is drawn by the hash of the texts. "


def _checks(side: str, references: Mapping[int, str], task: Task) -> list[Check]:
    return [
        check(task.texts[f"{side}_{turn}"], reference, task.texts[f"instruction_{turn}"])
        for turn, reference in references.items()
    ]


def _told(turn: int, found: Check) -> str:
    """One line: how right a turn is, and which facts are right, missing and wrong."""
    if found.exact:
        return f"turn {turn}: all {len(found.right)} facts right ({'; '.join(found.right)})."
    parts = [
        f"{name}: {'; '.join(facts)}"
        for name, facts in (
            ("right", found.right),
            ("missing", found.missing),
            ("wrong", found.wrong),
        )
        if facts
    ]
    return f"turn {turn}: {found.share:.0%} of the facts. {'. '.join(parts)}."


def _check_spec(spec: ModelSpec) -> None:
    if spec.model != MODEL:
        raise ConfigError(f"no model scenes/{spec.model}; there is scenes/{MODEL}")
    validate(SceneJudgeOptions, spec.options, f"model {spec.label}: options")
