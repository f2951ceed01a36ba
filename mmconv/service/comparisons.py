"""Finished runs against each other and against people: compared, ranked, and how judges agree."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import orjson
from fastapi import APIRouter, Query
from pydantic import BaseModel, Field, StrictFloat, StrictInt, StrictStr
from starlette.responses import Response

from mmconv.api import AgreementTables, ComparedTables, RankedTables
from mmconv.benchmarks.base.results import Scale
from mmconv.core.config import Strict
from mmconv.core.errors import InputError
from mmconv.core.types import Table
from mmconv.report.agreement.files import read_ratings
from mmconv.report.agreement.panels import Rating, choose, match, require_fields
from mmconv.report.agreement.tables import agreement_tables, read_scale
from mmconv.report.comparison.differences import Comparison, compare
from mmconv.report.comparison.leaderboard import Leaderboard, make_leaderboard
from mmconv.report.tables.formats import FORMATS
from mmconv.run_folder.layout import SCORES
from mmconv.service.access import Caller, Reader, SharedRuns
from mmconv.service.errors import Problem, json_response, presentable
from mmconv.service.openapi import documented
from mmconv.service.published import public_folder
from mmconv.service.requests import JsonRoute, Word
from mmconv.service.run_files import read_in_thread
from mmconv.service.runs import FoundRun, find_run, finished_folder
from mmconv.service.state import Readable
from mmconv.stats.agreement.many_raters import Level
from mmconv.store.jobs import Job

router = APIRouter(
    prefix="/v1", tags=["runs"], responses=documented(404, 409), route_class=JsonRoute
)

MOST_RUNS = 16
"""How many runs are compared at once."""

MOST_RANKED = 64
"""How many runs are ranked at once."""


class CompareQuery(BaseModel):
    """Run ids separated by commas, the baseline first.

    `despite` names what may differ besides the candidates: data, judge, prompts.
    """

    runs: Annotated[str, Field(pattern=r"^[A-Za-z0-9._,-]{1,2100}$")]
    despite: list[Literal["data", "judge", "prompts"]] = Field(default_factory=list, max_length=3)


class RankQuery(CompareQuery):
    """Run ids separated by commas, the column that ranks them, and what else may differ."""

    runs: Annotated[str, Field(pattern=r"^[A-Za-z0-9._,-]{1,8500}$")]
    sort: Word | None = None


class PersonRating(Strict):
    """A person's rating of a sample: a number or a label. `turn` 0 is the whole conversation.

    `cluster` is the sample's dialogue, by default the sample.
    """

    sample: str
    value: StrictInt | StrictFloat | StrictStr
    rater: str = "people"
    metric: str | None = None
    condition: str | None = None
    turn: StrictInt | None = Field(default=None, ge=0)
    cluster: str | None = None


class AgreementRequest(Strict):
    """Ratings by people, compared with the judge's scores of a run, as `mmconv agree` does.

    `metric`, `condition`, `turn` and `tags` choose scores if the ratings do not. `level` is that of
    Krippendorff's alpha, `tie` the value of a tie. Intervals come from `replicates` bootstrap draws
    over dialogues.
    """

    ratings: tuple[PersonRating, ...] = Field(min_length=1)
    metric: str | None = None
    condition: str | None = None
    turn: StrictInt | None = Field(default=None, ge=0)
    tags: Mapping[str, str] = Field(default_factory=dict, max_length=16)
    level: Level | None = None
    tie: str | None = None
    replicates: StrictInt = Field(default=1000, ge=0, le=2000)
    seed: StrictInt = Field(default=0, ge=0, lt=2**32)


@router.get("/compare", response_model=ComparedTables)
async def compare_runs(
    shared: SharedRuns, caller: Reader, query: Annotated[CompareQuery, Query()]
) -> Response:
    """Compare finished runs: paired differences with intervals, then the runs' own tables."""
    runs = await find_runs(shared, caller, query.runs, MOST_RUNS)
    compared = await compare_finished(shared, runs, query.despite)
    return json_response(
        {
            "baseline": compared.runs[0].label,
            "runs": {run.label: run.folder.name for run in compared.runs},
            "tables": [orjson.loads(FORMATS["json"](table)) for table in compared.tables],
        }
    )


