"""How a judge is put into a plan, and how its replies are read afterwards.

A judgement is one call with its rescues: the same request again, then a prompt that asks what the
first reply decided. Which prompt is filled with what belongs to the benchmark; asking, to the
runner. No verdict is ever made up: what cannot be read is None, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from judges.template import Prompt, Slot
from mmconv.errors import PromptError, Unparsed
from mmconv.values import (
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """How an unreadable judgement is asked for its verdict: a prompt and the answer's parser.

    The prompt has the one slot `judgement`; any other raises `PromptError`.
    """

    prompt: Prompt
    parser: Parser

    def __post_init__(self) -> None:
        if self.prompt.slots != {"judgement"}:
            raise PromptError(f"prompt {self.prompt.name!r}: its one slot must be 'judgement'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """How one kind of judgement is asked: by whom, how often, and how it is read.

    `retries` counts repeats of an unreadable judgement, each drawn with the next `trial`. `image`
    says whether the judge is shown the picture beside its description.
    """

    parser: Parser
    sampling: Sampling
    seat: str = "judge"
    retries: int = 0
    extraction: Extraction | None = None
    image: bool = False

    def call(
        self,
        call_id: str,
        prompt: Prompt,
        slots: Mapping[str, Slot],
        picture: Image | None = None,
    ) -> Call:
        """The call for a judgement; its rescues are `{call_id}~retry_1`, ..., `{call_id}~extract`.

        The picture goes before the text of the last message, if this judge is shown pictures.
        Raises `PromptError` if the slots are not the prompt's.
        """
        messages = prompt.fill(slots)
        if self.image and picture is not None:
            last = messages[-1]
            messages = (*messages[:-1], replace(last, parts=(picture, *last.parts)))
        return Call(
            id=call_id,
            seat=self.seat,
            messages=messages,
            sampling=self.sampling,
            parser=self.parser,
            prompt=prompt.label,
            rescues=tuple(self._rescues(call_id, messages, prompt.label)),
        )

    def _rescues(self, call_id: str, messages: tuple[Message, ...], label: str) -> Iterator[Call]:
        for number in range(1, self.retries + 1):
            yield Call(
                id=f"{call_id}~retry_{number}",
                seat=self.seat,
                messages=messages,
                sampling=replace(self.sampling, trial=self.sampling.trial + number),
                parser=self.parser,
                prompt=label,
            )
        if self.extraction is not None:
            yield Call(
                id=f"{call_id}~extract",
                seat=self.seat,
                messages=self.extraction.prompt.fill({"judgement": Ref(call=call_id)}),
                sampling=self.sampling,
                parser=self.extraction.parser,
                prompt=self.extraction.prompt.label,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What came of a judgement: a verdict, or None and why not.

    `call` is the id of the call whose reply was read; without a verdict it is the first one's.
    """

    call: str
    verdict: Verdict | None = None
    why: str | None = None


def read_verdict(call: Call, outcomes: Mapping[str, Outcome]) -> Reading:
    """Read the first verdict among the replies to the call and its rescues, in their order.

    Without one, `why` is what became of the call itself: `failed: kind`, `skipped: call` or
    `unparsed`. A call that has no outcome raises `KeyError`: it was never in the run.
    """
    asked = [call, *(rescue for rescue in call.rescues if rescue.id in outcomes)]
    read = [_read(each, outcomes[each.id]) for each in asked]
    return next((reading for reading in read if reading.verdict is not None), read[0])


def _read(call: Call, outcome: Outcome) -> Reading:
    if call.parser is None:
        raise ValueError(f"call {call.id!r} has no parser, so it holds no verdict")
    if not isinstance(outcome, Reply):
        return Reading(call=call.id, why=outcome.why)
    try:
        return Reading(call=call.id, verdict=call.parser(outcome.text))
    except Unparsed:
        return Reading(call=call.id, why=UNPARSED)
