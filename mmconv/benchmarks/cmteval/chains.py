"""The dialogue that the candidate holds: every turn after its own replies to those before.

There is no system prompt (paper, section 4.1). Nothing is judged here.
"""

from __future__ import annotations

from mmconv.benchmarks.cmteval.data import Dialogue
from mmconv.core.turns import Turn, chain
from mmconv.core.types import Call, Sampling, Text

TEMPERATURE = 0.2
"""The authors' script for model replies; the paper says that it is the same for all models."""


def candidate_calls(dialogue: Dialogue, max_tokens: int) -> tuple[Call, ...]:
    """One call per turn, `turn_<number>`."""
    turns = [Turn(user=(Text(text=turn.query),)) for turn in dialogue.turns]
    sampling = Sampling(temperature=TEMPERATURE, max_tokens=max_tokens)
    return chain(turns, seat="candidate", sampling=sampling)
