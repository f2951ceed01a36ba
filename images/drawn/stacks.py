"""Stacks: towers of blocks, partly hidden by nearer ones. Harder ones are more and higher."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from images.drawn.canvas import INK, WHITE, Canvas, Colour, Point, mixed
from images.drawn.truth import Draft, Drawing, Fact, Number, Problem, one_of, ranked
from images.drawn.words import COLOURS, TOWERS, Term

_WIDE, _HIGH, _DEEP = 62.0, 26.0, (22.0, -15.0)
"""Width and height of a block's front, and how its depth moves across and down."""


def draw(draft: Draft) -> Drawing:
    """Towers in one to three rows; the facts are their numbers of blocks."""
    random, plan = draft.random, draft.plan
    columns = -(-plan.towers // plan.rows)
    names = TOWERS[: plan.towers]
    heights: list[int] = []
    for place in range(plan.towers):
        # a tower behind another one is at least one block higher: its name stays visible
        before = heights[place - columns] if place >= columns else 0
        left = plan.rows - 1 - place // columns
        heights.append(random.randint(before + 1, max(before + 1, plan.most - 2 * left)))
    facts = tuple(Fact(name, Number(height)) for name, height in zip(names, heights, strict=True))
    return Drawing(
        png=_paint(draft, columns, names, heights),
        question=draft.question(),
        facts=facts,
        problem=_problem(draft, facts, heights),
        guess=1 / plan.most,
        others=TOWERS[plan.towers :],
    )


def _paint(draft: Draft, columns: int, names: Sequence[Term], heights: Sequence[int]) -> bytes:
    random, plan = draft.random, draft.plan
    gap, behind = _WIDE + random.uniform(34, 60), (34.0, 34.0)
    width = round(60 + gap * columns + behind[0] * plan.rows + _DEEP[0])
    height = round(90 + max(heights) * _HIGH + behind[1] * plan.rows)
    canvas = Canvas(max(360, width), max(300, height), draft.pick("grounds"))
    floor = canvas.height - 34.0
    canvas.box(
        (0, floor - behind[1] * plan.rows - 20), (canvas.width, canvas.height), (206, 204, 198)
    )
    paints = list(COLOURS.values())[:8]
    base = random.choice(paints)
    for place in reversed(range(len(heights))):
        row, column = divmod(place, columns)
        corner = 44 + gap * column + behind[0] * row, floor - behind[1] * row
        for block in range(heights[place]):
            paint = base if plan.one_colour else random.choice(paints)
            _block(canvas, (corner[0], corner[1] - _HIGH * block), paint, plan.seams)
        top = corner[0] + (_WIDE + _DEEP[0]) / 2, corner[1] - _HIGH * heights[place] + _DEEP[1] / 2
        canvas.disc(top, 8.5, WHITE, outline=INK)
        canvas.text(top, names[place].en[-1], 11, face="bold")
    return canvas.finish()


def _block(canvas: Canvas, corner: Point, paint: Colour, seams: float) -> None:
    """A block by the lower left corner of its front."""
    left, bottom = corner
    right, top = left + _WIDE, bottom - _HIGH
    across, down = _DEEP
    edge = mixed(paint, INK, 0.25 + 0.6 * seams)
    side = [
        (right, bottom),
        (right + across, bottom + down),
        (right + across, top + down),
        (right, top),
    ]
    lid = [(left, top), (left + across, top + down), (right + across, top + down), (right, top)]
    canvas.box((left, top), (right, bottom), paint)
    canvas.polygon(side, mixed(paint, INK, 0.3))
    canvas.polygon(lid, mixed(paint, WHITE, 0.35))
    for outline in (
        [(left, bottom), (left, top), (right, top), (right, bottom), (left, bottom)],
        side,
        lid,
    ):
        canvas.line([*outline, outline[0]], edge, 1)


def _problem(draft: Draft, facts: Sequence[Fact], heights: Sequence[int]) -> Problem:
    random = draft.random
    tasks = ["gap", "total"] if draft.level <= 3 else ["total", "fill", "level"]
    order = sorted(heights, reverse=True)
    if order[0] > order[1]:
        tasks.append("highest")
    task = random.choice(tasks)
    ask = partial(draft.problem, task, listing=draft.items(facts))
    if task == "highest":
        return ask(one_of(ranked(facts)[0], facts))
    if task == "level":
        limit = random.choice(order[:-1])
        return ask(Number(sum(min(height, limit) for height in heights)), limit=limit)
    numbers = {
        "gap": order[0] - order[-1],
        "total": sum(heights),
        "fill": order[0] * len(heights) - sum(heights),
    }
    return ask(Number(numbers[task]))