async def compare_finished(
    shared: Readable, runs: Iterable[Job], despite: Collection[str]
) -> Comparison:
    """Compare the runs' public folders. Raises `Problem`."""
    folders = await _public_folders(shared, runs)
    with comparing():
        return await read_in_thread(compare, folders, despite=despite)


@router.get("/leaderboard", response_model=RankedTables)
async def rank_runs(
    shared: SharedRuns, caller: Reader, query: Annotated[RankQuery, Query()]
) -> Response:
    """Rank finished runs of one benchmark: the best first, with ranges of ranks.

    `sort` is a column of the tables; by default the benchmark's main score.
    """
    board = await rank_finished(shared, caller, query)
    rows = board.tables[-1].rows
    return json_response(
        {
            "runs": {label: row["run"].value for label, row in rows.items()},
            "warnings": board.warnings,
            "tables": [orjson.loads(FORMATS["json"](table)) for table in board.tables],
        }
    )


async def rank_finished(shared: Readable, caller: Caller, query: RankQuery) -> Leaderboard:
    """Rank the runs' public folders. Raises `Problem`."""
    runs = await find_runs(shared, caller, query.runs, MOST_RANKED)
    folders = await _public_folders(shared, runs)
    async with shared.reporting:
        with comparing():
            return await read_in_thread(
                make_leaderboard, folders, sort=query.sort, despite=query.despite
            )


@router.post("/runs/{run}/agreement", response_model=AgreementTables)
async def measure_agreement(job: FoundRun, body: AgreementRequest, shared: SharedRuns) -> Response:
    """Compare the judge's scores of a run with ratings of the same samples by people."""
    folder = finished_folder(shared, job)
    with comparing("these ratings cannot be compared", "ratings"):
        judged = await read_in_thread(read_ratings, folder / SCORES, body.tags)
        scale = await read_in_thread(read_scale, folder / SCORES)
        async with shared.reporting:
            tables, warnings = await asyncio.to_thread(_agree, judged, scale, body)
    texts = (FORMATS["json"](table) for table in tables)
    return json_response({"warnings": warnings, "tables": [*map(orjson.loads, texts)]})


def _agree(
    judged: Sequence[Rating], scale: Scale, body: AgreementRequest
) -> tuple[list[Table], list[str]]:
    human = [
        Rating(
            where=f"ratings[{place}]",
            **dict(rating) | {"turn": None if rating.turn is None else str(rating.turn)},
        )
        for place, rating in enumerate(body.ratings)
    ]
    turn = None if body.turn is None else str(body.turn)
    fields = {"metric": body.metric, "condition": body.condition, "turn": turn}
    require_fields([*judged, *human], **fields)
    judged, human = choose(judged, **fields), choose(human, **fields)
    pairs = match(judged, human, tie=body.tie, level=body.level)
    return agreement_tables(pairs, human, scale, replicates=body.replicates, seed=body.seed)


async def find_runs(
    shared: Readable, caller: Caller, runs: str, most: int, least: int = 2
) -> list[Job]:
    """The runs whose ids are separated by commas. Raises `Problem`."""
    names = runs.split(",")
    if not least <= len(set(names)) == len(names) <= most:
        raise Problem(400, f"runs: name {least} to {most} different runs", param="runs")
    return [await find_run(shared, caller, name, "runs") for name in names]


async def _public_folders(shared: Readable, runs: Iterable[Job]) -> list[Path]:
    """The public folders of finished runs. Raises `Problem`."""
    return [
        await read_in_thread(public_folder, shared, job, finished_folder(shared, job))
        for job in runs
    ]


@contextmanager
def comparing(
    fallback: str = "these runs cannot be compared", param: str = "runs"
) -> Iterator[None]:
    """Raise `Problem` 400 for what cannot be compared; `param` is the field that names it."""
    try:
        yield
    except InputError as error:
        message = str(error).replace("--allow-mismatch ", "despite=")
        raise Problem(400, presentable(message, fallback), param=param) from error
