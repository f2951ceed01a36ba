"""A judge of drawn scenes whose errors are planted; it reads ConvBench's prompts for judges.

It looks up the true answers, so it can tell which answers an audit made wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from mmconv.core.config import ModelSpec
from mmconv.core.keys import hash_json
from mmconv.core.protocols import ImageSource
from mmconv.core.types import Reply, Sampling
from model_zoo.simulated.common import Offline
from tests.drawn_data import true_answers
from tests.messages import Messages

MARKED = re.compile(
    r"⟦(image description|(?:instruction|answer) [AB]?[123])[^⟧]*⟧\n(.*?)\n⟦end of \1⟧", re.DOTALL
)
REQUEST = re.compile(r"\b(?:Rate answer |Compare answers A)([123])")


def fingerprint(spec: ModelSpec) -> str:
    return hash_json(["planted judge", dict(spec.options)])


async def open_backend(spec: ModelSpec, images: ImageSource) -> PlantedJudge:
    return PlantedJudge(errors=spec.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedJudge(Offline):
    """`fails_right`, `passes_wrong`, `halo`, `side`, `slope` and `forgets` are its errors.

    `halo` is how much rarer it fails an answer after a right turn, `slope` what it adds for each
    doubling of an answer's length, `forgets` the share of verdicts that it draws again each time.
    """

    errors: Mapping[str, float]
    max_concurrency: int = 64

    async def generate(self, messages: Messages, sampling: Sampling, *, affinity: str) -> Reply:
        prompt = messages[-1].text
        texts = dict(MARKED.findall(prompt))
        instructions = (texts[f"instruction {n}"] for n in (1, 2, 3))
        true = true_answers()[(texts["image description"], *instructions)]
        asked = REQUEST.search(prompt, prompt.rfind("⟦end of"))
        turn = int(asked[1]) if asked else 3
        draw = partial(_number, prompt)
        # what is drawn again differs in each request
        if draw("forgets") < self.errors.get("forgets", 0.0):
            draw = partial(_number, prompt, sampling.trial)
        sides = {
            side: {n: texts[f"answer {side}{n}"] for n in (1, 2, 3)}
            for side in ("", "A", "B")
            if f"answer {side}1" in texts
        }
        if "" in sides:
            return Reply(text=f"Rating: {self._rating(sides[''], true, turn, draw)}")
        return Reply(text=f"Overall, Response {self._choice(sides, true, turn, draw)} is better.")

    def _rating(
        self, answers: Mapping[int, str], true: Sequence[str], turn: int, draw: partial[float]
    ) -> int:
        states = {n: answers[n].endswith(true[n - 1]) for n in answers}
        rate = self.errors.get("fails_right" if states[turn] else "passes_wrong", 0.0)
        rate = rate if states[turn] else 1 - rate
        if states.get(turn - 1):
            rate -= self.errors.get("halo", 0.0)
        rating = 4 if draw("verdict") < rate else 8
        spread = int(3 * draw("spread")) - 1
        # padding goes before an answer and makes it twice as long
        is_long = any(word in answers[turn] for word in ("I have read this",))
        longer = self.errors.get("slope", 0.0) if is_long else 0.0
        return max(1, min(10, math.floor(rating + spread + longer)))

    def _choice(
        self,
        sides: Mapping[str, Mapping[int, str]],
        true: Sequence[str],
        turn: int,
        draw: partial[float],
    ) -> str:
        if draw("side") < self.errors.get("side", 0.0):
            return "A"
        right = [side for side in "AB" if sides[side][turn].endswith(true[turn - 1])]
        if len(right) == 1:
            errs = draw("verdict") < self.errors.get("passes_wrong", 0.0)
            return right[0] if not errs else "AB".replace(right[0], "")
        return "A" if draw("coin") < 0.5 else "B"


def _number(*name: str | int) -> float:
    return int(hash_json(name)[:13], 16) / 16**13
