"""Maps: places joined by roads with lengths. Harder ones have more places, roads and bends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from itertools import combinations
from random import Random
from typing import TypeAlias

from images.drawn.canvas import INK, WHITE, Canvas, Point, text_width
from images.drawn.truth import Draft, Drawing, Fact, Name, Number, Problem
from images.drawn.words import PLACES, TEXTS, Term, joined, road

Road: TypeAlias = tuple[int, int]
Lengths: TypeAlias = Mapping[Road, int]


def draw(draft: Draft) -> Drawing:
    """Places with roads; the facts are the lengths of the roads."""
    random, plan = draft.random, draft.plan
    names = random.sample(PLACES, plan.places)
    size = random.choice(((640, 520), (760, 600), (820, 560)))
    points = _points(random, plan.places, *size)
    roads = _roads(random, points, plan.more)
    lengths = dict(zip(roads, random.sample(range(3, 60), len(roads)), strict=True))
    png = _paint(draft, names, points, lengths, size)
    facts = tuple(Fact(road(names[a], names[b]), Number(n)) for (a, b), n in lengths.items())
    pool = [road(*ends) for ends in combinations(names, 2)]
    question, problem = draft.question(), _problem(draft, names, lengths)
    return Drawing(png, question, facts, problem, 1 / 57, pool)


def _points(random: Random, count: int, width: int, height: int) -> list[Point]:
    """Points in different cells of a grid, and far enough apart for a length between them."""
    columns = math.ceil(math.sqrt(count * 1.2))
    rows = math.ceil(count / columns)
    wide, high = (width - 120) / columns, (height - 110) / rows
    while True:
        points = [
            (
                60 + wide * (cell % columns + random.uniform(0.2, 0.8)),
                55 + high * (cell // columns + random.uniform(0.2, 0.8)),
            )
            for cell in random.sample(range(columns * rows), count)
        ]
        if min(math.dist(one, other) for one, other in combinations(points, 2)) > 105:
            return points


def _roads(random: Random, points: Sequence[Point], more: int) -> list[Road]:
    """Roads that join all places: the shortest ones, and some more.

    No other place is in the circle over a road, so that roads never cross (Gabriel's graph).
    """

    def is_free(a: Point, b: Point) -> bool:
        middle, radius = ((a[0] + b[0]) / 2, (a[1] + b[1]) / 2), math.dist(a, b) / 2
        others = (point for point in points if point not in (a, b))
        return all(math.dist(middle, other) > radius for other in others)

    every = combinations(range(len(points)), 2)
    free = [(a, b) for a, b in every if is_free(points[a], points[b])]
    free.sort(key=lambda ends: math.dist(points[ends[0]], points[ends[1]]))
    group = list(range(len(points)))
    roads: list[Road] = []
    for one, other in free:
        if group[one] != group[other]:
            roads.append((one, other))
            group = [group[one] if each == group[other] else each for each in group]
    rest = [each for each in free if each not in roads]
    return sorted([*roads, *random.sample(rest, min(more, len(rest)))])


def _paint(
    draft: Draft, names: list[Term], points: list[Point], lengths: Lengths, size: tuple[int, int]
) -> bytes:
    random, plan, ground = draft.random, draft.plan, draft.pick("grounds")
    canvas = Canvas(*size, ground)
    for _ in range(plan.landmarks):
        centre = random.uniform(0, size[0]), random.uniform(0, size[1])
        canvas.disc(centre, random.uniform(25, 70), draft.pick("landmarks"))
    paint = draft.pick("roads")
    for (one, other), length in lengths.items():
        start, end = points[one], points[other]
        far = math.dist(start, end)
        swing = random.uniform(-plan.bend, plan.bend)
        across = (end[1] - start[1]) / far * swing, (start[0] - end[0]) / far * swing
        x, y = (start[0] + end[0]) / 2 + across[0], (start[1] + end[1]) / 2 + across[1]
        canvas.line([start, (x, y), end], paint, 5)
        half, high = text_width(str(length), plan.size, "bold") / 2 + 4, plan.size * 0.65
        canvas.box((x - half, y - high), (x + half, y + high), WHITE, (paint, 1), radius=4)
        canvas.text((x, y), str(length), plan.size, face="bold")
    for name, (x, y) in zip(names, points, strict=True):
        canvas.disc((x, y), 9, WHITE, (INK, 3))
        half, top = text_width(name.en, plan.size, "bold") / 2 + 3, y + 12
        canvas.box((x - half, top), (x + half, top + plan.size * 1.35), ground, radius=4)
        canvas.text((x, top + plan.size * 0.68), name.en, plan.size, face="bold")
    return canvas.finish()


def _problem(draft: Draft, names: Sequence[Term], lengths: Lengths) -> Problem:
    random = draft.random
    task = random.choice(("route", "route", "degree", "reach"))
    degrees = [sum(place in ends for ends in lengths) for place in range(len(names))]
    if task == "degree" and degrees.count(max(degrees)) == 1:
        best = names[degrees.index(max(degrees))]
        return draft.problem(task, Name(best, tuple(names)), place=best, count=max(degrees))
    start, end = random.sample(range(len(names)), 2)
    if task == "reach":
        limit = random.choice((20, 30, 40, 50, 60))
        ways = {place: _route(lengths, start, place)[0] for place in range(len(names))}
        near = [names[place] for place, way in ways.items() if place != start and way <= limit]
        listing = joined(near) if near else TEXTS["maps"]["reach"]["none"]
        answer = Number(len(near))
        return draft.problem(task, answer, start=names[start], limit=limit, near=listing)
    length, places = _route(lengths, start, end)
    way = ", ".join(names[place].en for place in places)
    return draft.problem("route", Number(length), way=way, start=names[start], end=names[end])


def _route(lengths: Lengths, start: int, end: int) -> tuple[int, list[int]]:
    """The length of the shortest way and its places (Dijkstra)."""
    ahead, seen = [(0, [start])], set[int]()
    while ahead[0][1][-1] != end:
        length, places = heappop(ahead)
        if (here := places[-1]) not in seen:
            seen.add(here)
            for ends, more in lengths.items():
                if here in ends:
                    heappush(ahead, (length + more, [*places, sum(ends) - here]))
    return ahead[0]
