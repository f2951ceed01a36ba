"""`mmconv label`: the page on which people rate a run's answers, and what it calls.

What the page gets of a dialogue does not say whose it is: no run, condition, sample or verdict.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, FastAPI, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from images import ImageStore
from images.decode import read_media_type
from mmconv.benchmarks.base import Benchmark
from mmconv.benchmarks.base.endings import METRICS as ENDINGS
from mmconv.benchmarks.base.results import ends_of
from mmconv.benchmarks.options import Display
from mmconv.core.atomic_writes import write_file
from mmconv.core.errors import ConfigError
from mmconv.core.plans import name_trial
from mmconv.core.types import Score
from mmconv.engine.setup import build_benchmark
from mmconv.report.agreement.files import SIDE
from mmconv.report.labels import (
    Assignments,
    Item,
    LabelFile,
    Shown,
    Turn,
    Unit,
    choices,
    draw_items,
    read_dialogues,
    with_answers,
)
from mmconv.run_folder.saved_run import read_finished
from mmconv.service.access import Reader, shared_of
from mmconv.service.app import build_app
from mmconv.service.errors import Problem, json_response
from mmconv.service.requests import JsonRoute
from mmconv.service.settings import Settings
from mmconv.service.state import Serving
from mmconv.service.web.folder import read_absolute
from mmconv.service.web.pages import page_routes, render_page
from mmconv.stats import ScoreFrame

router = APIRouter(route_class=JsonRoute, include_in_schema=False)

Name = Annotated[str, Field(pattern=r"^[^\x00-\x1f]{1,60}$")]
"""A rater's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is to be rated: the answers, the keys of the values, and the file for them.

    `dialogues` are by run, sample and condition, `samples` by run and id, each with its benchmark.
    `left_out` counts ratings whose answer does not exist.
    """

    metric: str
    seed: int
    items: Sequence[Item]
    dialogues: Mapping[tuple[str, str, str], Shown]
    samples: Mapping[tuple[str, str], tuple[Benchmark[Any, Any], Any]]
    display: Display
    pairwise: bool
    keys: Mapping[str, tuple[str, float]]
    file: LabelFile
    left_out: int

    def unit(self, item: Item, rater: str, turn: Turn) -> Unit:
        """The rating of a turn by a rater."""
        return Unit(rater, item.run, item.sample, item.condition, self.metric, turn)

    def value(self, item: Item, key: str) -> float:
        """What a key says about the candidate."""
        value = self.keys[key][1]
        return 1 - value if self.pairwise and item.side(self.seed) == "B" else value

    def key(self, item: Item, unit: Unit) -> str | None:
        """The key of a rating in the file; an empty text if it was skipped."""
        value = self.file.value(unit)
        if isinstance(value, str) or value is None:
            return value
        return next((key for key in self.keys if self.value(item, key) == value), None)

    def page(self, number: int, rater: str) -> dict[str, Any]:
        """A dialogue as a rater sees it, with the rater's own ratings."""
        item = self.items[number]
        benchmark, sample = self.samples[item.run, item.sample]
        shown = self.dialogues[item.run, item.sample, item.condition]
        references: Mapping[str, str] = {}
        if self.pairwise:
            references = benchmark.references(sample, item.condition)
        turns = []
        for turn in shown.turns:
            answers = [turn["answer"]]
            if (reference := references.get(f"turn_{turn['n']}")) is not None:
                answers.append(reference)
            if item.side(self.seed) == "B":
                answers.reverse()
            turns.append({name: turn[name] for name in ("n", "asked", "given")})
            turns[-1]["answers"] = answers
        # in a comparison the references are one of the sides
        about = {} if self.pairwise else benchmark.metadata(sample)
        return {
            "item": number,
            "turns": turns,
            "about": [{"name": name, "text": text} for name, text in about.items()],
            "rated": [
                {"turn": turn, "name": self._name(turn), "key": self.key(item, unit)}
                for turn in item.turns
                for unit in [self.unit(item, rater, turn)]
            ],
        }

    def _name(self, turn: Turn) -> str:
        if not turn:
            return "the whole dialogue"
        name = self.display.turns.get(turn)
        return f"turn {turn} ({name})" if name else f"turn {turn}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelling(Serving):
    """What requests share; ratings are written one after the other."""

    task: Task
    assignments: Assignments
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def state(self, rater: str) -> dict[str, Any]:
        """How far the rater is, and all raters together."""
        task = self.task
        units = [[task.unit(item, rater, turn) for turn in item.turns] for item in task.items]
        every = {unit for of_item in units for unit in of_item}
        own = every & {*task.file}
        numbers = self.assignments.of_rater.get(rater, {})
        return {
            "total": len(every),
            "done": len(every & {unit._replace(rater=rater) for unit in task.file}),
            "own": len(own),
            "items": [
                {"item": number, "open": sum(unit not in own for unit in units[number])}
                for number in numbers
            ],
        }


