"""The prompt files that judges are asked by: ours, or those that the operator put in their place.

`settings.prompts` holds a folder for each set of prompts that is replaced, whole or in part, named
as ours in `judges/prompts`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from judges import PromptSet
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
