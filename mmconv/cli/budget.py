"""`--max-cost`: what the calls of one session may cost, and when it is too much."""

from __future__ import annotations

from dataclasses import dataclass

from mmconv.config import ModelSpec, RunSpec
from mmconv.errors import ConfigError
from mmconv.report.summary import cost, session_cost, tell_dollars
from mmconv.tally import Tally

EXAMPLE = "{input: 2.5, output: 10}"


@dataclass(frozen=True, slots=True)
class Budget:
    """So many US dollars for the calls of a run that are asked in one session.

    Raises `ConfigError` that names every model without a price.
    """

    spec: RunSpec
    dollars: float

    def __post_init__(self) -> None:
        unpriced = [
            f"{seat} ({model.label})"
            for seat, model in self.spec.seats.items()
            if model.price is None
        ]
        if unpriced:
            raise ConfigError(
                f"--max-cost: no price is known of {', '.join(unpriced)}; write `price: {EXAMPLE}` "
                "into the model's file, in US dollars per million tokens (0 and 0 where it costs "
                "nothing)"
            )

    def spent(self, tally: Tally) -> str | None:
        """Why a run has to stop by what it has asked; None where it may go on."""
        for name, seat in tally.seats.items():
            model = self.spec.seats[name]
            if seat.unmetered and cost(model, 1, 1):
                return _untold(name, model)
        dollars = session_cost(self.spec, tally) or 0.0
        if dollars <= self.dollars:
            return None
        spent = tell_dollars(dollars)
        return f"--max-cost {self.dollars:g}: the calls of this session have cost ${spent}"


def _untold(seat: str, model: ModelSpec) -> str:
    return (
        f"--max-cost: what {seat} ({model.label}) costs is not known: its replies do not tell how "
        "many tokens they take; leave out --max-cost, or write `price: {input: 0, output: 0}` into "
        "the model's file where it costs nothing"
    )
