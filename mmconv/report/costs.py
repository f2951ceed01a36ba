"""What a run would cost: calls and estimated tokens per role, before anything is asked.

Which calls the store holds is looked up elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from images.policy import Policy, fit
from mmconv.core.config import PIXELS_PER_TOKEN, ModelSpec, RunSpec, load_model, model_files
from mmconv.core.graph import dependencies, is_needless
from mmconv.core.plans import Plan
from mmconv.core.run_stats import RunStats
from mmconv.core.types import Call, Cell, Image, Part, Ref, Reply, Table, Text


def cost(
    model: ModelSpec, input_tokens: float, output_tokens: float, unmetered: int = 0
) -> float | None:
    """Price in US dollars of so many tokens; None where the model's file gives no price.

    Nor is it known where calls were `unmetered`, unless they are free.
    """
    price = model.price
    if price is None or (unmetered and (price.input or price.output)):
        return None
    return (input_tokens * price.input + output_tokens * price.output) / 1e6


def tell_unmetered(unmetered: int, calls: int) -> str:
    """Why the price of so many calls is not known."""
    # unused calls, which are not part of the run, may add to them
    return f"price not known: {unmetered:,} of {max(calls, unmetered):,} calls without tokens"


def tell_dollars(amount: float) -> str:
    """US dollars to the cent; less than ten cents to two digits, so that little is not nothing."""
    if amount >= 0.1 or not amount:
        return f"{amount:.2f}"
    return f"{Decimal(f'{amount:.2g}'):f}"


def session_cost(spec: RunSpec, stats: RunStats) -> float | None:
    """Price in US dollars of the calls asked now; None where no model's file gives a price.

    Calls without tokens add nothing: `tell_session_cost` mentions them.
    """
    prices = [
        cost(spec.models[name], role.input_tokens, role.output_tokens)
        for name, role in stats.models.items()
    ]
    known = [price for price in prices if price is not None]
    return sum(known) if known else None


def tell_session_cost(spec: RunSpec, stats: RunStats) -> str:
    """What the calls asked now cost, as far as that is known; "" if no model's file has a price."""
    paid = [role for name, role in stats.models.items() if cost(spec.models[name], 1, 1)]
    if unmetered := sum(role.unmetered for role in paid):
        return tell_unmetered(unmetered, sum(role.requested for role in paid))
    if (dollars := session_cost(spec, stats)) is None:
        return ""
    text = f"${tell_dollars(dollars)}"
    if timed_out := sum(role.timed_out for role in paid):
        attempts = "1 attempt" if timed_out == 1 else f"{timed_out:,} attempts"
        return f"{text} without {attempts} that timed out"
    return text


CHARACTERS_PER_TOKEN = 4.0
"""Of text in Latin letters; a Chinese character counts as a token."""

ANSWER_TOKENS = 300
"""What an answer is taken to be long if its call does not say, unless it is bounded below."""


COLUMNS = (
    "model",
    "calls",
    "stored",
    "to ask",
    "input tokens",
    "output tokens",
    "at most",
    "US dollars",
)


@dataclass(slots=True)
class _Count:
    stored: int = 0
    unasked: int = 0
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    most_output: int = 0
    images: int = 0


