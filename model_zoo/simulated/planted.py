"""Provider `simulated`: models whose errors are known, so that the truth behind a table is known.

- `candidate` and `judge` are the measuring weights of ConvBench's ablations. A run of them goes
  through the ordinary plans, prompts, parsers and tables. Neither looks at an image or knows which
  condition it is in: they read the resolved messages that any model would get.
- Any other model is another provider's (`options.provider`) that is damaged in a known way (see
  `model_zoo.simulated.damage`). The provider name `damaged` means the same.

The candidate reads from its prompt how many turns were answered, which of them by itself, and
whether the last answer was wrong; an instruction alone is perception to it. Its first user message
identifies a sample. The judge reads the prompts of `judges/prompts/convbench`: answers between
their marks, the request after the last of them.

A rate is the probability that a level fails if the answer before it was forced to be right, or to
be wrong, whatever `alike` and the seed are. Among answers that simply came out wrong the rate is
different if `alike.levels` ties the levels together: hard samples are over-represented.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from pydantic import Field, model_validator

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, Refused
from mmconv.core.keys import hash_json
from mmconv.core.protocols import Backend, ImageSource
from mmconv.core.types import Message, Reply, Sampling
from model_zoo.base import Fields
from model_zoo.providers import ProviderFunctions
from model_zoo.simulated.common import Offline, counted
from model_zoo.simulated.damage import DamagedOptions, damage

LEVELS = ("perception", "reasoning", "creation")

_REVISION = 1
_MARK = re.compile(r"\(simulated (?:perception|reasoning|creation): (right|wrong)\)")
_ANSWER = re.compile(r"⟦answer ([AB]?)([123]): [^⟧]*⟧\n(.*?)\n⟦end of answer \1\2⟧", re.DOTALL)
_REQUEST = re.compile(
    r"(?P<direct>Rate)(?: answer (?P<rated>[123])|.* conversation as a whole)"
    r"|Compare(?: answers A(?P<compared>[123])|.* conversations as a whole)"
)
_RESOLUTION = 16**13  # 52 bits of a hash: as many as a float holds exactly

Rate: TypeAlias = Annotated[float, Field(ge=0, le=1)]


class Propagation(Fields):
    """How often a level fails if the level before it is right, and if it is wrong."""

    after_right: Rate = 0.15
    """How often it fails after an answer that is right."""
    after_wrong: Rate = 0.7
    """How often it fails after an answer that is wrong."""


class Alike(Fields):
    """What the draws of a sample, or of an image, have in common; all are shares."""

    levels: Rate = 0.0
    """Of the samples, those that draw once for all levels and conditions, so that one which is hard
    to perceive is also hard to reason about."""
    conditions: Rate = 0.0
    """Of the levels of the other samples, those that keep their draw whatever was said before and
    in every trial; the rest is drawn again in each condition and trial."""
    image: Rate = 0.0
    """Of the images, those whose samples share all draws."""


class CandidateOptions(Fields):
    """Options of `simulated/candidate`: how often each level fails, given the level before it."""

    perception: Rate = 0.4
    """How often the first level fails."""
    reasoning: Propagation = Propagation()
    creation: Propagation = Propagation()
    alike: Alike = Alike()
    seed: int = 0
    """Another seed draws all failures again."""

    def rate(self, level: int, *, after_wrong: bool) -> float:
        """The rate at which turn `level` (1-3) fails; nothing comes before perception."""
        if level == 1:
            return self.perception
        rates = self.reasoning if level == 2 else self.creation
        return rates.after_wrong if after_wrong else rates.after_right


class Ratings(Fields):
    """Direct ratings: whole numbers drawn evenly from `spread` below to `spread` above a centre."""

    right: int = 8
    """The centre of the ratings of an answer that is right."""
    wrong: int = 4
    """The centre of the ratings of an answer that is wrong."""
    spread: int = Field(default=1, ge=0)
    """How far a rating may be from its centre."""

    @model_validator(mode="after")
    def _on_the_scale(self) -> Ratings:
        for centre in (self.right, self.wrong):
            drawn = self.drawn(centre)
            if drawn[0] < 1 or drawn[-1] > 10:
                raise ValueError(f"{centre} with a spread of {self.spread} leaves the scale 1-10")
        return self

    def drawn(self, centre: int) -> range:
        """The ratings that are drawn around a centre."""
        return range(centre - self.spread, centre + self.spread + 1)


class Wins(Fields):
    """How often an answer is preferred to the human's, if it is right and if it is wrong."""

    right: Rate = 0.8
    """How often an answer that is right is preferred."""
    wrong: Rate = 0.1
    """How often an answer that is wrong is preferred."""


