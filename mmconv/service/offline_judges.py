"""Judges that are no language models: they measure answers to ConvBench, and follow no prompt."""

from __future__ import annotations

from mmconv.service.problems import Problem


def convbench_only(judge: str, param: str) -> Problem:
    """What is told where such a judge, by its public name, is asked for anything else."""
    return Problem(
        400,
        f"{param}: the judge {judge!r} is no language model and judges by ConvBench's prompts only",
        param=param,
        code="convbench_only",
    )
