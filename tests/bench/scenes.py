"""The drawn benchmark: its speed, whether planted faults come back, how often guesses are right.

    python -m tests.bench.scenes speed      500 samples drawn and 3,000 replies checked
    python -m tests.bench.scenes planted    500 runs of each of four models with planted faults
    python -m tests.bench.scenes blind      a model that guesses, against the stated rates

`planted` fails if fewer than 93 % of the intervals of a figure hold what was planted, all models
together.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache, partial
from itertools import islice, permutations, product
from random import Random
from statistics import fmean

from images.drawn import FAMILIES, LEVELS, draw_sample
from images.drawn.truth import Drawing, Plain, Value
from tests.mmconv.benchmarks.scenes.rehearsal import Place, Rehearsal, holds, truth

MODELS = {
    "perception fails": (0.5, 0.1, 0.05),
    "reasoning fails": (0.1, 0.5, 0.1),
    "all fail": (0.3, 0.2, 0.1),
    "strong": (0.1, 0.05, 0.05),
}
LEAST = 0.93


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("speed", "planted", "blind"))
    parser.add_argument("--runs", type=int, default=500, help="runs of each model (planted)")
    parser.add_argument("--n", type=int, default=40, help="drawings of each level (blind)")
    options = parser.parse_args()
    if options.what == "speed":
        measure_speed()
    elif options.what == "planted":
        plant(options.runs)
    else:
        guess(options.n)


def measure_speed() -> None:
    """Draw 500 samples, and check two replies to each of their turns."""
    places = [*islice(product(range(1, 99), FAMILIES, LEVELS), 500)]
    started, cpu = time.monotonic(), time.process_time()
    samples = [
        draw_sample(family, level, 0, number, "en" if number % 2 else "zh")
        for number, family, level in places
    ]
    print(
        f"500 samples drawn: {time.monotonic() - started:.1f} s, "
        f"{time.process_time() - cpu:.1f} s CPU"
    )
    started, cpu = time.monotonic(), time.process_time()
    outcomes = Counter(
        sample.check(n, reply).outcome
        for sample in samples
        for n, turn in enumerate(sample.turns, start=1)
        for reply in (turn.reference, f"**Sure!** Let me see.\n\n{turn.reference}")
    )
    print(
        f"{outcomes.total():,} replies checked: {time.monotonic() - started:.1f} s, "
        f"{time.process_time() - cpu:.1f} s CPU"
    )


def plant(runs: int) -> None:
    """Print how often intervals hold what was planted."""
    rehearsal = Rehearsal()
    held: defaultdict[Place, dict[str, float]] = defaultdict(dict)
    for model, rates in MODELS.items():
        known = dict(truth(*rates))
        hits: Counter[Place] = Counter()
        for seed in range(runs):
            cells = rehearsal.measured(rehearsal.run(partial(always, rates), seed), known)
            hits.update(place for place, value in known.items() if holds(cells[place], value))
        for place in known:
            held[place][model] = hits[place] / runs
    print(f"| figure | {' | '.join(MODELS)} | all |")
    for place, by_model in held.items():
        shares = [*by_model.values(), fmean(by_model.values())]
        print(f"| {place[1]} | {' | '.join(f'{100 * share:.1f}' for share in shares)} |")
    if missed := [place[1] for place, each in held.items() if fmean(each.values()) < LEAST]:
        sys.exit(f"fewer than {LEAST:.0%}: {', '.join(missed)}")


def always(rates: tuple[float, float, float], _: int) -> tuple[float, float, float]:
    return rates


def guess(n: int) -> None:
    """Print stated rates, and those of a model that states what is true of another drawing."""
    print("| family | task | " + " | ".join(f"{level}" for level in LEVELS) + " |")
    for family in FAMILIES.values():
        rates: defaultdict[str, dict[int, tuple[float, float]]] = defaultdict(dict)
        for level in LEVELS:
            drawings = [family.draw(Random(f"blind/{level}/{each}"), level) for each in range(n)]
            for task, stated, measured in guesses(drawings):
                rates[task][level] = stated, measured
        for task, by_level in rates.items():
            cells = (by_level.get(level) for level in LEVELS)
            row = (f"{100 * cell[0]:.1f} ({100 * cell[1]:.1f})" if cell else "" for cell in cells)
            print(f"| {family.name} | {task} | {' | '.join(row)} |")


def guesses(drawings: list[Drawing]) -> Iterator[tuple[str, float, float]]:
    """Each task with the stated rate and the measured one."""
    tasks: defaultdict[str, list[tuple[float, tuple[Value, ...]]]] = defaultdict(list)
    for drawing in drawings:
        values = tuple(fact.value for fact in drawing.facts)
        tasks[f"facts, {type(values[0]).__name__}"].append((drawing.guess, values))
        tasks[drawing.problem.task].append((drawing.problem.guess, (drawing.problem.answer,)))
    for task, answers in tasks.items():
        stated = [rate for rate, _ in answers]
        right = [
            true.accepts(guessed)
            for (_, truths), (_, others) in permutations(answers, 2)
            for true, guessed in product(truths, map(read, others))
        ]
        if right:
            yield task, fmean(stated), fmean(right)


@cache
def read(value: Value) -> Plain:
    """The value as a checker reads it."""
    return next(value.find(value.say("en"))).value


if __name__ == "__main__":
    main()
