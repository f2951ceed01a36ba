"""Provider `scenes`: an offline judge of answers about drawn scenes, fact by fact.

It reads the prompts of `judges/prompts/convbench_reference` for datasets of `mmconv scenes`,
compares answers with the truth (`images.scenes.check`) and looks at no image.

- Direct grading holds an answer against the reference: 10 if its facts are exact, else 1 plus 9
  times the share of right facts among all that were expected or stated, rounded, at most 9. The
  whole conversation is rated by the mean share of its turns, and 10 only if every turn is exact.
- Pairwise grading must choose and does not know which side is the human's. The true answers are
  worked out from the description and the instructions; the side with the higher share of right
  facts wins. Ties (two exact answers, above all) are drawn by `common.draw_side`, so that neither
  side is favoured: an exact model wins half.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from images.scenes import Check, answer, check
from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError
from mmconv.core.keys import hash_json
from mmconv.core.protocols import ImageSource
from model_zoo.base import Fields
from model_zoo.simulated.common import OfflineJudge, Task, draw_side

MODEL = "facts"
"""The one model of this provider."""

_REVISION = 1


class SceneJudgeOptions(Fields):
    """The judge of scenes has no options."""


def fingerprint(spec: ModelSpec) -> str:
    """Hash of what decides a reply: the revision of this judge."""
    if spec.model != MODEL:
        raise ConfigError(f"no model scenes/{spec.model}; there is scenes/{MODEL}")
    SceneJudgeOptions.of(spec)
    return hash_json(["scenes", _REVISION, MODEL])


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneJudge(OfflineJudge):
    """A backend that judges by facts."""

    name = "the judge of scenes"
    advice = "It judges datasets that `mmconv scenes` wrote, with the prompts shipped for it"

    def judge(self, task: Task) -> str:
        """The facts, then the verdict."""
        return _rate(task) if task.grading == "direct" else _choose(task)


check_prompt = SceneJudge.check_prompt


async def open_backend(spec: ModelSpec, images: ImageSource) -> SceneJudge:
    """The judge `scenes/facts`; `ConfigError` for any other model and for options."""
    fingerprint(spec)
    return SceneJudge(max_concurrency=spec.max_concurrency or 1)


def _rate(task: Task) -> str:
    checks = _checks("answer", {turn: task.texts[f"reference_{turn}"] for turn in task.turns}, task)
    rating = min(int(1 + 9 * fmean(result.share for result in checks) + 0.5), 9)
    if all(result.exact for result in checks):
        rating = 10
    lines = [_explain(turn, result) for turn, result in zip(task.turns, checks, strict=True)]
    return "\n".join([*lines, "", f"Rating: {rating}"])


def _choose(task: Task) -> str:
    first, second, third = (task.texts[f"instruction_{turn}"] for turn in (1, 2, 3))
    true = answer(task.texts["caption"], (first, second, third))
    expected = {turn: true[turn - 1] for turn in task.turns}
    sides = {side: _checks(side.lower(), expected, task) for side in "AB"}
    a, b = (fmean(result.share for result in sides[side]) for side in "AB")
    winner, how = "A" if a > b else "B", ""
    if a == b:
        winner = draw_side(task)
        how = "Both are equally right, so this is drawn by the hash of the texts. "
    lines = [
        f"Assistant {side}, {_explain(turn, result)}"
        for side, checks in sides.items()
        for turn, result in zip(task.turns, checks, strict=True)
    ]
    return "\n".join([*lines, "", f"{how}Overall, Response {winner} is better."])


def _checks(side: str, references: Mapping[int, str], task: Task) -> list[Check]:
    return [
        check(task.texts[f"{side}_{turn}"], reference, task.texts[f"instruction_{turn}"])
        for turn, reference in references.items()
    ]


def _explain(turn: int, result: Check) -> str:
    """One line: how right a turn is, and which facts are right, missing and wrong."""
    if result.exact:
        return f"turn {turn}: all {len(result.right)} facts right ({'; '.join(result.right)})."
    kinds = {"right": result.right, "missing": result.missing, "wrong": result.wrong}
    parts = [f"{name}: {'; '.join(facts)}" for name, facts in kinds.items() if facts]
    return f"turn {turn}: {result.share:.0%} of the facts. {'. '.join(parts)}."
