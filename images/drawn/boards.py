"""Boards: coloured pieces on named squares. Harder ones are larger, fuller and have no names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product

from images.drawn.canvas import INK, Canvas
from images.drawn.truth import Draft, Drawing, Fact, Number, Problem, Square, one_of
from images.drawn.words import CLEAR_COLOURS, COLOURS, SHAPES, coloured, joined, text


def draw(draft: Draft) -> Drawing:
    """A board with pieces; the facts are their squares."""
    random, plan = draft.random, draft.plan
    colours = random.sample(CLEAR_COLOURS, plan.colours)
    shapes = random.sample(SHAPES, plan.shapes)
    kinds = [*product(colours, shapes)]
    random.shuffle(kinds)
    squares = random.sample([*product(range(plan.side), range(plan.side))], plan.pieces)
    pieces = dict(zip(squares, kinds, strict=False))
    facts = tuple(Fact(coloured(*kind), Square(_name(square))) for square, kind in pieces.items())
    canvas = _board(draft)
    cell = (canvas.width - 80) / plan.side
    for (column, row), (colour, shape) in pieces.items():
        centre = 40 + cell * (column + 0.5), canvas.height - 40 - cell * (row + 0.5)
        canvas.mark(shape.en, centre, cell * 0.3, COLOURS[colour], INK)
    return Drawing(
        png=canvas.finish(),
        question=draft.question(),
        facts=facts,
        problem=_problem(draft, [*pieces], facts),
        guess=1 / plan.side**2,
        others=tuple(coloured(*kind) for kind in kinds[plan.pieces :]),
    )


def _name(square: tuple[int, int]) -> str:
    return f"{'ABCDEFGHIJ'[square[0]]}{square[1] + 1}"


def _board(draft: Draft) -> Canvas:
    plan = draft.plan
    cell = max(56, min(104, 620 // plan.side))
    light, dark, frame = draft.pick("boards")
    checkered = draft.random.random() < 0.6
    size = cell * plan.side + 80
    canvas = Canvas(size, size, light)
    for column, row in product(range(plan.side), range(plan.side)):
        left, top = 40 + cell * column, size - 40 - cell * (row + 1)
        is_dark = checkered and (column + row) % 2 == 0
        fill = dark if is_dark else light
        canvas.box((left, top), (left + cell, top + cell), fill, outline=dark, width=1)
        if plan.in_squares:
            canvas.text((left + 6, top + 10), _name((column, row)), 11, colour=frame, anchor="lm")
    canvas.box((38, 38), (size - 38, size - 38), outline=frame, width=2)
    for place in range(plan.side):
        middle = 40 + cell * (place + 0.5)
        for edge in (size - 20, 20) if plan.all_sides else (size - 20,):
            canvas.text((middle, edge), "ABCDEFGHIJ"[place], 15, colour=frame, face="bold")
        for edge in (20, size - 20) if plan.all_sides else (20,):
            canvas.text((edge, size - middle), str(place + 1), 15, colour=frame, face="bold")
    return canvas


def _problem(draft: Draft, squares: Sequence[tuple[int, int]], facts: Sequence[Fact]) -> Problem:
    random = draft.random
    tasks = ("moves", "highest") if draft.level <= 3 else ("moves", "nearest", "right of")
    task = random.choice(tasks)
    names = tuple(fact.subject for fact in facts)
    start, end = random.sample(range(len(facts)), 2)
    here, there = squares[start], squares[end]
    ask = partial(draft.problem, task, one=names[start])
    if task == "moves":
        across, along = abs(here[0] - there[0]), abs(here[1] - there[1])
        ask = partial(ask, other=names[end], start=_name(here), end=_name(there))
        return ask(Number(across + along), across=across, along=along)
    if task == "right of":
        found = [names[n] for n, at in enumerate(squares) if at[0] > here[0]]
        return ask(
            Number(len(found)),
            column=_name(here)[0],
            found=joined(found) if found else text("boards", task, "none"),
        )
    if task == "highest":
        key = [-(10 * row + column) for column, row in squares]
    else:
        key = [abs(here[0] - column) + abs(here[1] - row) for column, row in squares]
        key[start] = 99
        if sorted(key)[0] == sorted(key)[1]:
            return _problem(draft, squares, facts)
    best = min(range(len(key)), key=lambda place: key[place])
    return ask(one_of(facts[best], facts), piece=names[best], square=_name(squares[best]))
