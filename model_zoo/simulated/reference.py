"""Provider `reference`: an offline judge that measures overlap of texts, without any model.

It reads the prompts of `judges/prompts/convbench_reference`, so that a whole run needs no server:
the system message names the task, each user message is the name of a slot, a line break, and its
value. Its numbers order answers roughly and are not comparable with those of language-model judges;
every reply says so. It looks at no image.

- Direct grading: the sentence score (chrF or BLEU, 0-100) of the answer against its reference. In
  the creation turn, if there are focus points, the share of their content words that the answer
  holds is blended in with `focus_weight`. The result (for the whole conversation, the mean over
  its turns) is mapped linearly to 1-10 and rounded.
- Pairwise grading: each side's overlap with the image description, the instruction and the focus
  points; the higher one wins. It does not know which side is the human's. Equal sides are drawn by
  `draw_side`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from statistics import fmean
from typing import Literal, TypeAlias

from pydantic import Field

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, Refused
from mmconv.core.keys import hash_bytes, hash_json
from mmconv.core.protocols import ImageSource
from mmconv.core.types import Message, Reply, Sampling
from model_zoo.base import Fields
from model_zoo.simulated.common import Offline

Similarity: TypeAlias = Callable[[str, str], float]
"""How much of the second text (the reference) is found in the first one: 0 to 100."""

METRICS: Mapping[str, str] = {"chrf": "chrF", "bleu": "BLEU"}
"""Model names of this provider, with the names that replies print."""

_REVISION = 1
_NAME = re.compile(r"(direct|pairwise) (?:turn ([123])|overall)(?: without .+)?")
_CREATION = 3
_WORD = re.compile(r"\w+")
_NUMBERING = re.compile(r"^\s*\d+[.)]\s", re.MULTILINE)
_FUNCTION_WORDS = frozenset(
    _WORD.findall(
        "a about all an and any are as at be been but by can could did do does for from had has "
        "have how if in into is it its more not of on one or should so some than that the their "
        "them there these they this those to was were what when where whether which who why will "
        "with would you your"
    )
)
_DISCLAIMER = (
    "Overlap of texts, measured without a language model; not comparable with the judgements of"
    " language models."
)


class ReferenceOptions(Fields):
    """Options of the offline judge of overlap."""

    focus_weight: float = Field(default=0.3, ge=0, le=1)
    """The weight of the focus points' words in the direct rating of a creation turn; the overlap
    with the reference has the rest."""


def fingerprint(spec: ModelSpec) -> str:
    """Hash of what decides a reply: metric, options, revision and the version of sacrebleu."""
    options = _options(spec)
    return hash_json(
        ["reference", _REVISION, spec.model, version("sacrebleu"), options.model_dump()]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a prompt requests: in which grading, of which turns (1-3), with which texts by slot."""

    grading: Literal["direct", "pairwise"]
    turns: tuple[int, ...]
    texts: Mapping[str, str]


def read_task(messages: Sequence[Message]) -> Task:
    """The task of a prompt; raises `ValueError` for other messages."""
    names = [message.text for message in messages if message.role == "system"]
    match = _NAME.fullmatch(names[0]) if len(names) == 1 else None
    if match is None:
        raise ValueError("no system message names a task that it knows")
    slots = (message.text.partition("\n") for message in messages if message.role == "user")
    return Task(
        grading="direct" if match[1] == "direct" else "pairwise",
        turns=(int(match[2]),) if match[2] else (1, 2, 3),
        texts={name: value for name, _, value in slots},
    )


