"""Maps: places joined by roads with lengths. Harder ones have more places, roads and bends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from itertools import combinations
from random import Random

from images.drawn.canvas import INK, WHITE, Canvas, Point, text_width
from images.drawn.truth import Draft, Drawing, Fact, Name, Number, Problem, Step
from images.drawn.words import PLACES, Term, joined, road, text

Road = tuple[int, int]


def draw(draft: Draft) -> Drawing:
    """Places with roads; the facts are the lengths of the roads."""
    random, plan = draft.random, draft.plan
    names = random.sample(PLACES, plan.places)
    width, height = random.choice(((640, 520), (760, 600), (820, 560)))
    points = _points(random, plan.places, width, height)
    roads = _roads(random, points, plan)
    lengths = dict(zip(roads, random.sample(range(3, 60), len(roads)), strict=True))
    image = _paint(draft, names, points, lengths, (width, height))
    terms = {each: road(names[each[0]], names[each[1]]) for each in roads}
    facts = tuple(Fact(terms[each], Number(lengths[each])) for each in roads)
    every = combinations(range(plan.places), 2)
    return Drawing(
        png=image,
        question=draft.question(),
        facts=facts,
        problem=_problem(draft, names, lengths),
        guess=1 / 57,
        others=tuple(road(names[a], names[b]) for a, b in every if (a, b) not in lengths),
    )


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


def _roads(random: Random, points: Sequence[Point], plan: Step) -> list[Road]:
    """Roads that join all places and do not cross: the shortest ones, and some more."""
    ends = sorted(
        combinations(range(len(points)), 2),
        key=lambda each: math.dist(points[each[0]], points[each[1]]),
    )
    free = [each for each in ends if _is_free(points, each)]
    group = list(range(len(points)))
    roads: list[Road] = []
    for one, other in free:
        if group[one] != group[other]:
            roads.append((one, other))
            group = [group[one] if each == group[other] else each for each in group]
    more = [each for each in free if each not in roads]
    return sorted([*roads, *random.sample(more, min(plan.more, len(more)))])


def _is_free(points: Sequence[Point], ends: Road) -> bool:
    """Whether no other place is in the circle over a road (Gabriel's graph: roads never cross)."""
    a, b = points[ends[0]], points[ends[1]]
    middle, radius = ((a[0] + b[0]) / 2, (a[1] + b[1]) / 2), math.dist(a, b) / 2
    others = (point for place, point in enumerate(points) if place not in ends)
    return all(math.dist(middle, other) > radius for other in others)


def _paint(
    draft: Draft,
    names: Sequence[Term],
    points: Sequence[Point],
    lengths: Mapping[Road, int],
    size: tuple[int, int],
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
        middle = (start[0] + end[0]) / 2 + across[0], (start[1] + end[1]) / 2 + across[1]
        canvas.line([start, middle, end], paint, 5)
        half = text_width(str(length), plan.size, "bold") / 2 + 4
        canvas.box(
            (middle[0] - half, middle[1] - plan.size * 0.65),
            (middle[0] + half, middle[1] + plan.size * 0.65),
            WHITE,
            outline=paint,
            radius=4,
        )
        canvas.text(middle, str(length), plan.size, face="bold")
    for name, (x, y) in zip(names, points, strict=True):
        canvas.disc((x, y), 9, WHITE, outline=INK, width=3)
        half = text_width(name.en, plan.size, "bold") / 2 + 3
        top = y + 12
        canvas.box((x - half, top), (x + half, top + plan.size * 1.35), ground, radius=4)
        canvas.text((x, top + plan.size * 0.68), name.en, plan.size, face="bold")
    return canvas.finish()


def _problem(draft: Draft, names: Sequence[Term], lengths: Mapping[Road, int]) -> Problem:
    random = draft.random
    task = random.choice(("route", "route", "degree", "reach"))
    degrees = [sum(place in ends for ends in lengths) for place in range(len(names))]
    if task == "degree" and sorted(degrees)[-1] > sorted(degrees)[-2]:
        best = degrees.index(max(degrees))
        answer = Name(names[best], tuple(names))
        return draft.problem(task, answer, place=names[best], count=degrees[best])
    start, end = random.sample(range(len(names)), 2)
    if task == "reach":
        limit = random.choice((20, 30, 40, 50, 60))
        near = [
            names[place]
            for place in range(len(names))
            if place != start and _route(lengths, start, place)[0] <= limit
        ]
        listing = joined(near) if near else text("maps", task, "none")
        number = Number(len(near))
        return draft.problem(task, number, start=names[start], limit=limit, near=listing)
    length, places = _route(lengths, start, end)
    way = ", ".join(names[place].en for place in places)
    ends = {"start": names[start], "end": names[end]}
    return draft.problem("route", Number(length), way=way, **ends)


def _route(lengths: Mapping[Road, int], start: int, end: int) -> tuple[int, list[int]]:
    """The length of the shortest way and its places (Dijkstra)."""
    ahead, seen = [(0, [start])], set[int]()
    while ahead:
        length, places = heappop(ahead)
        here = places[-1]
        if here == end:
            return length, places
        if here in seen:
            continue
        seen.add(here)
        for ends, more in lengths.items():
            if here in ends:
                heappush(ahead, (length + more, [*places, sum(ends) - here]))
    raise ValueError("the places are not joined")
