"""How BotChat's dialogues are judged and scored, in a run, in rescoring and over HTTP.

DupDetect finds where a dialogue begins to repeat itself (paper, section 3.2). A judge reads
dialogues one by one (UniEval) or in pairs (GTEval, PairEval); the prompts are those of `judges`.

Scores of a dialogue: `human` (utterances before the first one taken for AI), `pass` (0 or 1, at the
length that is the turn), `pass_at_human_length`, `non_loop` (0 or 1), `non_loop_utterances` (those
up to the first repetition). Of an utterance, whose number is the turn: `characters`, `words`,
`dropped`, and those of `mmconv.benchmarks.shared.endings`. Of a comparison: `duel`, its points from
`WIN` to `LOSS`. The tag `reading` separates our reading of a judgement from the authors', `dup`
says whether DupDetect went before the judge, `model` whose score it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import lru_cache
from typing import ClassVar, Literal, TypeAlias

from pydantic import Field

from judges import Judge, PromptSet, read_verdict
from judges.parsers.botchat import (
    AUTHORS_UTTERANCES,
    FIRST,
    HUMAN,
    SECOND,
    UniEvalParser,
    authors_comparison,
    authors_human,
    comparison,
)
from mmconv.benchmarks.botchat.dialogues import (
    GTEVAL,
    PAIREVAL,
    SEED,
    UNCON,
    Comparison,
    Line,
    as_lines,
    resolve,
)
from mmconv.benchmarks.shared.endings import endings
from mmconv.benchmarks.shared.judgements import SAMPLE, ByField, JudgementRequest, Supplies, Words
from mmconv.benchmarks.shared.options import BenchmarkOptions
from mmconv.benchmarks.shared.scoring import Outcomes
from mmconv.core.errors import Unparsed
from mmconv.core.types import (
    SAME_TEXT,
    Call,
    Outcome,
    Parser,
    Part,
    Reply,
    Sampling,
    Score,
    Skipped,
    Verdict,
)

UNIEVAL = "unieval"
"""The id of the call that judges the candidate's dialogue alone."""

END = "<chat_end>"
"""What ends an utterance in a judge's prompt (paper, appendix B.3)."""

WIN, GOOD_TIE, BAD_TIE, LOSS = 3.0, 1.0, -1.0, -3.0
"""A win, both taken for human, both taken for AI, a loss: the weights of the authors' Score."""

OURS, AUTHORS = "ours", "authors"
JUDGE, DUP = "judge alone", "DupDetect first"
"""The tag `dup`: whether a loop decides a comparison before the judge does."""

UNKNOWN = "unknown"
"""The reason for missing points by the authors' reading; these stay in their denominator."""

UNFINISHED = "unfinished dialogue"
"""The reason for missing scores of a dialogue without one of its utterances."""

Similarity: TypeAlias = Literal["characters", "words"]


class DupDetect(BenchmarkOptions):
    """When an utterance repeats an earlier one: the paper names neither measure nor threshold.

    An utterance repeats another if their similarity is above the threshold.
    """

    similarity: Similarity = "characters"
    """What difflib's ratio is taken over, without case."""
    threshold: float = Field(default=0.9, ge=0, le=1)
    """The similarity above which an utterance repeats another; `mmconv calibrate` fits it."""
    scope: Literal["compared", "whole"] = "compared"
    """Whether a comparison looks at what is compared, cut to its length, or at whole dialogues."""

    def __str__(self) -> str:
        where = "the compared utterances" if self.scope == "compared" else "whole dialogues"
        return f"difflib's ratio over {self.similarity} above {self.threshold!r}, in {where}"


# In an arena each dialogue is compared with those of all other models.
@lru_cache(maxsize=512)
def first_repeat(utterances: tuple[str, ...], settings: DupDetect) -> int | None:
    """The number, from 1, of the first utterance that repeats one of the two before it; or None."""
    threshold = settings.threshold
    for earlier, later in _compared(utterances):
        if _similarity(earlier[1], later[1], settings.similarity, threshold) > threshold:
            return later[0]
    return None


def highest_similarity(utterances: Sequence[str], similarity: Similarity) -> float:
    """The greatest similarity that DupDetect finds in a dialogue; 0 if it compares nothing."""
    highest = 0.0
    for (_, earlier), (_, later) in _compared(utterances):
        highest = max(highest, _similarity(earlier, later, similarity, highest))
    return highest