Shared = Annotated[Labelling, Depends(shared_of)]


def open_task(  # noqa: PLR0913 - the runs, the file, and what is drawn
    folders: Sequence[Path],
    out: Path,
    images: ImageStore,
    *,
    metric: str | None,
    samples: int,
    double: float,
    seed: int,
) -> Task:
    """Read the runs, draw what is to be rated, and open the file.

    Raises `InputError` for a run that is not finished or has no data, for runs of several
    benchmarks, and for a metric that people cannot rate.
    """
    names = [folder.resolve().name for folder in folders]
    if len(set(names)) < len(names):
        raise ConfigError("two runs have folders of one name, which labels could not distinguish")
    runs = {name: read_finished(folder) for name, folder in zip(names, folders, strict=True)}
    if len({run.spec.benchmark for run in runs.values()}) > 1:
        raise ConfigError("these runs are of several benchmarks; label one benchmark at a time")
    specs = {name: read_absolute(run.folder)[0] for name, run in runs.items()}
    benchmarks = {name: build_benchmark(spec, images) for name, spec in specs.items()}
    first = benchmarks[names[0]]
    scores = {name: [*run.scores()] for name, run in runs.items()}
    # means of several judges are not values that people give
    judged = next(iter(runs[names[0]].judges().values()), None)
    rated = scores[names[0]] if judged is None else [*ScoreFrame(judged)]
    metric = _choose_metric(first, rated, metric)
    pairwise = any(SIDE in s.tags for s in chain(*scores.values()) if s.metric == metric)
    drawn = draw_items(scores, metric, samples=samples, double=double, seed=seed)
    chosen = {item.sample for item in drawn}
    dialogues = {
        (name, *key): shown
        for name, run in runs.items()
        for key, shown in read_dialogues(run.folder, chosen).items()
    }
    items = [with_answers(i, dialogues.get((i.run, i.sample, i.condition))) for i in drawn]
    return Task(
        metric=metric,
        seed=seed,
        items=[item for item in items if item.turns],
        dialogues=dialogues,
        samples=_find_samples(drawn, benchmarks),
        display=first.display,
        pairwise=pairwise,
        keys=choices(ends_of(first.scale, metric), pairwise=pairwise),
        file=LabelFile(out),
        left_out=sum(len(item.turns) for item in drawn) - sum(len(item.turns) for item in items),
    )


def write_label_studio(task: Task, path: Path, images: ImageStore) -> Path:
    """Write the questions as tasks that Label Studio imports; returns its labelling interface.

    The interface is a file next to `path`. `mmconv agree` reads what Label Studio exports. Raises
    `ConfigError` for comparisons: their sides are drawn by mmconv's page.
    """
    if task.pairwise:
        raise ConfigError(
            "Label Studio gets ratings, no comparisons: use the page of `mmconv label`"
        )
    tasks = [
        {
            "data": {
                **shown,
                "question": f"Rate {rated['name']}.",
                "sample": item.sample,
                "metric": task.metric,
                "condition": item.condition,
                "turn": rated["turn"],
                "cluster": item.cluster,
                "run": item.run,
            }
        }
        for number, item in enumerate(task.items)
        for page in [task.page(number, "")]
        for shown in [_show_in_label_studio(page, images)]
        for rated in page["rated"]
    ]
    choice = "".join(f'<Choice value="{text}"/>' for text, _ in task.keys.values())
    pictures = '<Image name="images" valueList="$images"/>'
    interface = path.with_suffix(".xml")
    path.parent.mkdir(parents=True, exist_ok=True)
    for file, content in (
        (path, orjson.dumps(tasks)),
        (
            interface,
            f"""<View>
<Header value="$question"/>{pictures * any(task["data"]["images"] for task in tasks)}
<Paragraphs name="dialogue" value="$dialogue" layout="dialogue"/>
<Text name="about" value="$about"/>
<Choices name="value" toName="dialogue" required="true" showInLine="true">{choice}</Choices>
</View>
""".encode(),
        ),
    ):
        write_file(file, content)
    return interface


def _show_in_label_studio(page: Mapping[str, Any], images: ImageStore) -> dict[str, Any]:
    """A dialogue with its images as Label Studio's data."""
    said: list[dict[str, str]] = []
    names: dict[str, None] = {}
    for turn in page["turns"]:
        for message in turn["asked"]:
            said.append({"author": "user", "text": message["text"]})
            names |= dict.fromkeys(message["images"])
        said.append({"author": f"answer {turn['n']}", "text": turn["answers"][0]})
        if turn["given"] not in (None, turn["answers"][0]):
            said.append({"author": "its place in the dialogue took", "text": turn["given"]})
    data = {name: images.read(name) for name in names}
    return {
        "dialogue": said,
        "images": [
            f"data:{read_media_type(image, name)};base64,{b64encode(image).decode()}"
            for name, image in data.items()
        ],
        "about": "\n\n".join(f"{entry['name']}: {entry['text']}" for entry in page["about"]),
    }


