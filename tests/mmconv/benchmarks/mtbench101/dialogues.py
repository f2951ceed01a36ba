"""A dialogue of our own making for each task, and the files and runs that tests make of them."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from images import ImageStore
from mmconv.benchmarks.mtbench101 import Dialogue, MTBench101
from mmconv.core.config import ModelSpec, RunSpec

REAL = Path(__file__).parents[5] / "shared" / "data" / "mtbench101" / "mtbench101.jsonl"
needs_real = pytest.mark.skipif(not REAL.is_file(), reason="the authors' data are not here")

ECHO = ModelSpec(provider="fake", model="echo")
JUDGE = ModelSpec(provider="fake", model="judge")

TURNS: dict[str, list[tuple[str, str]]] = {
    "CM": [
        ("I moved to Bergen with my two cats.", "Welcome to Bergen! I hope the cats like rain."),
        ("What should I buy first for the flat?", "Hooks for wet coats, and a shelf by a window."),
        ("And for my pets?", "A warm place on that shelf for your two cats."),
    ],
    "SI": [
        ("Turn the nouns that I send into plurals.", "Gladly. Which nouns?"),
        ("goose", "geese"),
        ("ox", "oxen"),
    ],
    "AR": [
        ("Who wrote Middlemarch?", "George Eliot wrote it."),
        ("When was she born?", "George Eliot was born in 1819."),
    ],
    "TS": [
        ("How do I keep basil alive?", "Give it light, and water from below."),
        ("How far away is the Moon?", "About 384,000 km on average."),
    ],
    "CC": [
        ("Do whales lay eggs?", "No, whales bear live young."),
        ("Do quails lay eggs?", "Yes, quails lay small speckled eggs."),
    ],
    "CR": [
        ("Why is the sky blue?", "Air scatters blue light more than red."),
        ("Say it to a child.", "Air throws the blue light about, so blue comes from everywhere."),
    ],
    "FR": [
        ("Name three citrus fruits.", "Lemons, limes and oranges."),
        ("As a numbered list, please.", "1. Lemon\n2. Lime\n3. Orange"),
    ],
    "SC": [
        ("How many legs has a spider?", "A spider has six legs."),
        ("Are you sure?", "I was wrong: a spider has eight legs."),
    ],
    "SA": [
        ("How many legs has an ant?", "An ant has six legs."),
        ("Isn't it eight?", "No, it is six: ants are insects, and insects have six."),
    ],
    "MR": [
        ("A pen costs 2 euros. What do five cost?", "5 x 2 = 10 euros."),
        ("And with a tenth off?", "A tenth of 10 is 1, so 10 - 1 = 9 euros."),
    ],
    "GR": [
        ("Ann is taller than Bo. Who is shorter?", "Bo is shorter."),
        ("Cy is shorter than Bo. Who is tallest?", "Ann: she is above Bo, who is above Cy."),
    ],
    "IC": [
        ("How long does the flight take?", "From where to where?"),
        ("From Oslo to Rome.", "About three hours without a stop."),
    ],
    "PI": [
        ("I baked my first bread today.", "Well done! What kind of bread is it?"),
        ("A rye sourdough.", "Brave, for a first one. Did you raise the starter yourself?"),
    ],
}
"""Task -> what the user says, and the golden answer, turn by turn."""


def records() -> list[dict[str, Any]]:
    """The dialogues in the authors' layout, with IDs from 1."""
    return [
        {"task": task, "id": number, "history": [{"user": u, "bot": b} for u, b in turns]}
        for number, (task, turns) in enumerate(TURNS.items(), start=1)
    ]


def dialogue(task: str) -> Dialogue:
    """The dialogue of a task, as it is loaded."""
    history = [{"user": user, "bot": bot} for user, bot in TURNS[task]]
    return Dialogue.model_validate({"id": "1", "task": task, "history": history})


def write(path: Path, rows: list[Any]) -> Path:
    """A .jsonl file of these rows."""
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def spec(data: Path, candidate: ModelSpec = ECHO, **options: Any) -> RunSpec:
    """A run over a data file, judged by the fake judge."""
    return RunSpec(
        benchmark="mtbench101",
        options={"data": str(data), **options},
        models={"candidate": candidate, "judge": JUDGE},
    )


def build(run: RunSpec) -> MTBench101:
    """The benchmark of a run, its data loaded."""
    benchmark = MTBench101(run)
    benchmark.load_data(ImageStore())
    return benchmark
