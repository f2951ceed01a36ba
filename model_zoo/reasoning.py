"""Splits a model's reasoning from its answer.

Only reasoning that opens a reply is split off; an answer that talks about the tags keeps them.
Servers that split reasoning themselves put it into another field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from mmconv.core.protocols import Channel, Listen

_TAGS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("◁think▷", "◁/think▷"),
    ("[THINK]", "[/THINK]"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
)
"""Tags of DeepSeek, Qwen, GLM and many others, Claude, Kimi, Mistral, Gemini, models trained with
GRPO, Seed-OSS and gpt-oss."""

_BETWEEN_CHANNELS = "<|end|><|start|>assistant"
"""The text before the closing tag of gpt-oss."""

_MARKS = (_BETWEEN_CHANNELS, "<answer>", "</answer>", *(tag for tags in _TAGS for tag in tags))

_LONE_CLOSING = re.compile(r"(?<![`'\"])(?:</(?:think|thinking)>|◁/think▷)")
_WHOLE_ANSWER = re.compile(r"<answer>((?:(?!</?answer>).)*)(?:</answer>)?", re.DOTALL)
_ANY_OPENING = re.compile(r"<(?:think|thinking)>|◁think▷")


def opened_by(prompt: str) -> str:
    """The opening tag that a prompt ends with, as some chat templates write it; else empty."""
    begun = prompt.rstrip()
    return next((opening for opening, _ in _TAGS if begun.endswith(opening)), "")


def is_of_tag(token: str) -> bool:
    """Whether a special token is a tag, or a part of a tag of gpt-oss."""
    return bool(token) and any(token in tag for tags in _TAGS for tag in tags)


def split_reasoning(text: str, *, others: bool = False, opened: str = "") -> tuple[str | None, str]:
    """The reasoning that opens `text`, or None, and the answer that follows it.

    A closing tag alone (`</think>`, `</thinking>`, `◁/think▷`) ends reasoning whose opening tag
    was in the prompt, unless the server has split reasoning off already (`others`). An opening tag
    alone, in the reply or at the end of the prompt (`opened`), means that the reply was cut short
    while thinking: the answer is then empty. Empty reasoning is None. `<answer>` and `</answer>`
    around all that follows reasoning are removed, too (GLM-4.1V), also without the closing one.
    """
    begun = text.lstrip()
    if not begun.startswith(opened):
        begun = opened + begun
    for opening, closing in _TAGS:
        if begun.startswith(opening):
            reasoning, _, answer = begun.removeprefix(opening).partition(closing)
            return _split(reasoning.removesuffix(_BETWEEN_CHANNELS), answer)
    lone = None if others else _LONE_CLOSING.search(text)
    if lone is None or _ANY_OPENING.search(text, 0, lone.start()):
        return None, text
    return _split(text[: lone.start()], text[lone.end() :])


class ReplyPieces:
    """Passes the pieces of a growing reply on, as text and reasoning.

    What may yet become a tag or a text in `stops`, or be stripped, is held back. Without `opened`,
    a tag that the prompt opened is only seen when it closes; what precedes it has gone out as text.
    """

    def __init__(self, listen: Listen, *, opened: str = "", stops: Iterable[str] = ()) -> None:
        self._listen = listen
        self._opened = opened
        self._marks = (*_MARKS, *stops)
        self._longest = max(map(len, self._marks))
        self._passed: dict[Channel, str] = {"reasoning": "", "text": ""}

    def grow(self, text: str, others: str | None = None) -> None:
        """Take the whole reply so far; `others` is reasoning that a server split off."""
        reasoning, answer = split_reasoning(text, others=others is not None, opened=self._opened)
        self._pass("reasoning", others or reasoning or "")
        self._pass("text", answer)

    def _pass(self, channel: Channel, text: str) -> None:
        for length in range(min(self._longest, len(text)), 0, -1):
            if any(mark.startswith(text[-length:]) for mark in self._marks):
                text = text[:-length]
                break
        # a character of several tokens is U+FFFD until it is whole
        text = text.rstrip("\ufffd").rstrip()
        passed = self._passed[channel]
        if len(text) > len(passed) and text.startswith(passed):
            self._passed[channel] = text
            self._listen(channel, text[len(passed) :])


def _split(reasoning: str, answer: str) -> tuple[str | None, str]:
    answer = answer.strip()
    if tagged := _WHOLE_ANSWER.fullmatch(answer):
        answer = tagged[1].strip()
    return reasoning.strip() or None, answer
