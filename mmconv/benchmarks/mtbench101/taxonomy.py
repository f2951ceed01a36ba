"""MT-Bench-101's three tiers: thirteen tasks, seven abilities, three groups.

Nothing is scored here. The order is that of the paper's Table 3.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One of the thirteen tasks, and where it stands in the paper's taxonomy (Figure 2).

    `first` is the first turn that is generated and judged; the turns before it are only history
    (Appendix C). `dialogues` and `turns` count what the authors' file holds of it, generated turns
    only.
    """

    code: str
    name: str
    ability: str
    group: str
    first: int
    dialogues: int
    turns: int


TASKS: dict[str, Task] = {
    code: Task(
        code=code,
        name=name,
        ability=ability,
        group=group,
        first=first,
        dialogues=dialogues,
        turns=turns,
    )
    for code, name, ability, group, first, dialogues, turns in (
        ("CM", "context memory", "memory", "perceptivity", 2, 80, 239),
        ("SI", "separate input", "understanding", "perceptivity", 1, 149, 620),
        ("AR", "anaphora resolution", "understanding", "perceptivity", 2, 153, 407),
        ("TS", "topic shift", "interference", "perceptivity", 1, 83, 249),
        ("CC", "content confusion", "interference", "perceptivity", 1, 147, 352),
        ("CR", "content rephrasing", "rephrasing", "adaptability", 2, 136, 253),
        ("FR", "format rephrasing", "rephrasing", "adaptability", 2, 74, 123),
        ("SC", "self-correction", "reflection", "adaptability", 2, 77, 77),
        ("SA", "self-affirmation", "reflection", "adaptability", 2, 73, 73),
        ("MR", "mathematical reasoning", "reasoning", "adaptability", 1, 108, 224),
        ("GR", "general reasoning", "reasoning", "adaptability", 1, 71, 218),
        ("IC", "instruction clarification", "questioning", "interactivity", 1, 150, 426),
        ("PI", "proactive interaction", "questioning", "interactivity", 1, 87, 354),
    )
}
"""The tasks by the paper's abbreviations. Counts: Table 6, without the turns that are history."""

REFERENCED = ("MR", "GR")
"""The tasks whose judge is given a reference solution (Figures 31 and 32)."""

AVERAGE = "average"
"""The name of the mean over all tasks."""


def _parts() -> dict[str, tuple[str, ...]]:
    parts = {AVERAGE: tuple(TASKS)}
    for tier in ("group", "ability"):
        for task in TASKS.values():
            name = getattr(task, tier)
            parts[name] = (*parts.get(name, ()), task.code)
    return parts


MEANS = _parts()
"""The means over tasks, each with its tasks: the average, the groups, the abilities."""
