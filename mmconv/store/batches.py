"""The requests that were sent in batches to a provider: their replies are paid for.

A row is written before its batch is sent, and names the provider's batch afterwards. So a run that
is killed at any moment finds its requests again. A row is dropped once its request is known to have
failed, or when the provider has deleted the results.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from time import time
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, delete, select, update

from mmconv.store.rows import BATCH, dialect_insert
from mmconv.store.schema import batched_requests

KEPT_SECONDS = 29 * 86_400
"""After this time Anthropic deletes the results of a batch; OpenAI keeps them for 30 days."""


class BatchedRequest(NamedTuple):
    """A request in a batch: `name` is ours for the batch, `batch` the provider's id, if known.

    `created` are seconds since 1970.
    """

    request: str
    name: str
    batch: str | None
    created: float


class BatchedRequests:
    """A table of requests by their hashes. `guard` makes work wait for a database that is away."""

    def __init__(self, engine: Engine, guard: Callable[[Callable[[Any], Any]], Any]) -> None:
        self._engine = engine
        self._guard = guard

    async def find(self, requests: Collection[str]) -> list[BatchedRequest]:
        """The rows of these requests."""
        return await self._find(batched_requests.c.request, [*requests])

    async def find_batch(self, name: str) -> list[BatchedRequest]:
        """The rows of a batch, by our name of it."""
        return await self._find(batched_requests.c.name, [name])

    async def add(self, name: str, created: float, requests: Collection[str]) -> None:
        """Write the requests of a batch that is about to be sent."""
        rows = [{"request": key, "name": name, "created": created} for key in requests]
        await self._run(_add, rows)

    async def set_batch(self, name: str, batch: str) -> None:
        """Write the provider's id of a batch that was sent."""
        table = batched_requests
        statement = update(table).where(table.c.name == name).values(batch=batch)
        await self._run(lambda connection, _: connection.execute(statement), [])

    async def drop(self, name: str, requests: Collection[str]) -> None:
        """Delete requests of a batch that have no reply in it."""
        await self._run(partial(_drop, name=name), [*requests])

    async def _find(self, column: Any, values: Sequence[str]) -> list[BatchedRequest]:
        rows: list[BatchedRequest] = await self._run(partial(_find, column=column), values)
        return rows

    async def _run(self, work: Callable[[Connection, Any], Any], items: Sequence[Any]) -> Any:
        def transact(items: Sequence[Any]) -> Any:
            with self._engine.begin() as connection:
                return work(connection, items)

        return await asyncio.to_thread(self._guard(transact), items)


def _pieces(items: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]


def _find(connection: Connection, values: Sequence[str], column: Any) -> list[BatchedRequest]:
    table = batched_requests
    connection.execute(delete(table).where(table.c.created < time() - KEPT_SECONDS))
    columns = table.c.request, table.c.name, table.c.batch, table.c.created
    return [
        BatchedRequest(*row)
        for piece in _pieces(values)
        for row in connection.execute(select(*columns).where(column.in_(piece)))
    ]


def _add(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    insert = dialect_insert(connection.dialect.name, batched_requests)
    new = {"name": insert.excluded.name, "batch": None, "created": insert.excluded.created}
    connection.execute(insert.on_conflict_do_update(index_elements=["request"], set_=new), [*rows])


def _drop(connection: Connection, requests: Sequence[str], name: str) -> None:
    table = batched_requests
    for piece in _pieces(requests):
        chosen = table.c.request.in_(piece), table.c.name == name
        connection.execute(delete(table).where(*chosen))
