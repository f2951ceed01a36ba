"""How a judge is put into a plan, and how its replies are read afterwards.

A judgement is one call with its fallbacks: the same request again, then a prompt that asks what the
first reply decided. The benchmark chooses prompts and slots; the runner makes the requests. No
verdict is ever made up: an unreadable one is None, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from judges.template import Prompt, Slot
from mmconv.core.errors import Unparsed
from mmconv.core.types import (
    CUT_OFF,
    UNPARSED,
    Call,
    Image,
    Message,
    Outcome,
    Parser,
    Ref,
    Reply,
    Sampling,
    Verdict,
)

_LAST_NUMBER = re.compile(r"\d[\d.,]*\Z")
"""A number at the very end of a reply that was cut off: 1 may have become 10, and 4 4.5."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """How a verdict is extracted from an unreadable judgement: a prompt and a parser.

    The prompt has the one slot `judgement`.
    """

    prompt: Prompt
    parser: Parser
    _filled: dict[str, tuple[Message, ...]] = field(default_factory=dict, init=False, compare=False)

    def messages(self, judgement: str) -> tuple[Message, ...]:
        """The prompt about the reply to the call of this id, which many samples have."""
        if judgement not in self._filled:
            self._filled[judgement] = self.prompt.fill({"judgement": Ref(call=judgement)})
        return self._filled[judgement]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """How one kind of judgement is requested, repeated and read.

    `retries` counts repeats of a judgement that is unreadable or incomplete, each with the next
    `trial`. `image` says whether the judge gets the image with its description; `verdict_last`,
    whether the prompt asks to close with the verdict.
    """

    parser: Parser
    sampling: Sampling
    verdict_last: bool = True
    model: str = "judge"
    retries: int = 0
    extraction: Extraction | None = None
    image: bool = False

    def call(
        self, call_id: str, prompt: Prompt, slots: Mapping[str, Slot], picture: Image | None = None
    ) -> Call:
        """The call for a judgement; its fallbacks are `{call_id}~retry_1`, ..., `~extract`.

        The image goes before the text of the last message, if this judge gets images. Raises
        `PromptError` if the slots are not the prompt's.
        """
        messages = prompt.fill(slots)
        if self.image and picture is not None:
            last = messages[-1]
            messages = (*messages[:-1], replace(last, parts=(picture, *last.parts)))
        return Call(
            id=call_id,
            model=self.model,
            messages=messages,
            sampling=self.sampling,
            parser=self.parser,
            verdict_last=self.verdict_last,
            prompt=prompt.label,
            fallbacks=tuple(self._fallbacks(call_id, messages, prompt.label)),
        )

    def _fallbacks(self, call_id: str, messages: tuple[Message, ...], label: str) -> Iterator[Call]:
        for number in range(1, self.retries + 1):
            yield Call(
                id=f"{call_id}~retry_{number}",
                model=self.model,
                messages=messages,
                sampling=replace(self.sampling, trial=self.sampling.trial + number),
                parser=self.parser,
                verdict_last=self.verdict_last,
                prompt=label,
            )
        if self.extraction is not None:
            yield Call(
                id=f"{call_id}~extract",
                model=self.model,
                messages=self.extraction.messages(call_id),
                sampling=self.sampling,
                parser=self.extraction.parser,
                prompt=self.extraction.prompt.label,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The outcome of a judgement: a verdict, or None and the reason.

    `call` is the id of the call whose reply was read; without a verdict it is the first call's.
    """

    call: str
    verdict: Verdict | None = None
    why: str | None = None


def read_verdict(call: Call, outcomes: Mapping[str, Outcome]) -> Reading:
    """Read the replies to the call and its fallbacks: the first of the most complete verdicts.

    Without one, `why` is the reason for the call itself: `failed: kind`, `skipped: call` or
    `unparsed`. A call that has no outcome raises `KeyError`: it was never in the run.
    """
    calls = [call, *(fallback for fallback in call.fallbacks if fallback.id in outcomes)]
    readings = [_read(one, outcomes[one.id]) for one in calls]
    missing = {place: read.verdict.missing for place, read in enumerate(readings) if read.verdict}
    return readings[min(missing, key=missing.__getitem__, default=0)]


def read_reply(call: Call, reply: Reply) -> Verdict:
    """The verdict of a reply to a judge's call; raises `Unparsed`.

    A reply that was cut off or held back has a verdict only if that stands where the format expects
    it (see `Call.verdict_last`), and not a number at its very end. Raises `ValueError` for a call
    without a parser.
    """
    if call.parser is None:
        raise ValueError(f"call {call.id!r} has no parser, so it holds no verdict")
    if reply.finish not in CUT_OFF:
        return _parse(call.parser, reply.text)
    text = _LAST_NUMBER.sub("", reply.text)
    verdict = _parsed(call.parser, text)
    if verdict is None or (call.verdict_last and not _ends_with_verdict(call.parser, text)):
        how = "cut off" if reply.finish == "length" else "held back by a filter"
        raise Unparsed(f"{how} before its verdict")
    return verdict


@lru_cache(maxsize=1024)  # a reply is read when it comes, for its record, and for its score
def _parse(parser: Parser, text: str) -> Verdict:
    return parser(text)


def is_settled(call: Call, reply: Reply) -> bool:
    """Whether a reply to a judge's call holds a complete verdict, so that no fallback is due."""
    try:
        return read_reply(call, reply).missing == 0
    except Unparsed:
        return False


def _ends_with_verdict(parser: Parser, text: str) -> bool:
    """Whether the last line holds a verdict, and not without its last word."""
    line = text.rstrip().rpartition("\n")[2]
    words = line.split()
    while words and not any(character.isalnum() for character in words.pop()):
        pass
    return _parsed(parser, line) is not None and _parsed(parser, " ".join(words)) is None


def _parsed(parser: Parser, text: str) -> Verdict | None:
    try:
        return parser(text)
    except Unparsed:
        return None


def _read(call: Call, outcome: Outcome) -> Reading:
    if not isinstance(outcome, Reply):
        return Reading(call=call.id, why=outcome.why)
    try:
        return Reading(call=call.id, verdict=read_reply(call, outcome))
    except Unparsed:
        return Reading(call=call.id, why=UNPARSED)
