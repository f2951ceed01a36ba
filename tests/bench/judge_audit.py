"""Whether an audit finds what is planted, over many simulated runs.

Run `python -m tests.bench.judge_audit`. For each judge it draws the verdicts of all controls with
numpy, and reads them with the product's own metrics and warnings. It prints how often the 95 %
interval of each number holds the planted value, and how often there is no warning.

Two samples share an image. A share of the images draws once for all turns and controls, so verdicts
are clustered. The planted values follow from the judge's errors by the formulas of `expected`.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from mmconv.benchmarks.audit import metrics as rows
from mmconv.benchmarks.audit.metrics import (
    ALTERNATING,
    LONGER,
    OPPOSITE,
    REPEAT,
    RIGHT,
    SECOND,
    WRONG,
    are_right,
    describe_state,
)
from mmconv.benchmarks.audit.trust import layouts
from mmconv.benchmarks.base.layouts import Context, make_tables
from mmconv.core.types import Score, Table
from mmconv.stats import ScoreFrame

TURNS = (1, 2, 3)
LIKE_ALTERNATING = (LONGER, REPEAT, SECOND)
DIRECT = rows.Measured(
    score="rating", title="direct", least=6.0, ends=(1.0, 10.0), is_comparison=False
)
PAIRWISE = rows.Measured(
    score="win", title="pairwise", least=0.5, ends=(0.0, 1.0), is_comparison=True
)
PASSED, FAILED, SPREAD = 7.5, 3.5, 1
SPREAD_VARIANCE = 2 / 3
SIDES = ("", "A", "B")
"""No side: a direct rating."""

Place = tuple[str, int]
"""A control and a turn."""
Shares = NDArray[np.float64]
States = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """What a judge does wrong.

    `fails_right` and `passes_wrong` are its error rates after a wrong turn, `halo` how much rarer
    it fails an answer after a right one. `slope` is what a doubling of the length adds to a rating,
    `forgets` the share of repeated verdicts that are drawn again, `side` the share of comparisons
    that the first side wins.
    """

    fails_right: float = 0.0
    passes_wrong: float = 0.0
    halo: float = 0.0
    slope: float = 0.0
    forgets: float = 0.0
    side: float = 0.0

    def passes(self, right: States, after_right: States) -> Shares:
        """How likely each answer passes."""
        base = np.where(right, 1 - self.fails_right, self.passes_wrong)
        passes: Shares = np.clip(base + self.halo * after_right, 0, 1)
        return passes

    def wins(self, right: States, side: str) -> Shares:
        """How likely each answer wins against the reference."""
        fair = np.where(right, 0.5, self.passes_wrong)
        return (1 - self.side) * fair + self.side * (side == "A")


SECOND_JUDGE = Judge(fails_right=0.1, passes_wrong=0.1)

JUDGES = {
    "faultless": Judge(forgets=1.0),
    "good": Judge(fails_right=0.05, passes_wrong=0.1, forgets=0.2, slope=0.1, side=0.05),
    "fair": Judge(fails_right=0.2, passes_wrong=0.2, halo=0.1, slope=0.4, forgets=0.4, side=0.2),
    "poor": Judge(fails_right=0.4, passes_wrong=0.5, halo=0.2, slope=0.8, forgets=0.8, side=0.5),
}


def main() -> None:
    args = parse()
    print(f"{args.runs} runs of {args.samples} samples on {args.samples // 2} images\n")
    print("| judge | number | planted | covered | without interval |")
    print("| --- | --- | ---: | ---: | ---: |")
    started = time.monotonic()
    silent = {}
    for name in args.judges:
        held, silent[name] = simulate(name, args.runs, args.samples)
        truth = expected(JUDGES[name], args.samples)
        for (title, row), answers in held.items():
            known = [each for each in answers if each is not None]
            covered = f"{100 * fmean(known):.1f} %" if known else "-"
            without = f"{100 * (1 - len(known) / len(answers)):.0f} %"
            print(f"| {name} | {row}, {title} | {truth[title, row]:.3g} | {covered} | {without} |")
    for name, share in silent.items():
        print(f"\n{name}: no warning in {100 * share:.1f} % of runs")
    print(f"\n{time.monotonic() - started:.0f} s")


def simulate(
    name: str, runs: int, samples: int
) -> tuple[Mapping[tuple[str, str], list[bool | None]], float]:
    """Of each number, whether its interval held the truth in each run; the share without warning.

    None: there was no interval.
    """
    judge, truth, states = JUDGES[name], expected(JUDGES[name], samples), states_of(samples)
    template = ScoreFrame([*scores_of(states)])
    held: defaultdict[tuple[str, str], list[bool | None]] = defaultdict(list)
    silent = []
    for run in range(runs):
        random = np.random.default_rng([[*JUDGES].index(name), run])
        tables = audited(with_values(template, np.concatenate([*draw(judge, states, random)])))
        for place, value in truth.items():
            held[place].append(holds(tables, place, value))
        notes = [note for table in tables for note in table.notes]
        silent.append(not any(note.startswith("WARNING") for note in notes))
    return held, fmean(silent)


def with_values(template: ScoreFrame, values: Shares) -> ScoreFrame:
    """A frame of the same scores with other values: making one anew takes most of the time."""
    frame = template.only()
    frame._values = values
    return frame


def audited(frame: ScoreFrame) -> list[Table]:
    """The tables of an audit with these scores."""
    measured = [metric for each in (DIRECT, PAIRWISE) for metric in rows.measure_judge(each)]
    return make_tables(
        [*layouts("a simulation")], measured, {"judge": frame}, Context(candidate="")
    )


def holds(tables: list[Table], place: tuple[str, str], value: float) -> bool | None:
    """Whether the interval in this column and row holds a value."""
    title, row = place
    cell = next(table.rows[row][title] for table in tables if row in table.rows)
    if cell.low is None or cell.high is None:
        return None
    return cell.low - 1e-9 <= value <= cell.high + 1e-9


def states_of(samples: int) -> dict[Place, States]:
    """Control and turn -> whether each sample's answer is right."""
    return {
        (control, turn): np.array(
            [are_right(control, str(sample), len(TURNS))[turn - 1] for sample in range(samples)]
        )
        for control, turn in product(
            (RIGHT, WRONG, ALTERNATING, OPPOSITE, *LIKE_ALTERNATING), TURNS
        )
    }


