"""Boards: coloured pieces on named squares. Harder ones are larger, fuller and have no names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from images.drawn.canvas import Canvas
from images.drawn.truth import Draft, Drawing, Fact, Facts, Number, Problem, one_of, square
from images.drawn.words import CLEAR_COLOURS, COLOURS, SHAPES, TEXTS, coloured, joined


def draw(draft: Draft) -> Drawing:
    """A board with pieces; the facts are their squares."""
    random, plan = draft.random, draft.plan
    colours = random.sample(CLEAR_COLOURS, plan.colours)
    kinds = [*product(colours, random.sample(SHAPES, plan.shapes))]
    random.shuffle(kinds)
    squares = random.sample([*product(range(plan.side), range(plan.side))], plan.pieces)
    canvas = _board(draft)
    cell = (canvas.width - 80) / plan.side
    for (column, row), (colour, shape) in zip(squares, kinds, strict=False):
        centre = 40 + cell * (column + 0.5), canvas.height - 40 - cell * (row + 0.5)
        canvas.mark(shape.en, centre, cell * 0.3, COLOURS[colour])
    pieces = [coloured(*kind) for kind in kinds]
    facts = tuple(map(Fact, pieces, map(square, map(_name, squares))))
    problem = (draft.question(), facts, _problem(draft, squares, facts))
    return Drawing(canvas.finish(), *problem, 1 / plan.side**2, pieces)


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
        fill = dark if checkered and (column + row) % 2 == 0 else light
        canvas.box((left, top), (left + cell, top + cell), fill, (dark, 1))
        if plan.in_squares:
            canvas.text((left + 6, top + 10), _name((column, row)), 11, colour=frame, anchor="lm")
    canvas.box((38, 38), (size - 38, size - 38), edge=(frame, 2))
    for place in range(plan.side):
        middle = 40 + cell * (place + 0.5)
        for edge in (size - 20, 20) if plan.all_sides else (size - 20,):
            canvas.text((middle, edge), "ABCDEFGHIJ"[place], 15, colour=frame, face="bold")
            canvas.text((size - edge, size - middle), str(place + 1), 15, colour=frame, face="bold")
    return canvas


def _problem(draft: Draft, squares: Sequence[tuple[int, int]], facts: Facts) -> Problem:
    """The way between two pieces, those on one side of a piece, or a piece by its place."""
    tasks = ("moves", "highest") if draft.level <= 3 else ("moves", "nearest", "right of")
    task = draft.random.choice(tasks)
    one, other = draft.random.sample(range(len(facts)), 2)
    column, row = squares[one]
    across, along = abs(column - squares[other][0]), abs(row - squares[other][1])
    right = [fact.subject for fact, at in zip(facts, squares, strict=True) if at[0] > column]
    far = [abs(column - x) + abs(row - y) or 99 for x, y in squares]
    if task == "nearest" and far.count(min(far)) > 1:
        return _problem(draft, squares, facts)
    if task == "highest":
        far = [-(10 * y + x) for x, y in squares]
    best = facts[far.index(min(far))]
    answers = {"moves": Number(across + along), "right of": Number(len(right))}
    return draft.problem(
        task,
        answers.get(task, one_of(best, facts)),
        one=facts[one].subject,
        other=facts[other].subject,
        start=facts[one].value,
        end=facts[other].value,
        across=across,
        along=along,
        column=facts[one].value["en"][0],
        found=joined(right) if right else TEXTS["boards"]["right of"]["none"],
        piece=best.subject,
        square=best.value,
    )
