"""Judges: the prompt files that they are asked by, and those that follow none.

`settings.prompts` holds a folder for each set of prompts that is replaced, whole or in part, named
as ours in `judges/prompts`. Offline judges are no language models: they measure answers to
ConvBench.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from judges import PromptSet
from mmconv.benchmarks.convbench.benchmark import OFFLINE_JUDGES
from mmconv.core.config import ModelSpec
from mmconv.service.errors.problems import Problem
from mmconv.service.settings import Settings


def prompt_set(settings: Settings, name: str) -> PromptSet:
    """The prompts of a benchmark, or of `dialogue`, read once; raises `PromptError`."""
    return _read(name, prompt_folder(settings, name))


def prompt_folder(settings: Settings, name: str) -> Path | None:
    """The operator's folder for this set of prompts, if there is one."""
    if settings.prompts is None:
        return None
    folder = settings.prompts / name
    return folder if folder.is_dir() else None


@cache
def _read(name: str, folder: Path | None) -> PromptSet:
    return PromptSet(name, folder)


def is_offline(judge: ModelSpec) -> bool:
    """Whether the judge is no language model."""
    return judge.provider in OFFLINE_JUDGES


def convbench_only(judge: str, param: str) -> Problem:
    """What is told where an offline judge, by its public name, is asked for anything else."""
    return Problem(
        400,
        f"{param}: the judge {judge!r} is no language model and judges by ConvBench's prompts only",
        param=param,
        code="convbench_only",
    )