def _compared(
    utterances: Sequence[str],
) -> Iterator[tuple[tuple[int, str], tuple[int, str]]]:
    """The numbered utterances that are compared with each other, earliest first."""
    numbered = [*enumerate(utterances, start=1)]
    for place in range(SEED, len(numbered) - 2):
        yield numbered[place], numbered[place + 1]
        yield numbered[place], numbered[place + 2]


def _similarity(earlier: str, later: str, similarity: Similarity, above: float) -> float:
    """Difflib's ratio of two utterances, or a bound of it that is not `above`."""
    left: Sequence[str] = earlier.lower()
    right: Sequence[str] = later.lower()
    if similarity == "words":
        left, right = earlier.lower().split(), later.lower().split()
    total = len(left) + len(right)
    if not total:
        return 1.0
    # What difflib matches is a common subsequence: the longest one bounds its ratio, in a twentieth
    # of the time, and so does the shorter utterance.
    bound = 2.0 * min(len(left), len(right)) / total
    if bound > above:
        bound = 2.0 * longest_common_subsequence(left, right) / total
    if bound <= above:
        return bound
    # autojunk would ignore frequent characters of utterances above 200
    return SequenceMatcher(None, left, right, autojunk=False).ratio()


def longest_common_subsequence(left: Sequence[str], right: Sequence[str]) -> int:
    """Its length, by the bits of integers (Hyyro, 2004): zeros count what is matched so far."""
    places: dict[str, int] = {}
    for place, item in enumerate(left):
        places[item] = places.get(item, 0) | 1 << place
    ones = row = (1 << len(left)) - 1
    for item in right:
        matches = row & places.get(item, 0)
        row = ((row + matches) | (row - matches)) & ones
    return len(left) - row.bit_count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A threshold, the share of dialogues that it leaves without a loop, and the next step down.

    `lower_threshold` is the highest similarity below `threshold`, with its `lower_rate`; both are
    None if there is none.
    """

    threshold: float
    rate: float
    lower_threshold: float | None
    lower_rate: float | None


def calibrate(highest: Sequence[float], rate: float) -> Calibration:
    """The lowest threshold that leaves at least this share of dialogues without a loop.

    `highest` holds each dialogue's `highest_similarity`. Raises `ValueError` without any, or for a
    rate that is not above 0 and at most 1.
    """
    if not highest or not 0 < rate <= 1:
        raise ValueError("calibration needs dialogues, and a rate above 0 and at most 1")
    ranked = sorted(highest)
    # 0.55 * 100 is 55, not 55.00000000000001 and then 56
    needed = math.ceil(round(rate * len(ranked), 9))
    threshold = ranked[needed - 1]
    below = [value for value in ranked if value < threshold]
    return Calibration(
        threshold=threshold,
        rate=sum(value <= threshold for value in ranked) / len(ranked),
        lower_threshold=below[-1] if below else None,
        lower_rate=len(below) / len(ranked) if below else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """Plans judgements, requested up to `1 + retries` times."""

    prompts: PromptSet
    sampling: Sampling
    retries: int

    def call_unieval(self, lines: Sequence[Line]) -> Call:
        """UniEval's judgement of a dialogue."""
        judge = self._judge(UniEvalParser(utterances=len(lines)))
        return judge.call(UNIEVAL, self.prompts["unieval"], {"conversation": conversation(lines)})

    def call_comparison(self, compared: Comparison) -> Call:
        """The judgement of two dialogues in their order; equal ones are not sent."""
        pair = (compared.own, compared.other)
        slots = {
            f"conversation_{number}": conversation(lines)
            for number, lines in enumerate(pair if compared.order == "1" else pair[::-1], start=1)
        }
        prompt = self.prompts[compared.protocol.lower()]
        call = self._judge(comparison).call(compared.call_id, prompt, slots)
        return replace(call, compares=pair)

    def _judge(self, parser: Parser) -> Judge:
        return Judge(
            parser=parser, sampling=self.sampling, verdict_last=False, retries=self.retries
        )


def conversation(lines: Sequence[Line]) -> list[str | Part]:
    """A dialogue as the judge reads it: `A: ...<chat_end>`, a line for each utterance."""
    parts: list[str | Part] = []
    for place, line in enumerate(lines):
        parts += [f"{speaker(place)}: ", line, f"{END}\n" if place < len(lines) - 1 else END]
    return parts


