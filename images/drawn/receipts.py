"""Receipts: goods with prices. Harder ones are longer, fainter and smaller, with more columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from images.drawn.canvas import INK, Canvas, Face, mixed
from images.drawn.truth import Draft, Drawing, Fact, Number, Problem, Value, one_of
from images.drawn.words import GOODS, Slot, Term, Text


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a receipt; the price of one piece is in cents."""

    good: Term
    pieces: int
    unit: int
    code: int

    @property
    def cents(self) -> int:
        return self.pieces * self.unit

    @property
    def fact(self) -> Fact:
        return Fact(self.good, _money(self.cents))


def draw(draft: Draft) -> Drawing:
    """A receipt; the facts are the totals of its rows."""
    random, plan = draft.random, draft.plan
    goods = random.sample(GOODS, plan.rows)
    rows: list[_Row] = []
    while len({row.cents for row in rows}) < plan.rows:
        rows = [
            _Row(
                good,
                random.randint(1, plan.most),
                random.randint(40, 990),
                random.randint(1000, 9999),
            )
            for good in goods
        ]
    facts = tuple(row.fact for row in rows)
    return Drawing(
        png=_paint(draft, rows),
        question=draft.question(),
        facts=facts,
        problem=_problem(draft, rows),
        guess=0.001,
        others=tuple(good for good in GOODS if good not in goods),
    )


def _paint(draft: Draft, rows: Sequence[_Row]) -> bytes:
    random, plan = draft.random, draft.plan
    face: Face = random.choice(("mono", "mono", "sans"))
    paper = draft.pick("papers")
    ink = mixed(paper, INK, plan.contrast)
    size, gap = plan.size, plan.size * random.uniform(1.7, 2.0)
    width = round(size * (24 + 6 * plan.codes))
    height = round(gap * (len(rows) + 5))
    margin = 44
    canvas = Canvas(width + 2 * margin, height + 2 * margin, draft.pick("desks"))
    canvas.box((margin + 5, margin + 7), (margin + width + 5, margin + height + 7), (90, 90, 92))
    canvas.box((margin, margin), (margin + width, margin + height), paper)
    left, right = margin + size * 1.3, margin + width - size * 1.3
    y = margin + gap
    bold: Face = "bold" if face == "sans" else "mono"
    canvas.text((margin + width / 2, y), draft.pick("shops"), size * 1.25, face=bold, colour=ink)
    y += gap
    day = f"2026-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
    time = f"{random.randint(8, 20):02}:{random.randint(0, 59):02}"
    canvas.text((left, y), day, size * 0.85, face=face, colour=ink, anchor="lm")
    canvas.text((right, y), time, size * 0.85, face=face, colour=ink, anchor="rm")
    for row in rows:
        y += gap
        name = f"{row.code}  {row.good.en}" if plan.codes else row.good.en
        canvas.text((left, y), name, size, face=face, colour=ink, anchor="lm")
        if plan.units:
            pieces = f"{row.pieces} \u00d7 {row.unit / 100:.2f}"
            canvas.text((right - size * 5, y), pieces, size, face=face, colour=ink, anchor="rm")
        canvas.text((right, y), f"{row.cents / 100:.2f}", size, face=face, colour=ink, anchor="rm")
    y += gap
    canvas.dashes((left, y), (right, y), ink)
    y += gap * 0.9
    canvas.text(
        (left, y), f"{len(rows)} rows. Thank you!", size * 0.9, face=face, colour=ink, anchor="lm"
    )
    return canvas.finish()


def _problem(draft: Draft, rows: Sequence[_Row]) -> Problem:
    random = draft.random
    order = sorted(rows, key=lambda row: -row.cents)
    total = sum(row.cents for row in rows)
    task = random.choice(
        ("two", "rank") if draft.level <= 2 else ("total", "rank", "without", "change")
    )

    def ask(answer: Value, listed: Sequence[_Row], **slots: Slot) -> Problem:
        listing = draft.items([row.fact for row in listed])
        return draft.problem(task, answer, listing=listing, **slots)

    if task == "rank":
        place = random.randint(0, min(3, len(rows) - 1))
        answer = one_of(order[place].fact, [row.fact for row in rows])
        return ask(answer, order, place=place + 1)
    if task == "without":
        gone = random.choice(rows)
        good = Text(gone.good.en.lower(), gone.good.zh)
        others = [row for row in rows if row is not gone]
        return ask(_money(total - gone.cents), others, good=good)
    if task == "two":
        return ask(_money(order[0].cents + order[1].cents), order[:2])
    if task == "total":
        return ask(_money(total), rows)
    note = next(each for each in (10, 20, 50, 100, 200, 500, 1000) if 100 * each > total)
    return ask(_money(100 * note - total), rows, note=note)


def _money(cents: int) -> Number:
    return Number(cents / 100, digits=2)
