"""Receipts: goods with prices. Harder ones are longer, fainter and smaller, with more columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from images.drawn.canvas import INK, Canvas, Face, mixed
from images.drawn.truth import Draft, Drawing, Fact, Facts, Number, Problem, one_of, ranked
from images.drawn.words import GOODS, Text


def draw(draft: Draft) -> Drawing:
    """A receipt; the facts are the totals of its rows."""
    random, plan = draft.random, draft.plan
    goods = random.sample(GOODS, plan.rows)
    cents: list[int] = []
    while len({*cents}) < plan.rows:
        ranges = (1, plan.most), (40, 990), (1000, 9999)
        columns = [[random.randint(*ends) for ends in ranges] for _ in goods]
        cents = [pieces * unit for pieces, unit, _ in columns]
    facts = tuple(map(Fact, goods, map(_money, cents)))
    png, question = _paint(draft, facts, columns), draft.question()
    return Drawing(png, question, facts, _problem(draft, facts, cents), 0.001, GOODS)


def _money(cents: int) -> Number:
    return Number(cents / 100, digits=2)


def _paint(draft: Draft, facts: Facts, columns: Sequence[Sequence[int]]) -> bytes:
    """The receipt; the columns of a row are the pieces, the price of one in cents, and a code."""
    random, plan = draft.random, draft.plan
    face: Face = random.choice(("mono", "mono", "sans"))
    paper = draft.pick("papers")
    size, gap = plan.size, plan.size * random.uniform(1.7, 2.0)
    width, height = round(size * (24 + 6 * plan.codes)), round(gap * (len(facts) + 5))
    margin = 44
    end = margin + width, margin + height
    canvas = Canvas(width + 2 * margin, height + 2 * margin, draft.pick("desks"))
    canvas.box((margin + 5, margin + 7), (end[0] + 5, end[1] + 7), (90, 90, 92))
    canvas.box((margin, margin), end, paper)
    left, right = margin + size * 1.3, margin + width - size * 1.3
    ink = mixed(paper, INK, plan.contrast)
    write = partial(canvas.text, face=face, colour=ink)
    y = margin + gap
    bold: Face = "bold" if face == "sans" else "mono"
    canvas.text((margin + width / 2, y), draft.pick("shops"), size * 1.25, face=bold, colour=ink)
    y += gap
    day = f"2026-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
    time = f"{random.randint(8, 20):02}:{random.randint(0, 59):02}"
    write((left, y), day, size * 0.85, anchor="lm")
    write((right, y), time, size * 0.85, anchor="rm")
    for fact, (pieces, unit, code) in zip(facts, columns, strict=True):
        y += gap
        good = fact.subject.en
        write((left, y), f"{code}  {good}" if plan.codes else good, size, anchor="lm")
        if plan.units:
            price = f"{pieces} \u00d7 {unit / 100:.2f}"
            write((right - size * 5, y), price, size, anchor="rm")
        write((right, y), fact.value["en"], size, anchor="rm")
    y += gap
    canvas.dashes((left, y), (right, y), ink)
    write((left, y + gap * 0.9), f"{len(facts)} rows. Thank you!", size * 0.9, anchor="lm")
    return canvas.finish()


def _problem(draft: Draft, facts: Facts, cents: Sequence[int]) -> Problem:
    random, order, total = draft.random, ranked(facts), sum(cents)
    tasks = ("two", "rank") if draft.level <= 2 else ("total", "rank", "without", "change")
    task = random.choice(tasks)
    if task == "rank":
        place = random.randint(0, min(3, len(facts) - 1))
        answer = one_of(order[place], facts)
        return draft.problem(task, answer, place=place + 1, listing=draft.items(order))
    if task == "two":
        both = _money(sum(sorted(cents)[-2:]))
        return draft.problem(task, both, listing=draft.items(order[:2]))
    if task == "without":
        gone = random.choice(range(len(facts)))
        good = Text(facts[gone].subject.en.lower(), facts[gone].subject.zh)
        rest = draft.items(facts[:gone] + facts[gone + 1 :])
        return draft.problem(task, _money(total - cents[gone]), good=good, listing=rest)
    note = next(each for each in (10, 20, 50, 100, 200, 500, 1000) if 100 * each > total)
    sum_or_change = _money(total if task == "total" else 100 * note - total)
    return draft.problem(task, sum_or_change, note=note, listing=draft.items(facts))