def speaker(place: int) -> str:
    """Who says the utterance at this place, counted from 0: A, B, A, B, ..."""
    return "AB"[place % 2]


_Value: TypeAlias = tuple[float | None, str | None]
"""A number, or None and the reason why there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorer:
    """Scores the dialogue of a model for a sample under a condition."""

    sample: str
    condition: str
    model: str
    settings: DupDetect

    def unieval(
        self, call: Call, outcomes: Outcomes, lengths: Sequence[int], human_length: int | None
    ) -> Iterator[Score]:
        """Pass rates at `lengths` by both readings, and ours at the human dialogue's length.

        `human_length` is None for a dialogue that is not compared with a human one. The authors'
        code takes no dialogue for longer than `AUTHORS_UTTERANCES`, and has no rate beyond.
        """
        ours = _human(call, outcomes, OURS)
        yield self._score("human", ours, reading=OURS)
        if human_length is not None:
            passed = _passed(ours, human_length)
            yield self._score("pass_at_human_length", passed, reading=OURS)
        authors = _human(call, outcomes, AUTHORS)
        for reading, value in ((OURS, ours), (AUTHORS, authors)):
            for length in lengths:
                if reading == OURS or length <= AUTHORS_UTTERANCES:
                    yield self._score("pass", _passed(value, length), length, reading=reading)

    def comparison(
        self, compared: Comparison, call: Call | None, outcomes: Outcomes
    ) -> Iterator[Score]:
        """Points by both readings, with the judge alone and with DupDetect first.

        A pair of the same text has no points, as the authors have it. `call` is None if that was
        known before, or if a dialogue is missing.
        """
        own, other = resolve(compared.own, outcomes), resolve(compared.other, outcomes)
        reason, is_void = SAME_TEXT, own is not None and own == other
        if compared.lacking is not None:
            reason, is_void = Skipped(because=f"a whole dialogue of {compared.lacking}").why, True
        tags = {
            "protocol": compared.protocol,
            "opponent": compared.opponent,
            "length": str(compared.length),
            "order": compared.order,
        }
        decided = self._looped(compared, outcomes)
        for reading in (OURS, AUTHORS):
            value: _Value = (None, reason)
            if call is not None and not is_void:
                value = _points(compared, call, outcomes, reading)
            yield self._score("duel", value, None, reading=reading, dup=JUDGE, **tags)
            if decided is not None and not is_void:
                value = (decided, None)
            yield self._score("duel", value, None, reading=reading, dup=DUP, **tags)

    def loop(self, utterances: tuple[str, ...] | None) -> Iterator[Score]:
        """Whether and when the dialogue begins to repeat itself; None if it is not whole.

        The utterance that repeats is the last that counts as non-looping; without one all do
        (paper, sections 3.2 and 4.3).
        """
        if utterances is None:
            yield self._score("non_loop", (None, UNFINISHED))
            yield self._score("non_loop_utterances", (None, UNFINISHED))
            return
        repeat = first_repeat(utterances, self.settings)
        yield self._score("non_loop", (float(repeat is None), None))
        yield self._score("non_loop_utterances", (float(repeat or len(utterances)), None))

    def utterance(self, number: int, outcome: Outcome) -> Iterator[Score]:
        """How a generated utterance ended, its length, and how many others its prompt lost."""
        for metric, value, reason in endings(outcome):
            yield self._score(metric, (value, reason), number)
        if isinstance(outcome, Reply):
            yield from self.length(number, outcome.text)
            yield self._score("dropped", (float(outcome.dropped), None), number)
            return
        for metric in ("characters", "words", "dropped"):
            yield self._score(metric, (None, outcome.why), number)

    def length(self, number: int, utterance: str | None) -> Iterator[Score]:
        """The length of an utterance in characters, and in words separated by blanks."""
        lengths = (None, None) if utterance is None else (len(utterance), len(utterance.split()))
        for metric, length in zip(("characters", "words"), lengths, strict=True):
            value = (None, UNFINISHED) if length is None else (float(length), None)
            yield self._score(metric, value, number)

    def _looped(self, compared: Comparison, outcomes: Outcomes) -> float | None:
        """What DupDetect decides: a tie if both loop, else a win for the one that does not.

        The paper's tie has no weight in the authors' Score; two loops count as two bad dialogues.
        """
        own, other = (resolve(lines, outcomes) for lines in compared.searched)
        if own is None or other is None:
            return None
        own_loops, other_loops = (
            first_repeat(each, self.settings) is not None for each in (own, other)
        )
        if own_loops:
            return BAD_TIE if other_loops else LOSS
        return WIN if other_loops else None

    def _score(self, metric: str, value: _Value, turn: int | None = None, **tags: str) -> Score:
        return Score(
            sample=self.sample,
            condition=self.condition,
            metric=metric,
            turn=turn,
            tags={"model": self.model, **tags},
            value=value[0],
            why=value[1],
        )


def _verdict(
    call: Call, outcomes: Outcomes, reading: str, authors_parser: Parser
) -> tuple[Verdict | None, str | None]:
    """A verdict, or None and the reason; the authors read the first reply and retry nothing."""
    if reading == OURS:
        read = read_verdict(call, outcomes)
        return read.verdict, read.why
    outcome = outcomes[call.id]
    if not isinstance(outcome, Reply):
        return None, outcome.why
    try:
        return authors_parser(outcome.text), None
    except Unparsed:
        return None, UNKNOWN


def _human(call: Call, outcomes: Outcomes, reading: str) -> _Value:
    """How many utterances come before the first one taken for AI."""
    verdict, reason = _verdict(call, outcomes, reading, authors_human)
    return (None, reason) if verdict is None else (verdict.scores[HUMAN], None)


def _passed(human: _Value, length: int) -> _Value:
    """Whether the first utterance taken for AI comes after `length` others."""
    return (None, human[1]) if human[0] is None else (float(human[0] >= length), None)


def _points(compared: Comparison, call: Call, outcomes: Outcomes, reading: str) -> _Value:
    verdict, reason = _verdict(call, outcomes, reading, authors_comparison)
    if verdict is None:
        return None, reason
    match verdict.label:
        case "both":
            return BAD_TIE, None
        case "neither":
            return GOOD_TIE, None
    taken_for_ai = {FIRST: "1", SECOND: "2"}[str(verdict.label)]
    return (LOSS if taken_for_ai == compared.order else WIN), None


_PROTOCOLS = {"gteval": GTEVAL, "paireval": PAIREVAL}
"""The prompts that judge a pair, with the names of their comparisons."""


class BotChatJudgement(JudgementRequest):
    """Utterances of two speakers in turn, alone (`unieval`) or beside an `other` dialogue.

    In `gteval` the other one is people's. `order` says which conversation of the prompt the
    dialogue is. The judge says which is a machine's. The score of a pair is the dialogue's points:
    3 if only the other one is taken for a machine's, 1 if neither is, -1 if both are, -3 if only
    the dialogue is. Alone, its score is how many utterances come before the first that is taken
    for a machine's.
    """

    needing: ClassVar[ByField] = {"other": _PROTOCOLS}
    reading: ClassVar[ByField] = {"order": _PROTOCOLS}

    benchmark: Literal["botchat"]
    prompt: Literal["unieval", "gteval", "paireval"]
    utterances: tuple[Words, ...] = Field(min_length=1)
    other: tuple[Words, ...] | None = Field(default=None, min_length=1)
    order: Literal["1", "2"] = "1"

    def call(self, supplies: Supplies) -> Call:
        """The judgement of the dialogue, or of the pair."""
        judging = Judging(
            prompts=supplies.prompts,
            sampling=Sampling(max_tokens=self.max_tokens),
            retries=self.retries,
        )
        if self.other is None:
            return judging.call_unieval(as_lines(self.utterances))
        return judging.call_comparison(self._comparison(self.other))

    def scores(self, call: Call, outcomes: Outcomes) -> Iterator[Score]:
        """Utterances before the first one taken for AI; of a pair, the dialogue's points."""
        scorer = Scorer(sample=SAMPLE, condition=UNCON, model=SAMPLE, settings=DupDetect())
        if self.other is None:
            yield from scorer.unieval(call, outcomes, (len(self.utterances),), human_length=None)
        else:
            yield from scorer.comparison(self._comparison(self.other), call, outcomes)

    def _comparison(self, other: Sequence[str]) -> Comparison:
        pair = (as_lines(self.utterances), as_lines(other))
        return Comparison(
            protocol=_PROTOCOLS[self.prompt],
            model=SAMPLE,
            opponent="other",
            length=len(self.utterances),
            order=self.order,
            own=pair[0],
            other=pair[1],
            searched=pair,
        )
