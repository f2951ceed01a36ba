"""ConvBench's own options: data, gradings, and every point on which paper and code disagree."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from mmconv.benchmarks.ablations import metrics as ablations
from mmconv.benchmarks.ablations.metrics import DELTAS, GIVEN, LEVELS, QUANTITIES
from mmconv.benchmarks.options import (
    ChatOptions,
    Display,
    ImageOptions,
    Ratings,
    Several,
    word_verdict,
)
from mmconv.core.types import Table

GradingName = Literal["direct", "pairwise"]

ALONE = {"reasoning_alone": 2, "creation_alone": 3}
"""Single-turn conditions (Appendix C.1): the one instruction that is asked, without the others."""

CONDITIONS = (*GIVEN, *ALONE)

ATTRIBUTED = "attributed to"
IN_SHARES = "in the shares"
"""The column that says whether a failure counts in the shares: yes, or no and the reason."""

_SIDE = re.compile(r"pairwise_([AB])/")


class ConvBenchOptions(ChatOptions, ImageOptions):
    """Options under `options:` of a run file.

    `focus_points` and `turn_judgements` switch off what the paper ablates (Appendix C.2). Of
    `skipped_turns`, the paper gives the judge nothing, the authors' code a canned verdict. A
    `denominator` of None takes 577 where the data have as many rows as the authors', and their
    number otherwise.
    """

    earlier: ClassVar[Mapping[str, Any]] = {"order": "random"}

    grading: Several[GradingName] = ("direct", "pairwise")
    """Ratings from 1 to 10 in which the reference is 10, and forced choices against the human."""
    order: Literal["authors", "random", "both"] = "both"
    """The candidate's side in pairs: by the authors' file, drawn, or each side in turn."""
    side_seed: int = Field(default=0, ge=0, le=2**31 - 1)
    """What sides are drawn by (`order: random`): the same for all runs that are compared."""
    focus_points: bool = True
    """Whether the judge of the creation turn reads the focus points."""
    turn_judgements: bool = True
    """Whether the overall judge reads the judgements of the turns, and so needs every one."""
    skipped_turns: Literal["none", "canned"] = "none"
    """What the overall judge reads of reference turns: nothing, or a verdict for the human."""
    judge_sees_image: bool = False
    """Whether the judge is sent the image too; the authors' judge reads text only."""
    extraction: bool = True
    """Whether a verdict that still cannot be read goes to a second prompt, which extracts it."""
    judge_max_tokens: int = Field(default=1024, gt=0)
    """The judge's longest reply, in tokens."""
    annotations: Path | None = None
    """A file with columns that are missing in the data file, joined by ID."""
    positions: Path | None = None
    """The authors' pairwise.npy, which `order: authors` needs."""
    denominator: int | None = Field(default=None, gt=0)
    """The constant of the authors' win rates, in which a missing verdict is a loss (577)."""
    failure_rating: float = Field(default=6.0, ge=1, le=10)
    """The rating under which a turn counts as failed in the attribution of errors."""
    failure_win: float = Field(default=0.5, gt=0, le=1)
    """The win under which a comparison counts as failed: a loss is 0, one win in two orders 0.5."""
    allow_drafts: bool = False
    """Use annotations that no person has verified; every table says so."""
    max_tokens: int = Field(default=1024, gt=0)
    """The candidate's longest reply, in tokens."""

    @model_validator(mode="after")
    def _consistent(self) -> ConvBenchOptions:
        if self.order == "authors" and self.positions is None:
            raise ValueError(
                "order: authors needs positions: the path of the authors' pairwise.npy"
            )
        if not self.grading and not self.generate_only:
            raise ValueError("grading is empty: name direct or pairwise, or set generate_only")
        return self


def own_turns(condition: str) -> tuple[int, ...]:
    """The turns that the candidate answers itself."""
    return (ALONE[condition],) if condition in ALONE else ablations.own_turns(condition)


def word_side(call: str, label: str | None, scores: Mapping[str, float]) -> str:
    """A rating, or who won: the label of a pairwise verdict is a side and not a party."""
    side = _SIDE.match(call)
    if side is not None:
        return f"{'won' if label == side[1] else 'lost'} (shown as {side[1]})"
    return word_verdict(call, label, {} if label else scores)


def mark_failures(tables: Sequence[Table]) -> dict[str, tuple[str, ...]]:
    """Sample -> what its failures are attributed to."""
    marks: dict[str, list[str]] = {}
    for table in tables:
        for name, row in table.rows.items() if table.name == "attribution_samples" else ():
            grading, level, sample = name.split("/", 2)
            # older runs have another title there
            cause = str(row[table.columns[0]].value)
            if not cause.startswith("unknown"):
                failed = "lost" if grading == "pairwise" else "failed"
                counted = row.get(IN_SHARES)
                apart = ", not in the shares" if counted and counted.value != "yes" else ""
                mark = f"{level} {failed}, attributed to {cause} ({grading}{apart})"
                marks.setdefault(sample, []).append(mark)
    return {sample: tuple(found) for sample, found in marks.items()}


SCALE = {"rating": (1.0, 10.0), "win": (0.0, 1.0)}

DISPLAY = Display(
    turns={**LEVELS, 0: "overall"},
    labels={
        "perception": "perfect perception",
        "reasoning": "perfect reasoning",
        "reasoning_alone": "reasoning alone",
        "creation_alone": "creation alone",
        "rating": "direct rating",
        "win": "pairwise win",
    },
    rows={**QUANTITIES, **{name: QUANTITIES[goal] for name, (_, goal) in DELTAS.items()}},
    maps={f"categories_{level}": ("category", turn) for turn, level in LEVELS.items()},
    ratings=(Ratings(metric="rating", lowest=1, highest=10, by_turn=True),),
    metric="rating",
    given="reference",
    marks=mark_failures,
    verdict=word_side,
)
"""How results are shown to readers."""
