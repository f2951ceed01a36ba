"""How a model talks to itself: one call per utterance, each seeing all before it.

Roles alternate backwards from the last utterance, which is always the user's (the authors'
chat_api/gpt.py): a prompt with an even number of utterances begins with the assistant's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from judges import PromptSet
from mmconv.benchmarks.botchat.data import Sample
from mmconv.benchmarks.botchat.options import CON, BotChatOptions
from mmconv.core.errors import PlanError, PromptError
from mmconv.core.turns import begin_with
from mmconv.core.types import Call, Message, Ref, Role, Sampling, Text

Line: TypeAlias = Text | Ref
"""An utterance: one that is written already, or one that a call will produce."""

# The mean of the 14 models' means (paper, Table 5), which go from 20 to 199.
UTTERANCE_TOKENS = 87
"""How many tokens an utterance has; forecasts take it."""

_ROLES: tuple[Role, Role] = ("user", "assistant")


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """Who generates a dialogue: the seat asked, and what its calls' names begin with."""

    seat: str

    @property
    def prefix(self) -> str:
        """The candidate's calls are named `utterance_3`, other seats' `<seat>/utterance_3`."""
        return "" if self.seat == "candidate" else f"{self.seat}/"

    def call_id(self, number: int) -> str:
        """The id of the call that makes the utterance of this number, counted from 1."""
        return f"{self.prefix}utterance_{number}"

    def lines(self, seed: Sequence[str], count: int) -> tuple[Line, ...]:
        """The first `count` utterances of the dialogue: the seed, then what the seat says."""
        own = [Ref(call=self.call_id(number)) for number in range(len(seed) + 1, count + 1)]
        return (*written(seed[:count]), *own)


def written(utterances: Iterable[str]) -> tuple[Text, ...]:
    """Utterances that are there already, as lines."""
    return tuple(Text(text=each) for each in utterances)


def dialogue_calls(
    sample: Sample, condition: str, speaker: Speaker, prompts: PromptSet, options: BotChatOptions
) -> tuple[Call, ...]:
    """The calls that make the dialogue from its seed.

    The oldest utterances are dropped when the context is full (paper, section 4.1), and the prompt
    never is.
    """
    prompt = instructions(sample, condition, prompts)
    lines = speaker.lines(sample.seed, options.utterances)
    sampling = Sampling(max_tokens=options.max_tokens)
    return tuple(
        Call(
            id=speaker.call_id(number),
            seat=speaker.seat,
            messages=_messages(prompt, lines[: number - 1], options.prompt_role),
            sampling=sampling,
            overflow="drop_oldest",
            pinned=prompt if options.prompt_role == "user" else "",
            expected_tokens=UTTERANCE_TOKENS,
        )
        for number in range(len(sample.seed) + 1, options.utterances + 1)
    )


def instructions(sample: Sample, condition: str, prompts: PromptSet) -> str:
    """The system prompt, with the reference document under the condition `con`."""
    if condition != CON:
        return _text(prompts["generate"].fill({}))
    if sample.document is None:
        raise PlanError(f"sample {sample.index} has no reference document")
    slots = {"title": sample.document.title, "text": sample.document.text}
    return _text(prompts["generate_with_document"].fill(slots))


def _messages(
    prompt: str, lines: Sequence[Line], prompt_role: Literal["system", "user"]
) -> tuple[Message, ...]:
    said = [
        Message(role=_ROLES[(len(lines) - place - 1) % 2], parts=(line,))
        for place, line in enumerate(lines)
    ]
    if prompt_role == "user":
        return begin_with(prompt, said)
    return (Message(role="system", parts=(Text(text=prompt),)), *said)


def _text(messages: Sequence[Message]) -> str:
    """The text of a prompt file, whose one message may be sent in either role."""
    if len(messages) != 1:
        raise PromptError(f"a prompt for utterances holds one message, not {len(messages)}")
    return messages[0].text
