"""Costs: what calls cost, and a forecast of calls and tokens before a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace

from images.policy import Policy, fit
from mmconv.core.config import PIXELS_PER_TOKEN, ModelSpec, RunSpec
from mmconv.core.graph import is_needless
from mmconv.core.plans import Plan
from mmconv.core.run_stats import RunStats, Tokens
from mmconv.core.types import Call, Cell, Image, Reply, Table, Text
from mmconv.report.tables.cells import two_digits

BATCH_DISCOUNT = 0.5
"""The share of the price that OpenAI, Anthropic and others take off requests in batches."""


def cost(model: ModelSpec, tokens: Tokens) -> float | None:
    """Price in US dollars; None without a price, and with unmetered calls that are not free."""
    price = model.price
    if price is None or (tokens.unmetered and is_paid(model)):
        return None
    read = tokens.input - BATCH_DISCOUNT * tokens.batched_input
    written = tokens.output - BATCH_DISCOUNT * tokens.batched_output
    cached = tokens.cached - BATCH_DISCOUNT * tokens.batched_cached
    cached_price = price.input if price.cached_input is None else price.cached_input
    saved = cached * (price.input - cached_price)
    return (read * price.input + written * price.output - saved) / 1e6


def is_paid(model: ModelSpec) -> bool:
    """Whether the model's file has a price that is not 0."""
    return model.price is not None and bool(model.price.input or model.price.output)


def unknown_price(unmetered: int, calls: int) -> str:
    """The reason why a price is unknown: some of the calls have no token counts."""
    # unused calls, which are not part of the run, may add to them
    return f"price unknown: {unmetered:,} of {max(calls, unmetered):,} calls without token counts"


def format_dollars(amount: float) -> str:
    """US dollars to the cent; less than ten cents to two digits, so that little is not nothing."""
    if amount >= 0.1 or not amount:
        return f"{amount:.2f}"
    return two_digits(amount)


def session_cost(spec: RunSpec, stats: RunStats) -> float | None:
    """Price in US dollars of this session's metered calls; None if no model has a price."""
    prices = [
        cost(spec.models[name], replace(role.session, unmetered=0))
        for name, role in stats.models.items()
    ]
    known = [price for price in prices if price is not None]
    return sum(known) if known else None


def describe_session_cost(spec: RunSpec, stats: RunStats) -> str:
    """The price of this session's calls in words; "" if no model has a price."""
    paid = [role for name, role in stats.models.items() if is_paid(spec.models[name])]
    if unmetered := sum(role.session.unmetered for role in paid):
        return unknown_price(unmetered, sum(role.requested for role in paid))
    if (dollars := session_cost(spec, stats)) is None:
        return ""
    text = f"${format_dollars(dollars)}"
    if timed_out := sum(role.timed_out for role in paid):
        attempts = "1 attempt" if timed_out == 1 else f"{timed_out:,} attempts"
        return f"{text} without {attempts} that timed out"
    return text


CHARACTERS_PER_TOKEN = 4.0
"""Of text in Latin letters; a Chinese character counts as a token."""

ANSWER_TOKENS = 300
"""The assumed length of an answer whose call does not state one."""


@dataclass(slots=True)
class _Count:
    cached: int = 0
    uncached: int = 0
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    most_output: int = 0
    images: int = 0


