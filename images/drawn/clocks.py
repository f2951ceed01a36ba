"""Dials: clocks of cities and gauges of pumps. Harder ones have more, smaller and barer dials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from random import Random

from images.drawn.canvas import INK, WHITE, Canvas, Colour, Point, mixed, polar
from images.drawn.truth import (
    Draft,
    Drawing,
    Duration,
    Fact,
    Number,
    Problem,
    Step,
    Time,
    one_of,
    ranked,
)
from images.drawn.words import PLACES, PUMPS


def draw(draft: Draft) -> Drawing:
    """Some clocks or some gauges, each with a name below."""
    random, plan = draft.random, draft.plan
    is_clock = random.random() < 0.6
    names = random.sample(PLACES if is_clock else PUMPS, plan.count)
    canvas, places, radius = _board(draft, plan.count)
    style = random.randrange(3), draft.pick("accents")
    values = _times(random, plan) if is_clock else _loads(random, plan)
    for place, name, value in zip(places, names, values, strict=True):
        dial = _Dial(canvas, place, radius, random.uniform(-plan.tilt, plan.tilt))
        if is_clock:
            _clock(dial, plan, style, value, random.randrange(60))
        else:
            _gauge(dial, plan, style, value)
        size = max(11, radius * 0.2)
        canvas.text((place[0], place[1] + radius * 1.22), name.en, size, face="bold")
    within = plan.within if is_clock else plan.off
    kind = Time if is_clock else Number
    facts = tuple(
        Fact(name, kind(value, within=within)) for name, value in zip(names, values, strict=True)
    )
    return Drawing(
        png=canvas.finish(),
        question=draft.question("questions" if is_clock else "readings"),
        facts=facts,
        problem=(_time_problem if is_clock else _load_problem)(draft, facts, within),
        guess=max(plan.multiple, 2 * plan.within + 1) / 720 if is_clock else 0.05,
        others=tuple(name for name in (PLACES if is_clock else PUMPS) if name not in names),
    )


def _times(random: Random, plan: Step) -> list[int]:
    """Times on the dial, any two of them at least ten minutes apart."""
    choices = range(0, 720, max(plan.multiple, 1))
    while True:
        times = [random.choice(choices) for _ in range(plan.count)]
        ordered = sorted(times)
        if all(b - a >= 10 for a, b in pairwise(ordered)):
            return times


def _loads(random: Random, plan: Step) -> list[int]:
    """Readings from 0 to 100, far enough apart to be ranked."""
    if plan.multiple > 1:
        return [5 * value for value in random.sample(range(1, 20), plan.count)]
    free = sorted(random.sample(range(2, 99 - 5 * (plan.count - 1)), plan.count))
    loads = [value + 5 * place for place, value in enumerate(free)]
    random.shuffle(loads)
    return loads


def _board(draft: Draft, count: int) -> tuple[Canvas, list[Point], float]:
    """A canvas with the middles of the dials, which are slightly out of line."""
    columns = {1: 1, 2: 2, 3: 3, 4: 2, 6: 3, 8: 4, 9: 3}[count]
    rows = -(-count // columns)
    side = {1: 400, 2: 320, 3: 290}.get(columns, 230) if rows < 3 else 250
    radius = side * 0.36
    canvas = Canvas(side * columns, round(side * 1.08) * rows, draft.pick("grounds"))
    places = [
        (
            side * (place % columns + 0.5) + draft.random.uniform(-0.04, 0.04) * side,
            side * 1.08 * (place // columns + 0.46) + draft.random.uniform(-0.03, 0.03) * side,
        )
        for place in range(count)
    ]
    return canvas, places, radius


@dataclass(frozen=True, slots=True)
class _Dial:
    """Where a dial is drawn; distances are shares of its radius."""

    canvas: Canvas
    centre: Point
    radius: float
    tilt: float

    def at(self, direction: float, share: float) -> Point:
        return polar(self.centre, self.radius * share, direction + self.tilt)

    def stroke(
        self, direction: float, start: float, end: float, colour: Colour, width: float
    ) -> None:
        """A line along a direction."""
        self.canvas.line([self.at(direction, start), self.at(direction, end)], colour, width)

    def disc(self, radius: float, colour: Colour, outline: Colour | None, width: float) -> None:
        """A disc around the middle."""
        size, edge = self.radius * radius, self.radius * width
        self.canvas.disc(self.centre, size, colour, outline=outline, width=edge)


def _clock(dial: _Dial, plan: Step, style: tuple[int, Colour], minutes: int, seconds: int) -> None:
    dark, accent = style[0] == 2, style[1]
    face = (44, 48, 58) if dark else WHITE
    ink = mixed(face, WHITE if dark else INK, plan.contrast)
    dial.disc(1, face, accent if style[0] == 1 else INK, 0.06)
    for tick in range(60 if plan.ticks else 0):
        long = tick % 5 == 0
        dial.stroke(6 * tick, 0.9, 0.82 if long else 0.87, ink, 2 if long else 1)
    for tick in range(0 if plan.ticks else 12):
        dial.canvas.disc(dial.at(30 * tick, 0.86), 2 + 2 * (tick == 0), ink)
    for hour in range(1, 13):
        if plan.numerals and hour % (12 // plan.numerals) == 0:
            dial.canvas.text(dial.at(30 * hour, 0.68), str(hour), dial.radius * 0.17, colour=ink)
    dial.stroke(minutes / 2, -0.1, 0.46, ink, dial.radius * 0.075)
    dial.stroke(6 * (minutes % 60), -0.12, 0.76, ink, dial.radius * 0.04)
    if plan.second_hand:
        dial.stroke(6 * seconds, -0.16, 0.8, accent, 1.5)
    dial.disc(0.055, accent, None, 0)


def _gauge(dial: _Dial, plan: Step, style: tuple[int, Colour], value: int) -> None:
    face, directions = (250, 250, 246), [-135 + 2.7 * load for load in range(101)]
    ink = mixed(face, INK, plan.contrast)
    dial.disc(1, face, INK, 0.05)
    labelled = 10 if plan.numerals == 12 else 20 if plan.numerals == 4 else 50
    for load in range(0, 101, 2 if plan.ticks else 10):
        long, direction = load % 10 == 0, directions[load]
        dial.stroke(direction, 0.9, 0.78 if long else 0.84, ink, 2 if long else 1)
        if load % labelled == 0:
            size = max(9, dial.radius * 0.13)
            dial.canvas.text(dial.at(direction, 0.63), str(load), size, colour=ink)
    if style[0] == 1:
        for ends in pairwise(directions[80:]):
            line = [dial.at(direction, 0.94) for direction in ends]
            dial.canvas.line(line, (208, 46, 48), dial.radius * 0.04)
    dial.stroke(directions[value], -0.15, 0.74, style[1], dial.radius * 0.035)
    dial.disc(0.08, INK, None, 0)


def _time_problem(draft: Draft, facts: Sequence[Fact], within: int) -> Problem:
    random = draft.random
    ask = draft.problem
    if len(facts) == 1 or random.random() < 0.35:
        fact = random.choice(facts)
        later = random.choice((45, 80, 95, 130, 155, 205) if draft.level > 2 else (30, 60, 90))
        answer = Time((fact.number + later) % 720, within=within)
        return ask("later", answer, one=fact.subject, start=fact.value, later=later)
    if len(facts) > 2 and random.random() < 0.4:
        order = ranked(facts)[::-1]
        place = random.randint(1, len(facts) - 1)
        return ask("rank", one_of(order[place], facts), place=place + 1, order=draft.items(order))
    start, end = random.sample(facts, 2)
    apart = Duration((end.number - start.number) % 720, within=2 * within)
    names = {"one": start.subject, "other": end.subject}
    return ask("until", apart, **names, start=start.value, end=end.value)


def _load_problem(draft: Draft, facts: Sequence[Fact], within: float) -> Problem:
    random = draft.random
    order = ranked(facts)
    most, least = order[0].number, order[-1].number
    ask = partial(draft.problem, order=draft.items(order))
    if len(facts) == 1:
        return ask("missing", Number(100 - most, within=within))
    if random.random() < 0.5:
        return ask("gap", Number(most - least, within=2 * within))
    place = random.randint(0, len(facts) - 1)
    return ask("order", one_of(order[place], facts), place=place + 1)