@dataclass(slots=True)
class Forecast:
    """Counts of a run's calls, and estimates of what those take that are still to be asked."""

    spec: RunSpec
    counts: dict[str, _Count] = field(default_factory=dict)

    def add(self, plan: Plan, replies: Mapping[str, Reply]) -> None:
        """Count a plan's calls; `replies` are those that the store holds. Rescues are not foreseen.

        A call that is known to compare equal texts is not counted.
        """
        limits = {call.id: self._limit(call) for call in plan.calls}
        answers = {call.id: _answer(call, limits[call.id], replies) for call in plan.calls}
        for call in plan.calls:
            if dependencies(call) <= replies.keys() and is_needless(call, replies):
                continue
            count = self.counts.setdefault(call.model, _Count())
            if call.id in replies:
                count.stored += 1
                continue
            count.unasked += 1
            for part in _parts(call):
                if isinstance(part, Image):
                    count.images += 1
                    count.input_tokens += _image_tokens(self.spec.models[call.model], part)
                else:
                    count.input_tokens += _tokens(part, answers)
            count.output_tokens += answers[call.id]
            count.most_output += limits[call.id]

    def _limit(self, call: Call) -> int:
        """The longest reply to the call, in tokens, as its role sets it."""
        model = self.spec.models[call.model].sampling
        for sampling in (self.spec.sampling.get(call.model), model):
            if sampling is not None and "max_tokens" in sampling.model_fields_set:
                return sampling.max_tokens
        return call.sampling.max_tokens

    @property
    def table(self) -> Table:
        """A row for each role."""
        return Table(
            name="forecast",
            title="What this run would ask",
            columns=COLUMNS,
            rows={role: _row(self.spec, role, count) for role, count in self.counts.items()},
            notes=(
                "Tokens and dollars are of the calls to ask, without those that the store holds; "
                f"tokens are estimates: {CHARACTERS_PER_TOKEN:g} characters or one Chinese sign a "
                f"token; {ANSWER_TOKENS} tokens an answer, or as many as published ones have, and "
                "at most what the model is allowed.",
                *(
                    _tell_image_tokens(self.spec, role)
                    for role, count in self.counts.items()
                    if count.images
                ),
                *filter(None, (_priced_namesake(self.spec, role) for role in self.counts)),
            ),
            digits=0,
        )


def estimate_tokens(text: str) -> float:
    """About how many tokens a text takes, whatever the model."""
    wide = sum(character > "\u2e7f" for character in text)
    return wide + (len(text) - wide) / CHARACTERS_PER_TOKEN


def _row(spec: RunSpec, role: str, count: _Count) -> dict[str, Cell]:
    model = spec.models[role]
    price = cost(model, count.input_tokens, count.output_tokens)
    return {
        "model": Cell(value=model.label),
        "calls": Cell(value=float(count.stored + count.unasked)),
        "stored": Cell(value=float(count.stored)),
        "to ask": Cell(value=float(count.unasked)),
        "input tokens": Cell(value=count.input_tokens),
        "output tokens": Cell(value=count.output_tokens),
        "at most": Cell(value=float(count.most_output)),
        "US dollars": Cell(value="not priced" if price is None else tell_dollars(price)),
    }


def _priced_namesake(spec: RunSpec, role: str) -> str | None:
    """The shipped model that may be meant by one without a price.

    Its price is not taken: a provider's name may stand for other weights, at another price.
    """
    model = spec.models[role]
    if model.price is not None or model.base_url is not None or model.model not in model_files():
        return None
    shipped = load_model(model.model)
    if shipped.price is None or shipped.provider != model.provider:
        return None
    return (
        f"{role}: {model.provider}/{model.model} has no price here. {model.model} is shipped with "
        f"one, as {shipped.provider}/{shipped.model}: name the model `{model.model}` to take it."
    )


def _answer(call: Call, limit: int, replies: Mapping[str, Reply]) -> float:
    if call.id in replies:
        return estimate_tokens(replies[call.id].text)
    expected = ANSWER_TOKENS if call.expected_tokens is None else call.expected_tokens
    return float(min(limit, expected))


def _parts(call: Call) -> Iterator[Part]:
    for message in call.messages:
        yield from message.parts


def _tokens(part: Text | Ref, answers: Mapping[str, float]) -> float:
    return estimate_tokens(part.text) if isinstance(part, Text) else answers[part.call]


def _image_tokens(model: ModelSpec, image: Image) -> float:
    """Of the size that is sent; what `max_bytes` takes from it is not foreseen."""
    # the shipped providers call them alike
    bounds = {name: bound for name, bound in model.options.items() if isinstance(bound, int)}
    policy = Policy(
        max_pixels=bounds.get("max_pixels"),
        min_pixels=bounds.get("min_pixels"),
        max_side=bounds.get("max_side"),
    )
    width, height = fit(policy, image.width, image.height)
    rule = model.about.image_tokens
    return width * height / PIXELS_PER_TOKEN if rule is None else rule.count(width, height)


def _tell_image_tokens(spec: RunSpec, role: str) -> str:
    rule = spec.models[role].about.image_tokens
    guess = (
        f"one for {PIXELS_PER_TOKEN:g} pixels, which is a guess: its model file has no "
        "about.image_tokens"
    )
    text = guess if rule is None else rule
    return f"Tokens of an image, in the size that the {role} is sent: {text}."
