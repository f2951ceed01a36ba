"""What a run of the simulated candidate and judge must show on average, without running anything.

Exact: the draws behind the six answers of a sample are cut where a rate lies, and every combination
of the pieces is gone through. Samples and conditions are ConvBench's; nothing is drawn here.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from math import prod
from statistics import fmean
from typing import TypeAlias

from model_zoo.simulated.planted import LEVELS, CandidateOptions, JudgeOptions

Place: TypeAlias = tuple[str, int]
"""A condition and a turn (1-3; 0 is the whole conversation)."""

Pattern: TypeAlias = frozenset[Place]
"""The places whose answers are wrong."""

GIVEN = {"free": 0, "perception": 1, "reasoning": 2}
"""How many turns a condition gives; the others are the candidate's own."""

PLACES: tuple[Place, ...] = tuple(
    (condition, turn) for condition, given in GIVEN.items() for turn in range(given + 1, 4)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The truth behind a run's tables, for the metrics `rating` and `win` (from 0 to 1).

    `means` has it by (metric, condition, turn), turn 0 being the whole conversation. `falls` has
    by how much the rate of failing falls when a level is made perfect, by (metric, level that
    failed, level that is blamed). `net` has these falls as shares of all failures, and `split` as
    shares of those that perfect turns fix. A level that never fails has none of them. All are what
    the judge's verdicts come to on average, its errors included: the truth of the planted faults is
    that of a judge without errors.
    """

    means: Mapping[tuple[str, str, int], float]
    net: Mapping[tuple[str, str, str], float]
    falls: Mapping[tuple[str, str, str], float]
    split: Mapping[tuple[str, str, str], float]


def expected(
    candidate: CandidateOptions, judge: JudgeOptions, failure_rating: float = 6.0
) -> Expected:
    """The expected value of every score, delta (a difference of means) and attribution share.

    `failure_rating` is ConvBench's option: a lower rating is a failure, as is a lost comparison.
    Pairwise shares hold where one side is judged (`order: random` or `authors`).
    """
    chances = _patterns(candidate)
    by_state = {
        "rating": {wrong: fmean(_ratings(judge, wrong=wrong)) for wrong in (False, True)},
        "win": {False: judge.win.right, True: judge.win.wrong},
    }
    failing = {
        "rating": {
            wrong: fmean(float(rating < failure_rating) for rating in _ratings(judge, wrong=wrong))
            for wrong in (False, True)
        },
        "win": {wrong: 1 - win for wrong, win in by_state["win"].items()},
    }
    means = {
        (metric, condition, turn): _mean(
            chances, partial(_verdict, judge, metric, score), condition, turn
        )
        for metric, score in by_state.items()
        for condition, given in GIVEN.items()
        for turn in (*range(given + 1, 4), 0)
    }
    net: dict[tuple[str, str, str], float] = {}
    falls: dict[tuple[str, str, str], float] = {}
    split: dict[tuple[str, str, str], float] = {}
    for (metric, states), turn in product(failing.items(), (2, 3)):
        places = [(condition, turn) for condition in tuple(GIVEN)[:turn]]
        fails = partial(_verdict, judge, metric, states)
        rates = [_mean(chances, fails, *place) for place in places]
        if rates[0] == 0:
            continue
        level = LEVELS[turn - 1]
        for blamed, (before, after) in zip(LEVELS, pairwise([*rates, 0.0]), strict=False):
            falls[metric, level, blamed] = before - after
            net[metric, level, blamed] = (before - after) / rates[0]
            if turn == 3 and blamed != level:
                split[metric, level, blamed] = (before - after) / (rates[0] - rates[-1])
    return Expected(means=means, net=net, falls=falls, split=split)


def _verdict(
    judge: JudgeOptions, metric: str, by_state: Mapping[bool, float], place: Place, wrong: bool
) -> float:
    """The mean of a verdict on an answer, where `by_state` has it for what it is taken for."""
    condition, turn = place
    given = min(GIVEN[condition], turn - 1) > 0
    rate = judge.errors.taken_for_wrong(wrong=wrong, after_given=given)
    mean = rate * by_state[True] + (1 - rate) * by_state[False]
    if metric == "rating":
        return mean
    # a side that decides lets either party win as often
    return judge.errors.side * 0.5 + (1 - judge.errors.side) * mean


def _patterns(candidate: CandidateOptions) -> dict[Pattern, float]:
    """The probability of every combination of wrong answers of one sample."""
    chances: defaultdict[Pattern, float] = defaultdict(float)
    for weight, source in _sources(candidate):
        cuts = {source(place): set[float]() for place in PLACES}
        for place in PLACES:
            cuts[source(place)] |= {
                candidate.rate(place[1], after_wrong=wrong) for wrong in (False, True)
            }
        pieces = [
            [(low, high - low) for low, high in pairwise(sorted({0.0, 1.0} | cut))]
            for cut in cuts.values()
        ]
        for chosen in product(*pieces):
            number = dict(zip(cuts, (low for low, _ in chosen), strict=True))
            pattern = _outcome(candidate, {place: number[source(place)] for place in PLACES})
            chances[pattern] += weight * prod(width for _, width in chosen)
    return {pattern: chance for pattern, chance in chances.items() if chance}


def _sources(candidate: CandidateOptions) -> Iterator[tuple[float, Callable[[Place], Hashable]]]:
    """Who shares a draw with whom: the share of the samples, and the draw behind a place."""
    alike = candidate.alike
    yield alike.levels, lambda _: "all"
    for kept in product((True, False), repeat=2):
        weight = prod(alike.conditions if each else 1 - alike.conditions for each in kept)
        steady = frozenset(turn for turn, each in zip((2, 3), kept, strict=True) if each)
        yield (1 - alike.levels) * weight, partial(_source, steady)


def _source(steady: frozenset[int], place: Place) -> Hashable:
    """The draw behind a place: the turn's where it is steady, else one of its own."""
    return place[1] if place[1] in steady else place


def _outcome(candidate: CandidateOptions, number: Mapping[Place, float]) -> Pattern:
    """The wrong answers, where the draws behind the places are known."""
    wrong: set[Place] = set()
    for condition, turn in PLACES:
        rate = candidate.rate(turn, after_wrong=(condition, turn - 1) in wrong)
        if number[condition, turn] < rate:
            wrong.add((condition, turn))
    return frozenset(wrong)


def _mean(
    chances: Mapping[Pattern, float],
    verdict: Callable[[Place, bool], float],
    condition: str,
    turn: int,
) -> float:
    places = [(condition, each) for each in ((turn,) if turn else (1, 2, 3))]
    return sum(
        chance * fmean(verdict(place, place in pattern) for place in places)
        for pattern, chance in chances.items()
    )


def _ratings(judge: JudgeOptions, *, wrong: bool) -> range:
    return judge.rating.drawn(judge.rating.wrong if wrong else judge.rating.right)
