"""What routes do with jobs of any kind: list them, remove them, and refuse more of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated

from fastapi import Query

from mmconv.service.access import Caller
from mmconv.service.errors.problems import Problem
from mmconv.service.http.query_parameters import QueryParameters
from mmconv.service.state import Service
from mmconv.store.jobs import Filter, Job

FULL_SECONDS = 30.0
"""When a client that has too many jobs is told to come back."""


class DeletionQuery(QueryParameters):
    """Whether something that is not under way is to be removed for good (`purge`), or stopped."""

    purge: bool = False


Deletion = Annotated[DeletionQuery, Query()]
"""A parameter that takes what a DELETE is to do."""


async def job_page(
    shared: Service, chosen: Filter, after: str | None, limit: int
) -> tuple[list[Job], str | None]:
    """At most `limit` jobs behind the one named `after`, and the last one's id if more follow.

    Raises `Problem` 400 for an `after` that the list does not hold; it may have been removed since.
    """
    try:
        found = await shared.queue.page(chosen, after=after, limit=limit + 1)
    except KeyError:
        raise Problem(400, "after: take it from the page before", param="after") from None
    page = found[:limit]
    return page, page[-1].id if len(found) > limit else None


async def remove_job(
    shared: Service,
    job: Job,
    clear: Callable[[Job, Iterable[Job]], None] = lambda _job, _others: None,
) -> None:
    """Remove a job that is not under way; raises `Problem` 409 for another.

    `clear` removes what it has left behind: it is given the job as it is then, and the others.
    """
    left = await shared.queue.remove(job.id, clear)
    if left is not None and left.is_active:
        raise Problem(
            409,
            f"it is {left.state}: stop it (DELETE without purge), and remove it when it has ended",
            param="purge",
            code="under_way",
        )


def too_many_jobs(caller: Caller) -> Problem:
    """What a client is told whose token has as many jobs as it may have."""
    return Problem(
        429,
        f"{caller.limits.concurrent_runs} runs and long dialogues of this token wait or are under "
        "way, and it may have no more; GET /v1/runs and GET /v1/dialogues list them",
        code="too_many_runs",
        retry_after=FULL_SECONDS,
    )
