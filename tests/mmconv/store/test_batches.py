"""The requests of batches: written, named by the provider and dropped, each batch for itself."""

import time

from mmconv.store import Store
from mmconv.store.batches import KEPT_SECONDS, BatchedRequest


async def test_each_batch_has_rows_of_its_own(store: Store) -> None:
    now, batches = time.time(), store.batched_requests
    await batches.add("first", now, ["a", "b"])
    await batches.add("second", now, ["c"])
    await batches.set_batch("first", "batch_1")
    assert await batches.find(["a", "c", "unknown"]) == [
        BatchedRequest("a", "first", "batch_1", now),
        BatchedRequest("c", "second", None, now),
    ]
    await batches.drop("second", ["a", "c"])
    assert [row.request for row in await batches.find_batch("first")] == ["a", "b"]
    assert await batches.find_batch("second") == []


async def test_a_request_that_is_sent_again_belongs_to_the_later_batch(store: Store) -> None:
    now, batches = time.time(), store.batched_requests
    await batches.add("first", now - 1, ["a"])
    await batches.set_batch("first", "batch_1")
    await batches.add("second", now, ["a"])
    assert await batches.find(["a"]) == [BatchedRequest("a", "second", None, now)]


async def test_requests_whose_results_the_provider_has_deleted_are_forgotten(store: Store) -> None:
    batches = store.batched_requests
    await batches.add("old", time.time() - KEPT_SECONDS - 60, ["a"])
    assert await batches.find(["a"]) == []