class Errors(Fields):
    """How often a judge takes right answers for wrong and wrong ones for right, and its biases."""

    fails_right: Rate = 0.0
    """How often it takes an answer that is right for wrong."""
    passes_wrong: Rate = 0.0
    """How often it takes an answer that is wrong for right."""
    halo: Rate = 0.0
    """How much less often it fails, and more often passes, an answer after a given turn."""
    side: Rate = 0.0
    """Of the comparisons, those that the answer wins which is shown first."""

    def taken_for_wrong(self, *, wrong: bool, after_given: bool) -> float:
        """How often such an answer is taken for wrong."""
        halo = self.halo if after_given else 0.0
        return max(0.0, (1 - self.passes_wrong if wrong else self.fails_right) - halo)


class JudgeOptions(Fields):
    """Options of `simulated/judge`: how it rates and compares answers that are right or wrong.

    Every verdict is drawn independently, by whether the judged answer is right. A verdict on the
    whole conversation is one on a single turn, which is drawn; a teacher-forced turn counts as
    right.
    """

    rating: Ratings = Ratings()
    win: Wins = Wins()
    errors: Errors = Errors()
    seed: int = 0
    """Another seed draws all verdicts again."""


def delegate(spec: ModelSpec) -> ProviderFunctions | None:
    """A damaged model's own provider, with the damage around it."""
    return damage(spec, DamagedOptions.of(spec)) if "provider" in spec.options else None


def fingerprint(spec: ModelSpec) -> str:
    """Hash of everything that can change a reply; raises `ConfigError` as `open_backend` does."""
    document = _options(spec).model_dump(mode="json")
    if document.get("errors") == Errors().model_dump():
        del document["errors"]  # as before there was this option
    return hash_json(["simulated", _REVISION, spec.model, document])


async def open_backend(spec: ModelSpec, images: ImageSource) -> Backend:
    """The candidate or the judge; raises `ConfigError` for another model or wrong options."""
    options = _options(spec)
    concurrency = spec.max_concurrency or 64
    if isinstance(options, CandidateOptions):
        return SimulatedCandidate(options=options, max_concurrency=concurrency)
    return SimulatedJudge(options=options, max_concurrency=concurrency)


def write_answer(level: int, *, wrong: bool) -> str:
    """The answer of turn `level` (1-3)."""
    state = "wrong" if wrong else "right"
    return f"This answer is {state}. (simulated {LEVELS[level - 1]}: {state})"