def draw_side(task: Task) -> str:
    """A or B for two sides that are equally good: the one whose texts have the smaller SHA-256.

    So swapping the sides swaps the verdict. Identical texts go to A or B by the hash's last bit.
    """
    a, b = (
        hash_bytes("\n".join(task.texts[f"{side}_{turn}"] for turn in task.turns).encode())
        for side in "ab"
    )
    if a == b:
        return "AB"[int(a, 16) % 2]
    return "A" if a < b else "B"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceJudge(Offline):
    """A backend that judges by overlap; `metric` is the name that its replies print."""

    metric: str
    similarity: Similarity
    focus_weight: float
    max_concurrency: int

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        """Judge once, whatever the sampling; raises `Refused` for messages that are not a task."""
        start = time.perf_counter()
        try:
            # in a thread: long answers take tens of milliseconds, and others share the loop
            task = read_task(messages)
            judge = self._rate if task.grading == "direct" else self._choose
            text = await asyncio.to_thread(judge, task)
        except KeyError as error:
            raise Refused("rejected", _refusal(f"slot {error} is missing")) from error
        except ValueError as error:
            raise Refused("rejected", _refusal(error)) from error
        return Reply(text=text, seconds=time.perf_counter() - start)

    def _rate(self, task: Task) -> str:
        texts = task.texts
        mean = fmean(self._closeness(turn, texts) for turn in task.turns)
        rating = int(1 + 9 * mean / 100 + 0.5)
        measured = f"{self.metric} against the reference"
        if "focus_points" in texts:
            measured += f", with the share of the focus points' words (weight {self.focus_weight})"
        return f"{_DISCLAIMER}\n{measured}: {mean:.1f} of 100.\n\nRating: {rating}"

    def _closeness(self, turn: int, texts: Mapping[str, str]) -> float:
        answer = texts[f"answer_{turn}"]
        overlap = self.similarity(answer, texts[f"reference_{turn}"])
        points = texts.get("focus_points", "") if turn == _CREATION else ""
        expected = _content_words(_NUMBERING.sub("", points))
        if not expected:
            return overlap
        share = len(expected & _content_words(answer)) / len(expected)
        return (1 - self.focus_weight) * overlap + self.focus_weight * 100 * share

    def _choose(self, task: Task) -> str:
        texts = task.texts
        a, b = (
            fmean(self.similarity(texts[f"{side}_{n}"], _context(n, texts)) for n in task.turns)
            for side in "ab"
        )
        winner, how = "A" if a > b else "B", ""
        if a == b:
            winner, how = draw_side(task), " Equal, so drawn by the hash of the texts."
        measured = f"{self.metric} against the image description and the instruction"
        if "focus_points" in texts:
            measured += ", with the focus points"
        scores = f"Assistant A {a:.1f}, Assistant B {b:.1f} of 100."
        closing = f"Overall, Response {winner} is better."
        return f"{_DISCLAIMER}\n{measured}: {scores}{how}\n\n{closing}"


def check_prompt(messages: Sequence[Message]) -> None:
    """Raise `ConfigError` for messages that are not a task, filled or not."""
    try:
        read_task(messages)
    except ValueError as error:
        raise ConfigError(_refusal(error)) from error


def _refusal(problem: object) -> str:
    return (
        f"the reference judge cannot read these messages: {problem}. It judges ConvBench only, "
        "with the prompts shipped for it: run it without --prompts"
    )


async def open_backend(spec: ModelSpec, images: ImageSource) -> ReferenceJudge:
    """The judge for `reference/chrf` or `reference/bleu`; `ConfigError` for any other model."""
    weight = _options(spec).focus_weight
    return ReferenceJudge(
        metric=METRICS[spec.model],
        similarity=_similarity(spec.model),
        focus_weight=weight,
        max_concurrency=spec.max_concurrency or 1,
    )


def _options(spec: ModelSpec) -> ReferenceOptions:
    if spec.model not in METRICS:
        known = ", ".join(f"reference/{name}" for name in METRICS)
        raise ConfigError(f"no model reference/{spec.model}; there are {known}")
    return ReferenceOptions.of(spec)


def _similarity(metric: str) -> Similarity:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    scorer = CHRF() if metric == "chrf" else BLEU(effective_order=True)
    return lambda text, reference: float(scorer.sentence_score(text, [reference]).score)


def _content_words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold())) - _FUNCTION_WORDS


def _context(turn: int, texts: Mapping[str, str]) -> str:
    parts = [texts["caption"], texts[f"instruction_{turn}"]]
    if turn == _CREATION and "focus_points" in texts:
        parts.append(texts["focus_points"])
    return "\n".join(parts)
