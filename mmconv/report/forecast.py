"""What a run would cost: calls and estimated tokens per seat, before anything is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mmconv.config import RunSpec
from mmconv.plans import Plan
from mmconv.report.summary import cost
from mmconv.values import Call, Cell, Image, Part, Table, Text

CHARACTERS_PER_TOKEN = 4.0
"""Of text in Latin letters; a Chinese character counts as a token."""

PIXELS_PER_TOKEN = 750.0
"""Hosted models and current open ones take about so many pixels for one token."""

ANSWER_TOKENS = 300
"""What an answer is taken to be long where its call does not tell, unless it is bounded below."""


@dataclass(slots=True)
class _Count:
    calls: int = 0
    input_tokens: float = 0.0
    output_tokens: float = 0.0


def forecast(spec: RunSpec, plans: Iterable[Plan]) -> Table:
    """Count the calls of all plans and estimate their tokens; rescues are not foreseen."""
    counts: dict[str, _Count] = {}
    for plan in plans:
        answers = {call.id: _answer(call) for call in plan.calls}
        for call in plan.calls:
            count = counts.setdefault(call.seat, _Count())
            count.calls += 1
            count.input_tokens += sum(_tokens(part, answers) for part in _parts(call))
            count.output_tokens += answers[call.id]
    rows = {seat: _row(spec, seat, count) for seat, count in counts.items()}
    return Table(
        name="forecast",
        title="What this run would ask",
        columns=("model", "calls", "input tokens", "output tokens", "US dollars"),
        rows=rows,
        notes=(
            f"Tokens are estimates: {CHARACTERS_PER_TOKEN:g} characters or one Chinese sign, and "
            f"{PIXELS_PER_TOKEN:g} pixels, a token; {ANSWER_TOKENS} tokens an answer, or as many "
            "as published ones have. Calls that the store already holds are counted too.",
        ),
        digits=0,
    )


def _row(spec: RunSpec, seat: str, count: _Count) -> dict[str, Cell]:
    model = spec.seats[seat]
    price = cost(model, count.input_tokens, count.output_tokens)
    return {
        "model": Cell(value=model.label),
        "calls": Cell(value=float(count.calls)),
        "input tokens": Cell(value=count.input_tokens),
        "output tokens": Cell(value=count.output_tokens),
        "US dollars": Cell(value="not priced" if price is None else f"{price:.2f}"),
    }


def _answer(call: Call) -> float:
    expected = ANSWER_TOKENS if call.expected_tokens is None else call.expected_tokens
    return float(min(call.sampling.max_tokens, expected))


def _parts(call: Call) -> Iterator[Part]:
    for message in call.messages:
        yield from message.parts


def _tokens(part: Part, answers: dict[str, float]) -> float:
    if isinstance(part, Text):
        wide = sum(character > "\u2e7f" for character in part.text)
        return wide + (len(part.text) - wide) / CHARACTERS_PER_TOKEN
    if isinstance(part, Image):
        return part.width * part.height / PIXELS_PER_TOKEN
    return answers[part.call]
