"""Stacks: towers of blocks, partly hidden by nearer ones. Harder ones are more and higher."""

from __future__ import annotations

from collections.abc import Sequence

from images.drawn.canvas import INK, WHITE, Canvas, Point, mixed
from images.drawn.truth import Draft, Drawing, Fact, Facts, Number, Problem, one_of, ranked
from images.drawn.words import COLOURS, TOWERS, Colour

_WIDE, _HIGH, _DEEP = 62.0, 26.0, (22.0, -15.0)
"""Width and height of a block's front, and how its depth moves across and down."""


def draw(draft: Draft) -> Drawing:
    """Towers in one to three rows; the facts are their numbers of blocks."""
    plan = draft.plan
    columns = -(-plan.towers // plan.rows)
    heights: list[int] = []
    for place in range(plan.towers):
        # a tower behind another one is at least one block higher: its name stays visible
        before = heights[place - columns] if place >= columns else 0
        left = plan.rows - 1 - place // columns
        heights.append(draft.random.randint(before + 1, max(before + 1, plan.most - 2 * left)))
    facts = tuple(map(Fact, TOWERS, map(Number, heights)))
    png = _paint(draft, columns, heights)
    problem = (draft.question(), facts, _problem(draft, facts))
    return Drawing(png, *problem, 1 / plan.most, TOWERS)


def _paint(draft: Draft, columns: int, heights: Sequence[int]) -> bytes:
    random, plan = draft.random, draft.plan
    gap, behind = _WIDE + random.uniform(34, 60), 34.0
    width = round(60 + gap * columns + behind * plan.rows + _DEEP[0])
    height = round(90 + max(heights) * _HIGH + behind * plan.rows)
    canvas = Canvas(max(360, width), max(300, height), draft.pick("grounds"))
    floor = canvas.height - 34.0
    back = floor - behind * plan.rows - 20
    canvas.box((0, back), (canvas.width, canvas.height), (206, 204, 198))
    paints = list(COLOURS.values())[:8]
    base = random.choice(paints)
    for place in reversed(range(len(heights))):
        row, column = divmod(place, columns)
        x, y = 44 + gap * column + behind * row, floor - behind * row
        for block in range(heights[place]):
            paint = base if plan.one_colour else random.choice(paints)
            _block(canvas, (x, y - _HIGH * block), paint, plan.seams)
        top = x + (_WIDE + _DEEP[0]) / 2, y - _HIGH * heights[place] + _DEEP[1] / 2
        canvas.disc(top, 8.5, WHITE, (INK, 1))
        canvas.text(top, TOWERS[place].en[-1], 11, face="bold")
    return canvas.finish()


def _block(canvas: Canvas, corner: Point, paint: Colour, seams: float) -> None:
    """A block by the lower left corner of its front."""
    left, bottom = corner
    right, top = left + _WIDE, bottom - _HIGH
    far, down = right + _DEEP[0], _DEEP[1]
    front = [(left, bottom), (left, top), (right, top), (right, bottom)]
    side = [(right, bottom), (far, bottom + down), (far, top + down), (right, top)]
    lid = [(left, top), (left + _DEEP[0], top + down), (far, top + down), (right, top)]
    canvas.box((left, top), (right, bottom), paint)
    canvas.polygon(side, mixed(paint, INK, 0.3))
    canvas.polygon(lid, mixed(paint, WHITE, 0.35))
    for outline in (front, side, lid):
        canvas.line([*outline, outline[0]], mixed(paint, INK, 0.25 + 0.6 * seams))


def _problem(draft: Draft, facts: Facts) -> Problem:
    heights = sorted((fact.number for fact in facts), reverse=True)
    tasks = ["gap", "total"] if draft.level <= 3 else ["total", "fill", "level"]
    if heights[0] > heights[1]:
        tasks.append("highest")
    task = draft.random.choice(tasks)
    limit = draft.random.choice(heights[:-1]) if task == "level" else 0
    numbers = {
        "gap": heights[0] - heights[-1],
        "total": sum(heights),
        "fill": heights[0] * len(heights) - sum(heights),
        "level": sum(min(height, limit) for height in heights),
    }
    is_number = task in numbers
    answer = Number(numbers[task]) if is_number else one_of(ranked(facts)[0], facts)
    return draft.problem(task, answer, listing=draft.items(facts), limit=limit)
