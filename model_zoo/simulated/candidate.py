"""The simulated candidate: answers that are right or wrong at known rates, and say which they are.

It reads from its prompt how many turns were answered, which of them by itself, and whether the last
answer was wrong. A sample is known by its first user message: the picture and the instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mmconv.errors import Refused
from mmconv.values import Message, Reply, Sampling, SeenImage
from model_zoo.simulated.marks import LEVELS, draw, read_answer, texts, write_answer
from model_zoo.simulated.options import CandidateOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCandidate:
    """A backend that fails as its options say."""

    options: CandidateOptions
    max_concurrency: int

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        """Answer once; of the sampling only the trial counts.

        Raises `Refused` for a conversation of more than three turns.
        """
        earlier = [read_answer(text) for text in texts(messages, "assistant")]
        level = len(earlier) + 1
        if level > len(LEVELS):
            raise Refused("rejected", f"the simulated candidate knows three turns, not {level}")
        rate = self.options.rate(level, after_wrong=bool(earlier) and earlier[-1] is True)
        given = earlier.count(None)
        wrong = self._draw(messages, level, given, sampling.trial) < rate
        text = write_answer(level, wrong=wrong)
        return Reply(
            text=text,
            input_tokens=sum(len(message.text.split()) for message in messages),
            output_tokens=len(text.split()),
            seen=tuple(
                SeenImage(sha256=image.sha256, width=image.width, height=image.height)
                for message in messages
                for image in message.images
            ),
        )

    async def aclose(self) -> None:
        """Nothing is held that needs releasing."""

    def _draw(self, messages: Sequence[Message], level: int, given: int, trial: int) -> float:
        """The number under the rate at which this turn fails; `given` tells the condition."""
        seed, alike = self.options.seed, self.options.alike
        first = next(message for message in messages if message.role == "user")
        picture = "".join(image.sha256 for image in first.images)
        unit = picture
        if not picture or draw(seed, "image", picture) >= alike.image:
            unit = f"{picture}/{first.text}"
        if draw(seed, "levels", unit) < alike.levels:
            return draw(seed, "all", unit)
        if draw(seed, "conditions", unit, level) < alike.conditions:
            return draw(seed, "level", unit, level)
        return draw(seed, "anew", unit, level, given, trial)