def _find_samples(
    items: Sequence[Item], benchmarks: Mapping[str, Benchmark[Any, Any]]
) -> dict[tuple[str, str], tuple[Benchmark[Any, Any], Any]]:
    """The samples of items by run and name; raises `ConfigError` if the data lack one."""
    known = {
        (run, name_trial(sample.id)): (benchmark, sample)
        for run, benchmark in benchmarks.items()
        for sample in benchmark.load()
    }
    if missing := [item for item in items if (item.run, item.sample) not in known]:
        raise ConfigError(
            f"{missing[0].run}: its data have no sample {missing[0].sample} any more; restore them"
        )
    return known


def _choose_metric(
    benchmark: Benchmark[Any, Any], scores: Sequence[Score], metric: str | None
) -> str:
    """The metric to rate: the given one, or the main one of those that judges rate by numbers."""
    shares = {score.metric for score in scores if not float(score.value or 0).is_integer()}
    scored = dict.fromkeys(score.metric for score in scores)
    rated = [
        name
        for name in dict.fromkeys((benchmark.display.metric, *scored))
        if name in scored and name not in {*ENDINGS, *shares} and ends_of(benchmark.scale, name)
    ]
    if not rated or (metric is not None and metric not in rated):
        raise ConfigError(
            f"{benchmark.name}: people can rate {', '.join(rated) or 'no score of this run'}, "
            f"not {metric or 'its main score'}: it needs a scale of whole numbers"
        )
    return metric or rated[0]


@asynccontextmanager
async def open_label(task: Task, images: ImageStore, settings: Settings) -> AsyncIterator[FastAPI]:
    """The ASGI application with the page and its routes."""
    assignments = Assignments(task.items)
    assignments.take_up(task.file, task.metric)
    shared = Labelling(settings=settings, images=images, task=task, assignments=assignments)
    yield build_app(shared, [*page_routes(), router], openapi_url=None)


@router.get("/")
async def label_page(shared: Shared) -> Response:
    """The page."""
    return render_page(shared, "label", "Label", ("enlarging.js", "work.js"))


class Rater(BaseModel):
    """Who asks."""

    rater: Name


class Rating(Rater):
    """A rating by its key; an empty one skips the question, null takes the rating back."""

    item: int = Field(ge=0)
    turn: int | None
    key: Annotated[str, Field(max_length=1)] | None


@router.get("/web/label")
async def label_state(
    shared: Shared, _caller: Reader, query: Annotated[Rater, Query()]
) -> Response:
    """Get the scale, the progress, and the dialogues that the rater has."""
    task = shared.task
    name = task.display.labels.get(task.metric, task.metric)
    keys = [{"key": key, "text": text} for key, (text, _) in task.keys.items()]
    scale = {"metric": name, "pairwise": task.pairwise, "keys": keys}
    return json_response(scale | shared.state(query.rater))


@router.get("/web/label/items/{number}")
async def label_item(
    number: int, shared: Shared, _caller: Reader, query: Annotated[Rater, Query()]
) -> Response:
    """Get a dialogue of the rater."""
    _require(shared, query.rater, number)
    return json_response(shared.task.page(number, query.rater))


@router.post("/web/label/next")
async def next_item(shared: Shared, _caller: Reader, body: Rater) -> Response:
    """Give the rater a further dialogue; null if none is left."""
    return json_response({"item": shared.assignments.next(body.rater)})


@router.post("/web/label/ratings")
async def rate(shared: Shared, _caller: Reader, body: Rating) -> Response:
    """Write a rating to the file. It is on disk when the answer comes."""
    _require(shared, body.rater, body.item)
    task, item = shared.task, shared.task.items[body.item]
    if body.turn not in item.turns:
        raise Problem(400, "this turn is not rated", param="turn")
    if body.key and body.key not in task.keys:
        raise Problem(400, f"key: one of {', '.join(task.keys)}", param="key")
    value = task.value(item, body.key) if body.key else body.key
    unit = task.unit(item, body.rater, body.turn)
    async with shared.writing:
        try:
            await asyncio.to_thread(task.file.put, unit, value, item.cluster)
        except (ConfigError, OSError) as error:
            raise Problem(409, f"not saved: {error}") from error
    return json_response(shared.state(body.rater))


def _require(shared: Labelling, rater: str, number: int) -> None:
    if number not in shared.assignments.of_rater.get(rater, {}):
        raise Problem(404, "this dialogue is another rater's", param="item")
