"""What calls cost, by the prices in their models' files, and how that is told."""

from __future__ import annotations

from decimal import Decimal

from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.run_stats import Tally


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
    # of those that nobody needs, which are no calls of the run, there may be more
    return f"price not known: {unmetered:,} of {max(calls, unmetered):,} calls without tokens"


def tell_dollars(amount: float) -> str:
    """US dollars to the cent; less than ten cents to two digits, so that little is not nothing."""
    if amount >= 0.1 or not amount:
        return f"{amount:.2f}"
    return f"{Decimal(f'{amount:.2g}'):f}"


def session_cost(spec: RunSpec, tally: Tally) -> float | None:
    """Price in US dollars of the calls asked now; None where no model's file gives a price.

    Calls without tokens add nothing: `tell_session_cost` tells of them.
    """
    prices = [
        cost(spec.seats[name], seat.input_tokens, seat.output_tokens)
        for name, seat in tally.seats.items()
    ]
    known = [price for price in prices if price is not None]
    return sum(known) if known else None


def tell_session_cost(spec: RunSpec, tally: Tally) -> str:
    """What the calls asked now cost, as far as that is known; "" if no model's file has a price."""
    paid = [seat for name, seat in tally.seats.items() if cost(spec.seats[name], 1, 1)]
    if unmetered := sum(seat.unmetered for seat in paid):
        return tell_unmetered(unmetered, sum(seat.asked for seat in paid))
    if (dollars := session_cost(spec, tally)) is None:
        return ""
    told = f"${tell_dollars(dollars)}"
    if timed_out := sum(seat.timed_out for seat in paid):
        attempts = "1 attempt" if timed_out == 1 else f"{timed_out:,} attempts"
        return f"{told} without {attempts} that timed out"
    return told
