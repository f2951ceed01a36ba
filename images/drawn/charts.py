"""Charts: bars, lines and pies. Harder ones have more values and series, and no printed numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from random import Random

from images.drawn.canvas import (
    INK,
    PALE,
    WHITE,
    Canvas,
    Colour,
    Face,
    Point,
    mixed,
    polar,
    text_width,
)
from images.drawn.truth import NO_UNIT, Draft, Drawing, Fact, Number, Problem, Step, one_of, ranked
from images.drawn.words import COLOURS, MONTHS, PEOPLE, PLACES, Term, Text, text

_STRONG = [term for term in COLOURS if term.en not in ("yellow", "grey", "pink", "black")]


def draw(draft: Draft) -> Drawing:
    """A chart of one to three series; the question is about one of them."""
    random, plan = draft.random, draft.plan
    kind = random.choice(("bars", "lines", "pie"))
    pool = random.choice((MONTHS, PLACES, PEOPLE))
    first = random.randint(0, len(pool) - plan.count) if pool is MONTHS else 0
    picked = pool[first:] if pool is MONTHS else random.sample(pool, len(pool))
    labels, others = picked[: plan.count], (*picked[plan.count :], *pool[:first])
    topic = draft.pick("topics")
    if kind == "pie":
        return _pie(draft, labels, tuple(others), topic)
    colours = random.sample(_STRONG, plan.series)
    series = {colour: _values(random, plan) for colour in colours}
    asked = random.choice(colours)
    png = _axes_chart(draft, kind, topic, labels, series)
    facts = tuple(
        Fact(label, Number(value, within=plan.within))
        for label, value in zip(labels, series[asked], strict=True)
    )
    which = text("charts", "series").fill(colour=asked) if plan.series > 1 else NO_UNIT
    return Drawing(
        png=png,
        question=draft.question(which=which),
        facts=facts,
        problem=_problem(draft, facts, plan.within, which),
        guess=max(plan.multiple, 2 * plan.within + 1) / 95,
        others=tuple(others),
    )


def _values(random: Random, plan: Step) -> list[int]:
    """Values below 100, so far apart that a reading within the tolerance keeps their order."""
    apart = max(1, round(2 * plan.within) + 1) if plan.multiple == 1 else 1
    places = 95 // plan.multiple - (plan.count - 1) * (apart - 1)
    spread = sorted(random.sample(range(1, places), plan.count))
    values = [(value + place * (apart - 1)) * plan.multiple for place, value in enumerate(spread)]
    random.shuffle(values)
    return values


def _problem(draft: Draft, facts: Sequence[Fact], within: float, which: Text) -> Problem:
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
    return ask(one_of(order[place - 1], facts), nth=text("charts", "nth", place - 1))


def _axes_chart(
    draft: Draft,
    kind: str,
    topic: str,
    labels: Sequence[Term],
    series: Mapping[Term, Sequence[int]],
) -> bytes:
    random, plan = draft.random, draft.plan
    width = max(480, 90 + 74 * plan.count, random.choice((560, 640, 760)))
    height = random.choice((400, 440, 520))
    canvas = Canvas(width, height, draft.pick("grounds"))
    left, right, top, bottom = 64, width - 28, 72 if plan.series == 1 else 96, height - 52
    face: Face = random.choice(("sans", "serif"))
    canvas.text(
        (left, 30), topic, plan.size + 5, face="bold" if face == "sans" else "serif", anchor="lm"
    )
    for value in range(0, 101, plan.grid):
        y = bottom - (bottom - top) * value / 100
        canvas.line([(left, y), (right, y)], INK if value == 0 else PALE, 1.5 if value == 0 else 1)
        canvas.text((left - 8, y), str(value), plan.size - 1, face=face, anchor="rm")
    x = float(left)
    for colour in series if plan.series > 1 else ():
        canvas.box((x, 58), (x + 14, 72), COLOURS[colour])
        canvas.text((x + 20, 65), colour.en, plan.size - 1, face=face, anchor="lm")
        x += 48 + text_width(colour.en, plan.size - 1, face)
    slot = (right - left) / plan.count
    for place, label in enumerate(labels):
        canvas.text((left + slot * (place + 0.5), bottom + 18), label.en, plan.size, face=face)

    def at(place: float, value: float) -> Point:
        return left + slot * place, bottom - (bottom - top) * value / 100

    for number, (colour, row) in enumerate(series.items()):
        paint = COLOURS[colour]
        if kind == "lines":
            canvas.line([at(place + 0.5, value) for place, value in enumerate(row)], paint, 3)
        for place, value in enumerate(row):
            bar = 0.68 / plan.series
            start = place + 0.16 + bar * number
            if kind == "bars":
                canvas.box(at(start, value), at(start + bar * 0.94, 0), paint)
            else:
                canvas.disc(at(place + 0.5, value), 5, paint, outline=WHITE, width=1)
            if plan.printed:
                x, y = at(place + 0.5, value)
                lowest = value == min(row[max(0, place - 1) : place + 2]) and value > 8
                below = kind == "lines" and lowest
                canvas.text((x, y + (14 if below else -14)), str(value), plan.size - 1, face=face)
    return canvas.finish()


def _pie(draft: Draft, labels: Sequence[Term], others: tuple[Term, ...], topic: str) -> Drawing:
    """A pie; up to level 4 labels are at the slices, above in a legend of shades."""
    random = draft.random
    labels, others = labels[:9], (*labels[9:], *others)
    size = 17 - 0.6 * draft.level
    width, height = random.choice((620, 700)), random.choice((440, 480))
    canvas = Canvas(width, height, draft.pick("grounds"))
    canvas.text((28, 30), f"{topic} (%)", size + 5, face="bold", anchor="lm")
    centre, radius = (width * 0.37, height * 0.54), height * 0.34
    named = draft.level <= 4
    shares = _shares(random, len(labels), least=9 if named else 4)
    if draft.level <= 7:
        paints = [COLOURS[term] for term in random.sample(list(COLOURS), len(labels))]
    else:
        base = COLOURS[random.choice(_STRONG)]
        paints = [mixed(base, WHITE, 0.8 * place / len(labels)) for place in range(len(labels))]
        random.shuffle(paints)
    turn = 360.0 * random.random()
    for label, share, paint in zip(labels, shares, paints, strict=True):
        end = turn + 3.6 * share
        canvas.sector(centre, radius, turn, end, paint)
        x, y = polar(centre, radius + 24, (turn + end) / 2)
        canvas.text((x, y), f"{share}", size, face="sans")
        if named:
            x, y = polar(centre, radius * 0.66, (turn + end) / 2)
            light = sum(paint) > 430
            canvas.text((x, y), label.en, size, colour=INK if light else WHITE)
        turn = end
    turn = turn - 360
    for share in shares:
        canvas.line([centre, polar(centre, radius, turn)], WHITE, 2)
        turn += 3.6 * share
    if not named:
        legend = list(zip(labels, paints, strict=True))
        random.shuffle(legend)
        _legend(canvas, width * 0.74, legend, size)
    facts = tuple(
        Fact(label, Number(share, unit=Text("%", "%")))
        for label, share in zip(labels, shares, strict=True)
    )
    return Drawing(
        png=canvas.finish(),
        question=draft.question(which=NO_UNIT),
        facts=facts,
        problem=_problem(draft, facts, 0.0, NO_UNIT),
        guess=draft.guess_rate("share"),
        others=others,
    )


def _legend(
    canvas: Canvas, left: float, entries: Sequence[tuple[Term, Colour]], size: float
) -> None:
    for place, (label, paint) in enumerate(entries):
        y = 90 + place * 30
        canvas.box((left, y - 8), (left + 16, y + 8), paint, outline=PALE)
        canvas.text((left + 26, y), label.en, size, anchor="lm")


def _shares(random: Random, count: int, least: int) -> list[int]:
    """Different percentages that add up to 100."""
    while True:
        cuts = sorted(random.sample(range(least, 101 - least), count - 1))
        shares = [end - start for start, end in zip([0, *cuts], [*cuts, 100], strict=True)]
        if min(shares) >= least and len(set(shares)) == count:
            return shares
