"""Scenes: ConvBench's three turns and conditions on drawn images whose truth is known.

The images are drawn from a seed when a run begins (`images.drawn`). References are exact, and a
program checks every reply, so there is neither a data file nor a judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, field_validator

from images.drawn import FAMILIES, FINGERPRINT, Language, draw_sample, fingerprint, hash_code
from images.drawn import Sample as Drawn
from mmconv.benchmarks.ablations.metrics import DELTAS, GIVEN, LEVELS, QUANTITIES, own_turns
from mmconv.benchmarks.base.benchmark import Benchmark
from mmconv.benchmarks.base.dataset import Dataset, choose_samples
from mmconv.benchmarks.base.layouts import Build, Layout
from mmconv.benchmarks.base.metrics import Metric
from mmconv.benchmarks.base.results import Results, Scale
from mmconv.benchmarks.base.sample import ImageFile, Sample
from mmconv.benchmarks.data_files.records import Record
from mmconv.benchmarks.options import Condition, Display, Options, Several
from mmconv.benchmarks.scenes.metrics import TURNS, boards, layouts, metrics
from mmconv.core.config import CANDIDATE
from mmconv.core.keys import hash_json
from mmconv.core.protocols import ImageSink
from mmconv.core.turns import Turn, chain
from mmconv.core.types import Call, Sampling, Score, Text

DRAWN_ELSEWHERE = (
    "This machine draws other pixels than the authors' (another version of Pillow or FreeType): "
    "compare only runs with the same `drawing` in their manifests."
)
_LEVELS = "levels must be from 1 to 10, as in 1-10 or 2,4,6"


class Scene(Sample):
    """A drawing, by the numbers that it is drawn from."""

    family: str
    level: int
    seed: int
    number: int
    language: Language
    image: ImageFile

    def drawn(self) -> Drawn:
        """The drawing with its dialogue."""
        return draw_sample(self.family, self.level, self.seed, self.number, self.language)


class ScenesOptions(Options):
    """Which images are drawn: `n` of each family and level, by the seed of the run."""

    # the options of benchmarks that read files and are judged; none of them is offered here
    data: ClassVar[None]  # type: ignore[misc]
    sheet: ClassVar[None]  # type: ignore[misc]
    skip_bad_records: ClassVar[bool] = False  # type: ignore[misc]
    generate_only: ClassVar[bool] = False  # type: ignore[misc]
    families: Several[str] = tuple(FAMILIES)
    """The families of drawings."""
    levels: Several[int] = tuple(range(1, 11))
    """The levels of difficulty, from 1 to 10."""
    n: int = Field(default=10, ge=1, le=1000)
    """How many images of each family and level."""
    language: Language = "en"
    """The language of the dialogues: en or zh."""
    candidate_system: str | None = None
    """A system prompt for the candidate."""
    max_tokens: int = Field(default=1024, gt=0)
    """The candidate's longest reply, in tokens."""

    @field_validator("families")
    @classmethod
    def _known(cls, families: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := [name for name in families if name not in FAMILIES]:
            raise ValueError(f"unknown family {unknown[0]!r}; there are: {', '.join(FAMILIES)}")
        return families

    @field_validator("levels", mode="before")
    @classmethod
    def _range(cls, levels: Any) -> Any:
        if isinstance(levels, str) and "-" in levels:
            ends = re.fullmatch(r"\s*(\d+)\s*-\s*(\d+)\s*", levels)
            if ends is None:
                raise ValueError(_LEVELS)
            return tuple(range(int(ends[1]), int(ends[2]) + 1))
        return levels

    @field_validator("levels")
    @classmethod
    def _in_range(cls, levels: tuple[int, ...]) -> tuple[int, ...]:
        if not levels or min(levels) < 1 or max(levels) > 10:
            raise ValueError(_LEVELS)
        return levels

    @field_validator("families", "levels")
    @classmethod
    def _each_once(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if twice := next((each for each in values if values.count(each) > 1), None):
            raise ValueError(f"{twice!r} is listed twice; write it once")
        return values


def list_scenes(options: ScenesOptions, seed: int) -> Iterator[dict[str, Any]]:
    """What each sample is drawn from: the arguments of `draw_sample`."""
    drawn = {"seed": seed, "language": options.language}
    for number, family, level in product(range(1, options.n + 1), options.families, options.levels):
        yield {"family": family, "level": level, "number": number, **drawn}


class Scenes(Benchmark[Scene, ScenesOptions]):
    """The benchmark. Scores by turn: `right`, `share`, `format`, `read`, `chance`; all 0 to 1."""

    name, title = "scenes", "Scenes"
    conditions = (
        Condition("free", "All three turns are the model's own."),
        Condition("perception", "Perfect perception: the first turn is the truth."),
        Condition("reasoning", "Perfect perception and reasoning: the first two turns are true."),
    )
    roles: ClassVar[Mapping[str, str]] = {CANDIDATE: "The model that is evaluated."}
    scale: ClassVar[Scale] = (0.0, 1.0)
    display = Display(
        turns=LEVELS,
        labels={
            "free": "free",
            "perception": "perfect perception",
            "reasoning": "perfect perception and reasoning",
            "right": "right",
            "share": "share right",
            "format": "format kept",
            "read": "readable",
            "chance": "right by guessing",
            "R2": "mean of the turns",
        },
        rows={**TURNS, **{name: QUANTITIES[goal] for name, (_, goal) in DELTAS.items()}},
        metric="right",
    )

    def read_data(self, images: ImageSink) -> Dataset[Scene]:
        """Draw the images."""
        records = [
            Record(where="{family}-{level}-{number}".format(**fields), fields=fields)
            for fields in list_scenes(self.options, self.spec.seed)
        ]

        def read(record: Record) -> Scene:
            image = images.add_bytes(draw_sample(**record.fields).drawing.png, record.where)
            return Scene(id=record.where, image=image, **record.fields)

        return choose_samples(records, read, self.spec, "the drawings", advice=lambda: ())

    @property
    def data_files(self) -> tuple[Path, ...]:
        """None: the seed and the drawing code are the data."""
        return ()

    @property
    def provenance(self) -> dict[str, Any]:
        """The data are the drawing code and its seed; `drawing` hashes a test card's pixels."""
        drawing, options = fingerprint(), self.options
        data = hash_json([self.spec.seed, options.language, drawing, hash_code()])
        return {**super().provenance, "data": {"drawings": data}, "drawing": drawing}

    def remarks(self) -> Iterator[str]:
        """Whether the pixels are those of other machines."""
        if fingerprint() != FINGERPRINT:
            yield DRAWN_ELSEWHERE

    def tags(self, sample: Scene, turn: int | None) -> dict[str, str]:
        """Family and level, by which tables are split, and the task of a turn."""
        tags = {"family": sample.family, "level": str(sample.level)}
        return tags | ({"task": sample.drawn().turns[turn - 1].task} if turn else {})

    def references(self, sample: Scene, condition: str) -> dict[str, str]:
        """The truth, for the turns that the candidate answers itself."""
        turns = sample.drawn().turns
        return {f"turn_{n}": turns[n - 1].reference for n in own_turns(condition)}

    def metadata(self, sample: Scene) -> dict[str, str]:
        """The truth of each turn."""
        turns = sample.drawn().turns
        return {LEVELS[n]: turn.reference for n, turn in enumerate(turns, start=1)}

    def plan(self, sample: Scene, condition: str) -> Iterator[Call]:
        """The candidate's own turns, after the true ones."""
        given = GIVEN[condition]
        turns = [
            Turn(
                user=(sample.image, Text(text=turn.instruction))
                if n == 1
                else (Text(text=turn.instruction),),
                answer=turn.reference if n <= given else None,
                generate=n > given,
            )
            for n, turn in enumerate(sample.drawn().turns, start=1)
        ]
        sampling = Sampling(max_tokens=self.options.max_tokens)
        yield from chain(
            turns, model=CANDIDATE, sampling=sampling, system=self.options.candidate_system
        )

    def score(self, sample: Scene, results: Results) -> Iterator[Score]:
        """What the program finds in each reply; a failed call has no scores but reasons."""
        drawn = sample.drawn()
        for n in own_turns(results.condition):
            text, reason = results[f"turn_{n}"].text, results[f"turn_{n}"].first_reason
            turn = drawn.turns[n - 1]
            values: dict[str, float] = {}
            if text is not None:
                check = turn.check(text)
                values = {
                    "right": check.outcome == "right",
                    "share": check.share,
                    "format": check.format_kept,
                    "read": check.outcome != "unread",
                }
            for name in ("right", "share", "format", "read"):
                yield results.score(name, values.get(name), reason, turn=n)
            if turn.chance is not None:
                yield results.score("chance", turn.chance, turn=n)

    def metrics(self) -> Iterator[Metric]:
        """See `mmconv.benchmarks.scenes.metrics`."""
        return metrics()

    def leaderboard(self) -> Iterable[Layout]:
        """See `mmconv.benchmarks.scenes.metrics`."""
        return boards()

    def layouts(self) -> Iterable[Layout | Build]:
        """See `mmconv.benchmarks.scenes.metrics`."""
        return layouts(self.options.levels)
