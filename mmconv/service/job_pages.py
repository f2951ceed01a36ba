"""Lists of jobs, page by page, for the routes of each kind."""

from __future__ import annotations

from mmconv.service.problems import Problem
from mmconv.service.state import Service
from mmconv.store.jobs import Filter, Job


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