def read_answer(text: str) -> bool | None:
    """Whether a simulated answer is wrong; None (taken as right) for other texts."""
    match = _MARK.search(text)
    return None if match is None else match[1] == "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCandidate(Offline):
    """A backend that fails as its options say."""

    options: CandidateOptions
    max_concurrency: int

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        """Answer once; of the sampling only the trial counts. Three turns, else `Refused`."""
        earlier = [read_answer(text) for text in _texts(messages, "assistant")]
        level = len(earlier) + 1
        if level > len(LEVELS):
            raise Refused("rejected", f"the simulated candidate knows three turns, not {level}")
        rate = self.options.rate(level, after_wrong=bool(earlier) and earlier[-1] is True)
        wrong = self._draw(messages, level, earlier.count(None), sampling.trial) < rate
        text = write_answer(level, wrong=wrong)
        return counted(text, (message.text for message in messages), messages)

    def _draw(self, messages: Sequence[Message], level: int, forced: int, trial: int) -> float:
        """The number below the rate at which this turn fails; `forced` reveals the condition."""
        seed, alike = self.options.seed, self.options.alike
        first = next(message for message in messages if message.role == "user")
        picture = "".join(image.sha256 for image in first.images)
        unit = picture
        if not picture or _number(seed, "image", picture) >= alike.image:
            unit = f"{picture}/{first.text}"
        if _number(seed, "levels", unit) < alike.levels:
            return _number(seed, "all", unit)
        if _number(seed, "conditions", unit, level) < alike.conditions:
            return _number(seed, "level", unit, level)
        return _number(seed, "anew", unit, level, forced, trial)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedJudge(Offline):
    """A backend that judges the answers of a `SimulatedCandidate`; it sees which side they are."""

    options: JudgeOptions
    max_concurrency: int

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        """Judge once; of the sampling only the trial counts.

        Raises `Refused` for a prompt that is not ConvBench's or holds no simulated answer.
        """
        prompt = _texts(messages, "user")[-1]
        request = _REQUEST.search(prompt, prompt.rfind("⟧") + 1)
        if request is None:
            raise _unknown_prompt("the prompt does not end with a request that it knows")
        side, wrongs = _candidate(prompt)
        requested = request["rated"] or request["compared"]
        name = (self.options.seed, prompt, sampling.trial)
        turn = int(requested) if requested else 1 + int(3 * _number("turn", *name))
        number, errors = _number("verdict", *name), self.options.errors
        given = any(wrongs[earlier] is None for earlier in range(1, turn))
        rate = errors.taken_for_wrong(wrong=wrongs[turn] is True, after_given=given)
        wrong = _number("taken for wrong", *name) < rate
        state = "wrong" if wrong else "right"
        if request["direct"]:
            centres = self.options.rating
            ratings = centres.drawn(centres.wrong if wrong else centres.right)
            verdict = f"Rating: {ratings[int(number * len(ratings))]}"
        else:
            wins = number < (self.options.win.wrong if wrong else self.options.win.right)
            if _number("side", *name) < errors.side:
                wins = side == "A"
            choice = side if wins else {"A": "B", "B": "A"}[side]
            verdict = f"Overall, Response {choice} is better."
        return Reply(text=f"The answer to instruction {turn} is {state}.\n\n{verdict}")


def _candidate(prompt: str) -> tuple[str, Mapping[int, bool | None]]:
    """The side with simulated answers ("" in direct grading), and which of its turns are wrong.

    None for turns that were given.
    """
    sides: dict[str, dict[int, bool | None]] = {}
    for side, turn, text in _ANSWER.findall(prompt):
        sides.setdefault(side, {})[int(turn)] = read_answer(text)
    simulated = {
        side: read
        for side, read in sides.items()
        if any(wrong is not None for wrong in read.values())
    }
    if len(simulated) != 1 or any(len(read) != 3 for read in sides.values()):
        raise _unknown_prompt("it does not hold one simulated conversation of three turns")
    [(side, read)] = simulated.items()
    return side, read


def _unknown_prompt(problem: str) -> Refused:
    return Refused(
        "rejected",
        f"the simulated judge cannot read this prompt: {problem}. It judges simulated/candidate "
        "on ConvBench, with the shipped prompts: run it without --prompts",
    )


def _number(*name: str | int) -> float:
    """A number from 0 up to 1, even over names and always the same for one."""
    return int(hash_json(name)[:13], 16) / _RESOLUTION


def _texts(messages: Iterable[Message], role: str) -> list[str]:
    return [message.text for message in messages if message.role == role]


def _options(spec: ModelSpec) -> CandidateOptions | JudgeOptions:
    if spec.model == "candidate":
        return CandidateOptions.of(spec)
    if spec.model == "judge":
        return JudgeOptions.of(spec)
    raise ConfigError(
        f"simulated model {spec.model!r}: choose candidate or judge, or damage another provider's "
        "model: set options.provider"
    )
