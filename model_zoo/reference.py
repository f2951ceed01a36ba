"""Provider `reference`: an offline judge that measures overlap of texts, without any model.

It reads the machine-readable prompts of `judges/prompts/convbench_reference` and nothing else, and
lets a whole run be made where no judge can be reached. Its numbers order answers roughly and are
not comparable with those of language-model judges; every reply says so. It looks at no picture.

- Direct grading: the sentence score (chrF or BLEU, 0-100) of the answer against its reference. In
  the creation turn, if there are focus points, the share of their content words that the answer
  holds is blended in with `focus_weight`. The result (for the whole conversation, the mean over
  its turns) is mapped linearly to 1-10 and rounded.
- Pairwise grading: each side's overlap with the image description, the instruction and the focus
  points; the higher one wins. Neither side is known to be the human's. Equal sides are told apart
  by the SHA-256 of their texts, the smaller one wins, so that swapping them swaps the verdict;
  identical texts go to A or B by that hash's last bit.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from statistics import fmean
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from mmconv.config import ModelSpec, validate
from mmconv.errors import ConfigError
from mmconv.keys import hash_json
from mmconv.protocols import ImageSource
from mmconv.values import Message, Reply, Sampling
from model_zoo.judge_prompts import Task, draw_side, foreign, read_task, refuse_foreign

Similarity: TypeAlias = Callable[[str, str], float]
"""How much of the second text (the reference) is found in the first one: 0 to 100."""

METRICS: Mapping[str, str] = {"chrf": "chrF", "bleu": "BLEU"}
"""Model names of this provider, with the names that replies print."""

_REVISION = 1  # Raised when the same messages would get another reply, so that keys change too.
_CREATION = 3
_JUDGE = "the reference judge"
_ADVICE = "It judges ConvBench only, with the prompts shipped for it: run it without --prompts"
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


class ReferenceOptions(BaseModel):
    """Options of the offline judge of overlap."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    focus_weight: float = Field(default=0.3, ge=0, le=1)
    """The weight of the focus points' words in the direct rating of a creation turn; the overlap
    with the reference has the rest."""


def fingerprint(spec: ModelSpec) -> str:
    """Hash of what decides a reply: metric, options, and the versions of sacrebleu and of this."""
    options = _options(spec)
    return hash_json(
        ["reference", _REVISION, _metric(spec), version("sacrebleu"), options.model_dump()]
    )


def check_prompt(messages: Sequence[Message]) -> None:
    """Raise `ConfigError` for messages that are no prompt of this judge's own, filled or not."""
    refuse_foreign(messages, _JUDGE, _ADVICE)


async def open_backend(spec: ModelSpec, images: ImageSource) -> ReferenceJudge:
    """The judge for `reference/chrf` or `reference/bleu`; `ConfigError` for any other model."""
    metric = _metric(spec)
    return ReferenceJudge(
        metric=METRICS[metric],
        similarity=_similarity(metric),
        focus_weight=_options(spec).focus_weight,
        max_concurrency=spec.max_concurrency or 1,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceJudge:
    """A backend that judges by overlap; `metric` is the name that its replies print."""

    metric: str
    similarity: Similarity
    focus_weight: float
    max_concurrency: int

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        """Judge once; the sampling is without effect.

        Raises `Refused` for messages that are no filled prompt of this judge's own.
        """
        start = time.perf_counter()
        try:
            task = read_task(messages)
        except ValueError as error:
            raise foreign(_JUDGE, str(error), _ADVICE) from error
        judge = self._direct if task.grading == "direct" else self._pairwise
        try:
            # In a thread, since long answers take tens of milliseconds and others share the loop.
            text = await asyncio.to_thread(judge, task)
        except KeyError as error:
            raise foreign(_JUDGE, f"slot {error} is missing", _ADVICE) from error
        return Reply(text=text, seconds=time.perf_counter() - start)

    async def aclose(self) -> None:
        """Nothing is held open."""

    def _direct(self, task: Task) -> str:
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
        wanted = _content_words(_NUMBERING.sub("", points))
        if not wanted:
            return overlap
        share = len(wanted & _content_words(answer)) / len(wanted)
        return (1 - self.focus_weight) * overlap + self.focus_weight * 100 * share

    def _pairwise(self, task: Task) -> str:
        texts = task.texts
        a, b = (self._grounding(side, task.turns, texts) for side in "ab")
        if a != b:
            winner, how = ("A", "") if a > b else ("B", "")
        else:
            winner, how = draw_side(task), " Equal, so drawn by the hash of the texts."
        measured = f"{self.metric} against the image description and the instruction"
        if "focus_points" in texts:
            measured += ", with the focus points"
        scores = f"Assistant A {a:.1f}, Assistant B {b:.1f} of 100."
        closing = f"Overall, Response {winner} is better."
        return f"{_DISCLAIMER}\n{measured}: {scores}{how}\n\n{closing}"

    def _grounding(self, side: str, turns: Sequence[int], texts: Mapping[str, str]) -> float:
        return fmean(
            self.similarity(texts[f"{side}_{turn}"], _context(turn, texts)) for turn in turns
        )


def _options(spec: ModelSpec) -> ReferenceOptions:
    return validate(ReferenceOptions, spec.options, f"model {spec.label}: options")


def _metric(spec: ModelSpec) -> str:
    if spec.model not in METRICS:
        known = ", ".join(f"reference/{name}" for name in METRICS)
        raise ConfigError(f"no model reference/{spec.model}; there are {known}")
    return spec.model


def _similarity(metric: str) -> Similarity:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    scorer = CHRF() if metric == "chrf" else BLEU(effective_order=True)
    return lambda text, reference: float(scorer.sentence_score(text, [reference]).score)


def _content_words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold())) - _FUNCTION_WORDS


def _context(turn: int, texts: Mapping[str, str]) -> str:
    wanted = [texts["caption"], texts[f"instruction_{turn}"]]
    if turn == _CREATION and "focus_points" in texts:
        wanted.append(texts["focus_points"])
    return "\n".join(wanted)
