"""The drawn benchmark: its speed, whether planted faults come back, how often guesses are right.

    python -m tests.bench.scenes speed      500 samples drawn and 3,000 replies checked
    python -m tests.bench.scenes planted    500 runs of each of four models with planted faults
    python -m tests.bench.scenes blind      a model that guesses, against the stated rates

`planted` fails if fewer than 93 % of the intervals of a figure hold what was planted, all models
together.
"""

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache, partial
from itertools import islice, product
from math import nan
from pathlib import Path
from random import Random
from statistics import fmean

import images.drawn.truth as truths
from images.drawn import FAMILIES, LEVELS, draw_sample
from images.drawn.canvas import Canvas
from images.drawn.dialogue import draw
from images.drawn.truth import Drawing, Name, Number, Plain, Value
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
    parser.add_argument("--n", type=int, default=400, help="drawings of each level (blind)")
    parser.add_argument("--write", action="store_true", help="write guesses.toml (blind)")
    options = parser.parse_args()
    if options.what == "speed":
        measure_speed()
    elif options.what == "planted":
        plant(options.runs)
    else:
        guess(options.n, write=options.write)


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
        turn.check(reply).outcome
        for sample in samples
        for turn in sample.turns
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


def guess(n: int, *, write: bool) -> None:
    """Print the stated rates, and those of a model that states what is true of another drawing."""
    for method in ("box", "disc", "line", "polygon", "text", "finish"):
        setattr(Canvas, method, lambda *_, **__: None)  # only the truth is wanted
    rates = [
        "# How often the answer of another drawing is right, at levels 1 to 10 (nan: not asked).",
        "# Written by `python -m tests.bench.scenes blind --write`.",
    ]
    print(f"| family | task | {' | '.join(map(str, LEVELS))} |")
    for name in FAMILIES:
        tasks: defaultdict[str, dict[int, tuple[float, float]]] = defaultdict(dict)
        for level in LEVELS:
            drawings = [draw(name, level, Random(f"blind/{level}/{each}")) for each in range(n)]
            for task, stated, measured in guesses(drawings):
                tasks[task][level] = stated, measured
        for task, levels in tasks.items():
            cells = (levels.get(level) for level in LEVELS)
            row = (f"{100 * cell[0]:.1f} ({100 * cell[1]:.1f})" if cell else "" for cell in cells)
            print(f"| {name} | {task} | {' | '.join(row)} |")
        rates += ["", f"[{name}]"]
        for task, levels in tasks.items():
            if not task.startswith("facts,"):
                shares = [round(levels[n][1], 3) if n in levels else nan for n in LEVELS]
                rates.append(f"{json.dumps(task)} = [{', '.join(map(str, shares))}]")
    if write:
        path = Path(truths.__file__).with_name("guesses.toml")
        path.write_text("\n".join([*rates, ""]), encoding="utf-8")


def guesses(drawings: list[Drawing]) -> Iterator[tuple[str, float, float]]:
    """Each task with the stated rate and the measured one; names are drawn from those asked for."""
    tasks: defaultdict[str, list[tuple[float, tuple[Value, ...]]]] = defaultdict(list)
    for drawing in drawings:
        values = tuple(fact.value for fact in drawing.facts)
        is_share = isinstance(values[0], Number) and values[0].unit.en == "%"
        kind = "share" if is_share else f"facts, {type(values[0]).__name__}"
        tasks[kind].append((drawing.guess, values))
        if not isinstance(answer := drawing.problem.answer, Name):
            tasks[drawing.problem.task].append((drawing.problem.guess, (answer,)))
    for task, answers in tasks.items():
        stated = [rate for rate, _ in answers]
        right = [
            true.accepts(guessed)
            for step in range(1, min(40, len(answers)))
            for (_, trues), (_, others) in zip(answers, answers[step:], strict=False)
            for true, guessed in product(trues, map(read, others))
        ]
        if right:
            yield task, fmean(stated), fmean(right)


@cache
def read(value: Value) -> Plain:
    """The value as a checker reads it."""
    return next(value.find(value["en"])).value


if __name__ == "__main__":
    main()