@dataclass(slots=True)
class Forecast:
    """Counts of a run's calls, and estimates of the tokens of those that are not cached."""

    spec: RunSpec
    counts: dict[str, _Count] = field(default_factory=dict)

    def add(self, plan: Plan, replies: Mapping[str, Reply]) -> None:
        """Count a plan's calls; `replies` are the cached ones.

        Fallbacks are not foreseen. A call that would compare equal texts is not counted.
        """
        limits = {call.id: self._limit(call) for call in plan.calls}
        answers: dict[str, float] = {}
        for call in plan.calls:
            expected = ANSWER_TOKENS if call.expected_tokens is None else call.expected_tokens
            answers[call.id] = min(limits[call.id], expected)
            if call.id in replies:
                answers[call.id] = estimate_tokens(replies[call.id].text)
        for call in plan.calls:
            if call.needs <= replies.keys() and is_needless(call, replies):
                continue
            count = self.counts.setdefault(call.model, _Count())
            if call.id in replies:
                count.cached += 1
                continue
            count.uncached += 1
            for part in (part for message in call.messages for part in message.parts):
                if isinstance(part, Image):
                    count.images += 1
                    count.input_tokens += _image_tokens(self.spec.models[call.model], part)
                elif isinstance(part, Text):
                    count.input_tokens += estimate_tokens(part.text)
                else:
                    count.input_tokens += answers[part.call]
            count.output_tokens += answers[call.id]
            count.most_output += limits[call.id]

    def _limit(self, call: Call) -> int:
        model = self.spec.models[call.model].sampling
        for sampling in (self.spec.sampling.get(call.model), model):
            if sampling is not None and "max_tokens" in sampling.model_fields_set:
                return sampling.max_tokens
        return call.sampling.max_tokens

    @property
    def price(self) -> float | None:
        """US dollars of the models that have a price; None if none has."""
        models = self.spec.models
        prices = [_expected_cost(models[role], count) for role, count in self.counts.items()]
        known = [price for price in prices if price is not None]
        return sum(known) if known else None

    @staticmethod
    def total(forecasts: Collection[Forecast]) -> dict[str, Cell]:
        """The columns of `table` for all roles of these forecasts together."""
        counts = [count for forecast in forecasts for count in forecast.counts.values()]
        names = [field.name for field in fields(_Count)]
        sums = _Count(**{name: sum(getattr(each, name) for each in counts) for name in names})
        known = [price for each in forecasts if (price := each.price) is not None]
        return _cells(sums, sum(known) if known else None)

    @property
    def table(self) -> Table:
        """A row for each role."""
        rows = {}
        for role, count in self.counts.items():
            model = self.spec.models[role]
            rows[role] = {"model": Cell(value=model.label)}
            rows[role] |= _cells(count, _expected_cost(model, count))
        notes = [
            "Tokens and dollars are estimates for the calls to request: "
            f"{CHARACTERS_PER_TOKEN:g} characters or one Chinese character a token; "
            f"{ANSWER_TOKENS} tokens an answer, or the mean of published ones, and at most the "
            "model's limit."
        ]
        for role, count in self.counts.items():
            if count.images:
                rule = self.spec.models[role].about.image_tokens or (
                    f"one for {PIXELS_PER_TOKEN:g} pixels, a guess (its model file has no "
                    "about.image_tokens)"
                )
                notes.append(f"Tokens of an image, in the size sent to the {role}: {rule}.")
        prices = {role: self.spec.models[role].price for role in self.counts}
        if any(price and price.cached_input is not None for price in prices.values()):
            notes.append("Tokens that a server may read from its cache are priced as all others.")
        if batched := [role for role in self.counts if self.spec.models[role].batch]:
            notes.append(f"In batches, at half the price: {', '.join(batched)}.")
        return Table.of("forecast", "Calls of this run", rows, notes=tuple(notes), digits=0)


def estimate_tokens(text: str) -> float:
    """The approximate number of tokens of a text for any model."""
    wide = sum(character > "\u2e7f" for character in text)
    return wide + (len(text) - wide) / CHARACTERS_PER_TOKEN


def _expected_cost(model: ModelSpec, count: _Count) -> float | None:
    price = cost(model, Tokens(input=round(count.input_tokens), output=round(count.output_tokens)))
    return price and price * (BATCH_DISCOUNT if model.batch else 1.0)


def _cells(count: _Count, price: float | None) -> dict[str, Cell]:
    return {
        "calls": Cell(value=float(count.cached + count.uncached)),
        "cached": Cell(value=float(count.cached)),
        "to request": Cell(value=float(count.uncached)),
        "input tokens": Cell(value=count.input_tokens),
        "output tokens": Cell(value=count.output_tokens),
        "at most": Cell(value=float(count.most_output)),
        "US dollars": Cell(value="not priced" if price is None else format_dollars(price)),
    }


def _image_tokens(model: ModelSpec, image: Image) -> float:
    """The tokens of an image in the size that is sent; a reduction to `max_bytes` is ignored."""
    # the shipped providers have the same names for these options
    bounds = {name: bound for name, bound in model.options.items() if isinstance(bound, int)}
    policy = Policy(
        max_pixels=bounds.get("max_pixels"),
        min_pixels=bounds.get("min_pixels"),
        max_side=bounds.get("max_side"),
    )
    width, height = fit(policy, image.width, image.height)
    rule = model.about.image_tokens
    return width * height / PIXELS_PER_TOKEN if rule is None else rule.count(width, height)
