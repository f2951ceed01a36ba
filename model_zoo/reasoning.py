"""Splits what a model thought aloud from its answer.

Only reasoning that opens a reply is split off; an answer that talks about the tags keeps them.
Servers that split for themselves put reasoning into a field of its own: nothing is done here then.
"""

from __future__ import annotations

import re

_OPENING = re.compile(r"\s*(?:<(think|thinking)>|◁think▷)")
_CLOSING = re.compile(r"</(think|thinking)>|◁/think▷")
_LONE_CLOSING = re.compile(r"(?<![`'\"])(?:</(?:think|thinking)>|◁/think▷)")
_WHOLE_ANSWER = re.compile(r"<answer>((?:(?!</?answer>).)*)(?:</answer>)?", re.DOTALL)
_ANY_OPENING = re.compile(r"<(?:think|thinking)>|◁think▷")


def split_reasoning(text: str) -> tuple[str | None, str]:
    """The reasoning that opens `text`, or None, and the answer that follows it.

    Tags are `<think>`, `<thinking>` and `◁think▷`. A closing tag alone ends reasoning whose opening
    tag stood in the prompt; an opening tag alone means that the reply was cut short while
    thinking: the answer is then empty. Empty reasoning is None. Of what follows reasoning,
    `<answer>` and `</answer>` around all of it go, too (GLM-4.1V); the latter may not have come.
    """
    if "think" not in text:
        return None, text
    opening = _OPENING.match(text)
    if opening is None:
        return _split_at_lone_closing(text)
    closing = next(
        (tag for tag in _CLOSING.finditer(text, opening.end()) if tag[1] == opening[1]), None
    )
    if closing is None:
        return text[opening.end() :].strip() or None, ""
    return _split(text, opening.end(), closing)


def _split_at_lone_closing(text: str) -> tuple[str | None, str]:
    closing = _LONE_CLOSING.search(text)
    if closing is None or _ANY_OPENING.search(text, 0, closing.start()):
        return None, text
    return _split(text, 0, closing)


def _split(text: str, begin: int, closing: re.Match[str]) -> tuple[str | None, str]:
    answer = text[closing.end() :].strip()
    if tagged := _WHOLE_ANSWER.fullmatch(answer):
        answer = tagged[1].strip()
    return text[begin : closing.start()].strip() or None, answer
