"""`/v1/compare`: finished runs of one benchmark side by side, with paired differences."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from mmconv.answers import ComparedTables
from mmconv.core.errors import ConfigError
from mmconv.core.types import Table
from mmconv.report.comparison.differences import Comparison, compare
from mmconv.report.tables.formats import FORMATS
from mmconv.service.access import Reader, Shared
from mmconv.service.docs.responses import documented
from mmconv.service.errors.privacy import presentable
from mmconv.service.errors.problems import Problem, json_response
from mmconv.service.http.query_parameters import QueryParameters
from mmconv.service.results.public_folder import public_folder
from mmconv.service.results.run_files import read_in_thread
from mmconv.service.runs.lookup import find_run, finished_folder
from mmconv.service.state import Service

router = APIRouter(prefix="/v1", tags=["runs"])

MOST_RUNS = 16
"""How many runs are compared at once."""


class CompareQuery(QueryParameters):
    """Which runs, by their ids with commas, the baseline first.

    `despite` names what may differ besides the candidates: data, judge, prompts.
    """

    runs: Annotated[str, Field(pattern=r"^[A-Za-z0-9._,-]{1,2100}$")]
    despite: list[Literal["data", "judge", "prompts"]] = Field(default_factory=list, max_length=3)


@router.get("/compare", response_model=ComparedTables, responses=documented(404, 409))
async def compare_runs(
    shared: Shared, _caller: Reader, asked: Annotated[CompareQuery, Query()]
) -> Response:
    """Compare runs: paired differences with intervals, then the runs' own tables side by side."""
    compared = await compare_finished(shared, asked)
    return json_response(
        {
            "baseline": compared.runs[0].label,
            "runs": {run.label: run.folder.name for run in compared.runs},
            "tables": [_as_json(table) for table in compared.tables],
        }
    )


async def compare_finished(shared: Service, asked: CompareQuery) -> Comparison:
    """Compare the runs' folders as clients may see them; raises `Problem`."""
    names = asked.runs.split(",")
    if not 2 <= len(set(names)) == len(names) <= MOST_RUNS:
        raise Problem(400, f"runs: name 2 to {MOST_RUNS} different runs", param="runs")
    folders = [await _shown(shared, name) for name in names]
    try:
        return await read_in_thread(compare, folders, despite=asked.despite)
    except ConfigError as error:
        message = str(error).replace("--despite ", "despite=")
        words = "these runs cannot be compared"
        raise Problem(400, presentable(message, words), param="runs") from error


async def _shown(shared: Service, name: str) -> Path:
    job = await find_run(shared, name, "runs")
    folder = finished_folder(shared, job)
    return await read_in_thread(public_folder, shared.settings, job, folder)


def _as_json(table: Table) -> Any:
    return orjson.loads(FORMATS["json"](table))
