"""The one thing that the candidate is asked: to answer feedback on an answer that stands already.

Nothing is judged here.
"""

from __future__ import annotations

from mmconv.benchmarks.fbbench.data import Sample
from mmconv.benchmarks.fbbench.options import TEMPERATURES
from mmconv.core.turns import Turn, chain
from mmconv.core.types import Call, Sampling, Text

ANSWER = "turn_2"
"""The id of the call that answers the feedback."""


def answer_call(sample: Sample, max_tokens: int) -> Call:
    """The candidate's answer to the feedback, after the preset first one."""
    turns = [
        Turn(user=(Text(text=sample.query),), answer=sample.first_answer, generate=False),
        Turn(user=(Text(text=sample.feedback),)),
    ]
    sampling = Sampling(temperature=TEMPERATURES[sample.task], max_tokens=max_tokens)
    [call] = chain(turns, seat="candidate", sampling=sampling)
    return call
