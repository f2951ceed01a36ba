"""Dials: clocks of cities and gauges of pumps. Harder ones have more, smaller and barer dials."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from random import Random
from typing import TypeAlias

from images.drawn.canvas import INK, WHITE, Canvas, Point, mixed, polar
from images.drawn.truth import (
    Draft,
    Drawing,
    Duration,
    Fact,
    Facts,
    Number,
    Problem,
    Step,
    Time,
    one_of,
    ranked,
)
from images.drawn.words import PLACES, PUMPS, Colour

At: TypeAlias = Callable[[float, float], Point]
Style: TypeAlias = tuple[int, Colour]


def draw(draft: Draft) -> Drawing:
    """Some clocks or some gauges, each with a name below."""
    random, plan = draft.random, draft.plan
    is_clock = random.random() < 0.6
    pool = PLACES if is_clock else PUMPS
    names = random.sample(pool, plan.count)
    canvas, places, radius = _board(draft)
    style = random.randrange(3), draft.pick("accents")
    values = (_times if is_clock else _loads)(random, plan)
    for place, name, value in zip(places, names, values, strict=True):
        at = partial(_at, place, radius, random.uniform(-plan.tilt, plan.tilt))
        if is_clock:
            _clock(canvas, radius, at, plan, style, (value, random.randrange(60)))
        else:
            _gauge(canvas, radius, at, plan, style, value)
        size = max(11, radius * 0.2)
        canvas.text((place[0], place[1] + radius * 1.22), name.en, size, face="bold")
    kind = partial(Time, within=plan.within) if is_clock else partial(Number, within=plan.off)
    facts = tuple(map(Fact, names, map(kind, values)))
    question = draft.question("questions" if is_clock else "readings")
    problem = (_time_problem if is_clock else _load_problem)(draft, facts)
    guess = max(plan.multiple, 2 * plan.within + 1) / 720 if is_clock else 0.05
    return Drawing(canvas.finish(), question, facts, problem, guess, pool)


def _times(random: Random, plan: Step) -> list[int]:
    """Times on the dial, any two of them at least ten minutes apart."""
    while True:
        times = [random.choice(range(0, 720, plan.multiple)) for _ in range(plan.count)]
        if all(later - time >= 10 for time, later in pairwise(sorted(times))):
            return times


def _loads(random: Random, plan: Step) -> list[int]:
    """Readings from 0 to 100, far enough apart to be ranked."""
    if plan.multiple > 1:
        return [5 * value for value in random.sample(range(1, 20), plan.count)]
    free = sorted(random.sample(range(2, 99 - 5 * (plan.count - 1)), plan.count))
    loads = [value + 5 * place for place, value in enumerate(free)]
    random.shuffle(loads)
    return loads


def _board(draft: Draft) -> tuple[Canvas, list[Point], float]:
    """A canvas with the middles of the dials, which are slightly out of line, and their radius."""
    count = draft.plan.count
    columns = {1: 1, 2: 2, 3: 3, 4: 2, 6: 3, 8: 4, 9: 3}[count]
    rows = -(-count // columns)
    side = {1: 400, 2: 320, 3: 290}.get(columns, 230) if rows < 3 else 250
    canvas = Canvas(side * columns, round(side * 1.08) * rows, draft.pick("grounds"))
    places = [
        (
            side * (place % columns + 0.5) + draft.random.uniform(-0.04, 0.04) * side,
            side * 1.08 * (place // columns + 0.46) + draft.random.uniform(-0.03, 0.03) * side,
        )
        for place in range(count)
    ]
    return canvas, places, side * 0.36


def _at(centre: Point, radius: float, tilt: float, direction: float, share: float) -> Point:
    """A point of a dial in a direction, at a share of its radius."""
    return polar(centre, radius * share, direction + tilt)


def _clock(
    canvas: Canvas, radius: float, at: At, plan: Step, style: Style, time: tuple[int, int]
) -> None:
    (kind, accent), (minutes, seconds) = style, time
    face, strong = ((44, 48, 58), WHITE) if kind == 2 else (WHITE, INK)
    ink = mixed(face, strong, plan.contrast)
    canvas.disc(at(0, 0), radius, face, (accent if kind == 1 else INK, radius * 0.06))
    for tick in range(60 if plan.ticks else 0):
        inner, width = (0.82, 2) if tick % 5 == 0 else (0.87, 1)
        canvas.line([at(6 * tick, 0.9), at(6 * tick, inner)], ink, width)
    for tick in range(0 if plan.ticks else 12):
        canvas.disc(at(30 * tick, 0.86), 2 + 2 * (tick == 0), ink)
    for numeral in range(1, 13):
        if plan.numerals and numeral % (12 // plan.numerals) == 0:
            canvas.text(at(30 * numeral, 0.68), str(numeral), radius * 0.17, colour=ink)
    hour, minute = minutes / 2, 6 * (minutes % 60)
    canvas.line([at(hour, -0.1), at(hour, 0.46)], ink, radius * 0.075)
    canvas.line([at(minute, -0.12), at(minute, 0.76)], ink, radius * 0.04)
    if plan.second_hand:
        canvas.line([at(6 * seconds, -0.16), at(6 * seconds, 0.8)], accent, 1.5)
    canvas.disc(at(0, 0), radius * 0.055, accent)


def _gauge(canvas: Canvas, radius: float, at: At, plan: Step, style: Style, value: int) -> None:
    face, directions = (250, 250, 246), [-135 + 2.7 * load for load in range(101)]
    ink = mixed(face, INK, plan.contrast)
    canvas.disc(at(0, 0), radius, face, (INK, radius * 0.05))
    for load in range(0, 101, 2 if plan.ticks else 10):
        direction, (inner, width) = directions[load], (0.84, 1) if load % 10 else (0.78, 2)
        canvas.line([at(direction, 0.9), at(direction, inner)], ink, width)
        if load % {12: 10, 4: 20, 0: 50}[plan.numerals] == 0:
            canvas.text(at(direction, 0.63), str(load), max(9, radius * 0.13), colour=ink)
    for ends in pairwise(directions[80:] if style[0] == 1 else ()):
        canvas.line([at(direction, 0.94) for direction in ends], (208, 46, 48), radius * 0.04)
    hand = directions[value]
    canvas.line([at(hand, -0.15), at(hand, 0.74)], style[1], radius * 0.035)
    canvas.disc(at(0, 0), radius * 0.08, INK)


def _time_problem(draft: Draft, facts: Facts) -> Problem:
    random, within = draft.random, draft.plan.within
    if len(facts) == 1 or random.random() < 0.35:
        one = random.choice(facts)
        later = random.choice((45, 80, 95, 130, 155, 205) if draft.level > 2 else (30, 60, 90))
        time = Time((one.number + later) % 720, within=within)
        return draft.problem("later", time, one=one.subject, start=one.value, later=later)
    if len(facts) > 2 and random.random() < 0.4:
        order = ranked(facts)[::-1]
        place = random.randint(1, len(facts) - 1)
        name = one_of(order[place], facts)
        return draft.problem("rank", name, place=place + 1, order=draft.items(order))
    one, other = random.sample(facts, 2)
    apart = Duration((other.number - one.number) % 720, within=2 * within)
    names = {"one": one.subject, "other": other.subject}
    return draft.problem("until", apart, **names, start=one.value, end=other.value)


def _load_problem(draft: Draft, facts: Facts) -> Problem:
    random, within = draft.random, draft.plan.off
    order = ranked(facts)
    most, least = order[0].number, order[-1].number
    ask = partial(draft.problem, order=draft.items(order))
    if len(facts) == 1:
        return ask("missing", Number(100 - most, within=within))
    if random.random() < 0.5:
        return ask("gap", Number(most - least, within=2 * within))
    place = random.randint(0, len(facts) - 1)
    return ask("order", one_of(order[place], facts), place=place + 1)