def before(states: Mapping[Place, States], place: Place) -> States:
    """Whether the answer before is right; turn 1 has none."""
    control, turn = place
    return states.get((control, turn - 1), np.zeros_like(states[place]))


def draw(
    judge: Judge, states: Mapping[Place, States], random: np.random.Generator
) -> Iterator[Shares]:
    """The values of an audit's scores, in the order of `scores_of`."""
    samples = len(next(iter(states.values())))
    images = np.arange(samples) // 2
    alike = (random.random(samples) < 0.3)[images]
    shared = random.random(samples)[images]
    first: dict[tuple[int, str], Shares] = {}
    for place, right in states.items():
        control, turn = place
        chosen = SECOND_JUDGE if control == SECOND else judge
        own = random.random(samples)
        numbers = np.where(alike & (control not in LIKE_ALTERNATING), shared, own)
        passed = numbers < chosen.passes(right, before(states, place))
        rated: Shares = np.where(passed, PASSED, FAILED) + random.integers(
            -SPREAD, SPREAD + 1, samples
        )
        drawn: dict[str, Shares] = {"": rated + judge.slope * (control == LONGER)}
        for side in SIDES[1:]:
            won = random.random(samples) < chosen.wins(right, side)
            drawn[side] = won.astype(np.float64)
        for side, values in drawn.items():
            if control == ALTERNATING:
                first[turn, side] = values
            before_it = first.get((turn, side), values)
            is_kept = random.random(samples) >= judge.forgets
            kept: Shares = np.where(is_kept, before_it, values)
            yield kept if control == REPEAT else values


def scores_of(states: Mapping[Place, States]) -> Iterator[Score]:
    """A score of each sample with the tags of an audit; its value is drawn later."""
    for (control, turn), rights in states.items():
        earlier = states.get((control, turn - 1))
        for side in SIDES:
            for sample, right in enumerate(rights):
                tags = {"cluster": str(sample // 2), "answer": describe_state([bool(right)])}
                if earlier is not None:
                    tags["before"] = describe_state([bool(earlier[sample])])
                yield Score(
                    sample=str(sample),
                    condition=control,
                    metric=PAIRWISE.score if side else DIRECT.score,
                    turn=turn,
                    tags=tags | ({"side": side} if side else {}),
                    value=0.0,
                )


def expected(judge: Judge, samples: int) -> dict[tuple[str, str], float]:
    """Column and row -> what the judge's errors come to, in the units of the table."""
    states = states_of(samples)

    def pooled(chosen: Judge, control: str) -> Shares:
        return np.concatenate(
            [
                chosen.passes(states[control, turn], before(states, (control, turn)))
                for turn in TURNS
            ]
        )

    right, wrong, mixed = (pooled(judge, name) for name in (RIGHT, WRONG, ALTERNATING))
    other = pooled(SECOND_JUDGE, ALTERNATING)
    within = judge.forgets * float(
        np.mean((PASSED - FAILED) ** 2 * mixed * (1 - mixed)) + SPREAD_VARIANCE
    )
    share = float(mixed.mean())
    total = (PASSED - FAILED) ** 2 * share * (1 - share) + SPREAD_VARIANCE
    agree = float(np.mean(mixed * other + (1 - mixed) * (1 - other)))
    chance = share * other.mean() + (1 - share) * (1 - other.mean())
    direct = {
        rows.SEPARATION: 100 * float(right.mean() - wrong.mean()),
        rows.FAILS_RIGHT: 100 * float(1 - right.mean()),
        rows.PASSES_WRONG: 100 * float(wrong.mean()),
        **dict.fromkeys((rows.KINDER_TO_RIGHT, rows.KINDER_TO_WRONG), 100 * judge.halo),
        rows.LENGTH: judge.slope,
        rows.FLIPS: 100 * judge.forgets * float(np.mean(2 * mixed * (1 - mixed))),
        rows.DEVIATION: within**0.5,
        rows.RELIABILITY: 1 - within / total,
        rows.KAPPA: float((agree - chance) / (1 - chance)),
    }
    first, second = ((1 - judge.side) * judge.passes_wrong + shift for shift in (judge.side, 0.0))
    pairwise = {
        rows.SEPARATION: 100 * (1 - first - second),
        rows.PASSES_WRONG: 50 * (first + second),
        rows.PREFERS_FIRST: 100 * judge.side,
        rows.CHANGES_WITH_ORDER: 100 * (first * (1 - second) + second * (1 - first)),
        rows.FLIPS: 100 * judge.forgets * fmean(2 * win * (1 - win) for win in (first, second)),
        rows.LENGTH: 0.0,
    }
    return {
        (measured.title, row): value
        for measured, numbers in ((DIRECT, direct), (PAIRWISE, pairwise))
        for row, value in numbers.items()
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3000, help="of each judge")
    parser.add_argument("--samples", type=int, default=60, help="two to an image")
    parser.add_argument("--judges", nargs="+", choices=JUDGES, default=list(JUDGES))
    return parser.parse_args()


if __name__ == "__main__":
    main()
