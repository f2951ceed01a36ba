"""Charts: bars, lines and pies. Harder ones have more values and series, and no printed numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from random import Random

from images.drawn.canvas import INK, PALE, WHITE, Canvas, Face, Point, mixed, polar, text_width
from images.drawn.truth import (
    NO_UNIT,
    Draft,
    Drawing,
    Fact,
    Facts,
    Number,
    Problem,
    Step,
    one_of,
    ranked,
)
from images.drawn.words import COLOURS, MONTHS, PEOPLE, PLACES, TEXTS, Term, Text

_STRONG = [term for term in COLOURS if term.en not in ("yellow", "grey", "pink", "black")]


def draw(draft: Draft) -> Drawing:
    """A chart of one to three series; the question is about one of them."""
    random, plan = draft.random, draft.plan
    kind = random.choice(("bars", "lines", "pie"))
    pool = random.choice((MONTHS, PLACES, PEOPLE))
    if pool is MONTHS:
        first = random.randint(0, len(pool) - plan.count)
        labels: Sequence[Term] = pool[first : first + plan.count]
    else:
        labels = random.sample(pool, len(pool))[: plan.count]
    topic = draft.pick("topics")
    which, within, unit = NO_UNIT, 0.0, NO_UNIT
    if kind == "pie":
        labels, unit = labels[:9], Text("%", "%")
        png, values = _pie(draft, topic, labels)
        guess = draft.guess_rate("share")
    else:
        colours = random.sample(_STRONG, plan.series)
        series = {colour: _values(random, plan) for colour in colours}
        asked, within = random.choice(colours), plan.within
        png, values = _axes_chart(draft, kind, topic, labels, series), series[asked]
        guess = max(plan.multiple, 2 * within + 1) / 95
        if plan.series > 1:
            which = TEXTS["charts"]["series"].fill(colour=asked)
    facts = tuple(map(Fact, labels, map(partial(Number, within=within, unit=unit), values)))
    question = draft.question(which=which)
    return Drawing(png, question, facts, _problem(draft, facts, within, which), guess, pool)


def _values(random: Random, plan: Step) -> list[int]:
    """Values below 100, so far apart that a reading within the tolerance keeps their order."""
    gap = round(2 * plan.within) if plan.multiple == 1 else 0
    places = 95 // plan.multiple - (plan.count - 1) * gap
    spread = sorted(random.sample(range(1, places), plan.count))
    values = [(value + place * gap) * plan.multiple for place, value in enumerate(spread)]
    random.shuffle(values)
    return values


def _problem(draft: Draft, facts: Facts, within: float, which: Text) -> Problem:
    random = draft.random
    order = ranked(facts)
    most, second, *_, least = (fact.number for fact in order)
    task = random.choice(("gap", "rank") if draft.level <= 3 else ("rank", "above", "sum"))
    ask = partial(draft.problem, task, which=which, order=draft.items(order))
    if task == "gap":
        return ask(Number(most - least, within=2 * within))
    if task == "sum":
        return ask(Number(most + second - least, within=3 * within))
    if task == "above":
        place = random.randint(1, len(order) - 1)
        limit = (order[place - 1].number + order[place].number) / 2
        return ask(Number(place), limit=f"{limit:g}")
    place = random.randint(1, min(4, len(order) - 1))
    return ask(one_of(order[place - 1], facts), nth=TEXTS["charts"]["nth"][place - 1])


def _axes_chart(
    draft: Draft, kind: str, topic: str, labels: Sequence[Term], series: Mapping[Term, list[int]]
) -> bytes:
    random, plan = draft.random, draft.plan
    width = max(480, 90 + 74 * plan.count, random.choice((560, 640, 760)))
    height = random.choice((400, 440, 520))
    canvas = Canvas(width, height, draft.pick("grounds"))
    left, right, top, bottom = 64, width - 28, 72 if plan.series == 1 else 96, height - 52
    face: Face = random.choice(("sans", "serif"))
    write = partial(canvas.text, face=face)
    title: Face = "bold" if face == "sans" else "serif"
    canvas.text((left, 30), topic, plan.size + 5, face=title, anchor="lm")
    slot = (right - left) / plan.count

    def at(place: float, value: float) -> Point:
        return left + slot * place, bottom - (bottom - top) * value / 100

    for value in range(0, 101, plan.grid):
        y = bottom - (bottom - top) * value / 100
        canvas.line([(left, y), (right, y)], INK if value == 0 else PALE, 1.5 if value == 0 else 1)
        write((left - 8, y), str(value), plan.size - 1, anchor="rm")
    x = float(left)
    for colour in series if plan.series > 1 else ():
        canvas.box((x, 58), (x + 14, 72), COLOURS[colour])
        write((x + 20, 65), colour.en, plan.size - 1, anchor="lm")
        x += 48 + text_width(colour.en, plan.size - 1, face)
    for place, label in enumerate(labels):
        write((left + slot * (place + 0.5), bottom + 18), label.en, plan.size)
    bar = 0.68 / plan.series
    for number, (colour, row) in enumerate(series.items()):
        paint = COLOURS[colour]
        if kind == "lines":
            canvas.line([at(place + 0.5, value) for place, value in enumerate(row)], paint, 3)
        for place, value in enumerate(row):
            start = place + 0.16 + bar * number
            if kind == "bars":
                canvas.box(at(start, value), at(start + bar * 0.94, 0), paint)
            else:
                canvas.disc(at(place + 0.5, value), 5, paint, (WHITE, 1))
            if plan.printed:
                x, y = at(place + 0.5, value)
                lowest = value == min(row[max(0, place - 1) : place + 2]) and value > 8
                write(
                    (x, y + (14 if kind == "lines" and lowest else -14)), str(value), plan.size - 1
                )
    return canvas.finish()


def _pie(draft: Draft, topic: str, labels: Sequence[Term]) -> tuple[bytes, list[int]]:
    """A pie and its shares; up to level 4 labels are at the slices, above in a legend of shades."""
    random = draft.random
    size = 17 - 0.6 * draft.level
    width, height = random.choice((620, 700)), random.choice((440, 480))
    canvas = Canvas(width, height, draft.pick("grounds"))
    canvas.text((28, 30), f"{topic} (%)", size + 5, face="bold", anchor="lm")
    centre, radius = (width * 0.37, height * 0.54), height * 0.34
    count = len(labels)
    shares = _shares(random, count, least=9 if draft.level <= 4 else 4)
    if draft.level <= 7:
        paints = [COLOURS[term] for term in random.sample(list(COLOURS), count)]
    else:
        base = COLOURS[random.choice(_STRONG)]
        paints = [mixed(base, WHITE, 0.8 * place / count) for place in range(count)]
        random.shuffle(paints)
    first = 360.0 * random.random()
    turns = [*accumulate((3.6 * share for share in shares), initial=first)]
    for label, share, paint, (turn, end) in zip(
        labels, shares, paints, pairwise(turns), strict=True
    ):
        canvas.sector(centre, radius, turn, end, paint)
        canvas.text(polar(centre, radius + 24, (turn + end) / 2), f"{share}", size)
        if draft.level <= 4:
            place = polar(centre, radius * 0.66, (turn + end) / 2)
            canvas.text(place, label.en, size, colour=INK if sum(paint) > 430 else WHITE)
    for turn in turns[:-1]:
        canvas.line([centre, polar(centre, radius, turn)], WHITE, 2)
    if draft.level > 4:
        legend = list(zip(labels, paints, strict=True))
        random.shuffle(legend)
        left = width * 0.74
        for row, (label, paint) in enumerate(legend):
            y = 90 + row * 30
            canvas.box((left, y - 8), (left + 16, y + 8), paint, (PALE, 1))
            canvas.text((left + 26, y), label.en, size, anchor="lm")
    return canvas.finish(), shares


def _shares(random: Random, count: int, least: int) -> list[int]:
    """Different percentages that add up to 100."""
    while True:
        cuts = sorted(random.sample(range(least, 101 - least), count - 1))
        shares = [end - start for start, end in pairwise((0, *cuts, 100))]
        if min(shares) >= least and len(set(shares)) == count:
            return shares
